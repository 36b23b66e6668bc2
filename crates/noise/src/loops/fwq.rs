//! Fixed work quanta: the thread repeats the same work. A quantum that takes longer than the shortest one was disturbed.

use std::sync::atomic::AtomicBool;

use arch::measuring::{Gap, fma_work, integer_work, streaming_work, ticks};

use super::{Ring, Series, Window, is_over, wait_for};
use crate::plan::Work;

/// Memory of the streaming work, bytes: more than a first-level cache, less than most shares of a last-level cache.
const STREAM_BYTES: usize = 1 << 20;
/// Number of quanta that are tried for each size while the work is adapted.
const TRIES: usize = 30;
/// The size of the work is adapted until a quantum is off by less than this share.
const NEAR: f64 = 0.005;
/// Number of times that the size is adapted at most.
const STEPS: usize = 20;

/// Work of a fixed size.
#[derive(Debug)]
pub struct Worker {
    work: Work,
    memory: Vec<u64>,
    at: u64,
    units: u64,
}

impl Worker {
    /// Makes work that takes `quantum` ticks on this CPU. The size is found by the shortest of several tries, because the others were disturbed.
    /// Work of more than `longest_try` ticks is found from smaller work: tries of it would take too long, and a tick would disturb each of them.
    #[must_use]
    pub fn new(work: Work, quantum: u64, longest_try: u64) -> Worker {
        let tried = quantum.min(longest_try);
        let mut worker = Worker::adapted(work, tried);
        worker.units = ((worker.units as f64 * (quantum as f64 / tried.max(1) as f64)).round() as u64).max(1);
        worker
    }

    fn adapted(work: Work, quantum: u64) -> Worker {
        let words = if work == Work::Streaming { STREAM_BYTES / 8 } else { 8 };
        let mut worker = Worker { work, memory: vec![1; words], at: 0, units: (quantum / 16).max(1) };
        for _ in 0..STEPS {
            let took = (0..TRIES).map(|_| worker.quantum()).min().unwrap_or(1).max(1);
            let ratio = quantum as f64 / took as f64;
            if (ratio - 1.0).abs() < NEAR {
                break;
            }
            worker.units = ((worker.units as f64 * ratio.clamp(0.1, 10.0)).round() as u64).max(1);
        }
        worker
    }

    /// Does the work once. Returns how long it took, ticks.
    pub fn quantum(&mut self) -> u64 {
        let begin = ticks();
        self.go();
        ticks() - begin
    }

    /// Does the work once.
    pub fn go(&mut self) {
        match self.work {
            Work::Integer => integer_work(self.units),
            Work::Fma => fma_work(self.units),
            Work::Streaming => self.at = streaming_work(self.units, &mut self.memory, self.at),
        }
    }
}

/// Records the time of each quantum of a window.
pub fn measure(window: Window, mut worker: Worker, mut quanta: Ring<Gap>, stop: &AtomicBool) -> Series {
    let begin = wait_for(window.begin);
    let mut last = begin;
    while last < window.end && !is_over(stop) {
        let before = ticks();
        worker.go();
        last = ticks();
        if !quanta.push(Gap { before, after: last }) {
            break;
        }
    }
    from_quanta(quanta.into_items(), &window, (begin, last))
}

/// Finds the disturbed quanta: those that took longer than the shortest one by more than the threshold.
pub(super) fn from_quanta(quanta: Vec<Gap>, wanted: &Window, window: (u64, u64)) -> Series {
    let samples: Vec<u64> = quanta.iter().map(|quantum| quantum.after - quantum.before).collect();
    let smallest = samples.iter().copied().min().unwrap_or(0);
    let gaps: Vec<Gap> =
        quanta.into_iter().filter(|quantum| quantum.after - quantum.before - smallest > wanted.threshold).collect();
    let watched = arch::measuring::Watched { smallest, readings: samples.len() as u64 };
    let mut series = Series { watched, samples, window, ..Series::default() };
    gaps.iter().for_each(|gap| series.take(gap.after - gap.before - smallest, wanted));
    Series { gaps, ..series }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_that_takes_longer_than_the_shortest_is_a_detour() {
        let quantum = |before, after| Gap { before, after };
        let wanted = Window { begin: 0, end: 530, threshold: 10, coarse: 201 };
        let series = from_quanta(vec![quantum(0, 110), quantum(120, 220), quantum(230, 530)], &wanted, (0, 530));
        assert_eq!(series.samples, [110, 100, 300]);
        assert_eq!(series.gaps, [quantum(230, 530)], "10 is not above the threshold");
        assert_eq!((series.all.sum, series.coarse.count, series.watched.smallest), (200, 0, 100));
    }

    #[test]
    fn work_is_adapted_to_the_quantum() {
        for work in [Work::Integer, Work::Streaming] {
            let mut worker = Worker::new(work, 200_000, 1_000_000);
            let took = (0..50).map(|_| worker.quantum()).min().unwrap();
            assert!((150_000..250_000).contains(&took), "{work:?} {took}");
        }
    }

    /// Tries of two seconds would take a minute for each size.
    #[test]
    fn long_work_is_adapted_by_short_tries() {
        let begin = ticks();
        let mut worker = Worker::new(Work::Integer, 200_000_000, 1_000_000);
        assert!(ticks() - begin < 20 * 200_000_000, "{}", ticks() - begin);
        let took = (0..3).map(|_| worker.quantum()).min().unwrap();
        // Other programs on the CPU make it longer.
        assert!((100_000_000..1_600_000_000).contains(&took), "{took}");
    }
}
