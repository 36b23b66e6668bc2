//! Derives intervals of spinning from samples. Each sample tells whether the thread worked, or why it waited. Consecutive samples of a thread that
//! agree in this form a series. A series counts as an interval, from its first sample to its last.
//!
//! A stretch is an interval in which a thread has one state. A stretch is reported when it ends, after the samples in
//! it. Until then, the series in the stretch are kept in memory; a series takes the space of one sample.

use std::collections::{HashMap, VecDeque};

use wire::Waiting;

/// Maximum distance between two samples of a series, nanoseconds. In a larger gap the thread may have done anything. In
/// a virtual machine, a running thread is sampled every 5 ms, plus or minus a quarter.
const NEAR_NS: u64 = 12_500_000;

/// Maximum number of series of samples in memory: 32 MB. A damaged file may contain samples that belong to no interval in
/// which their thread ran. Series beyond the limit are not marked as spinning.
const MOST: usize = 1 << 20;

/// Returns the name of a slice in which a thread waited on its CPU.
pub fn name(waiting: Waiting) -> String {
    let how = if waiting.is_spinning() { "spinning" } else { "in the kernel" };
    format!("{how} (sampled): {}", waiting.name())
}

/// An interval of spinning, from the first to the last sample of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    pub first_ns: u64,
    pub last_ns: u64,
    pub waiting: Waiting,
}

/// Consecutive samples of a thread that agree: in all of them the thread worked, or in all of them it waited for the same reason.
struct Series {
    first_ns: u64,
    last_ns: u64,
    /// Why the thread waited, according to the samples; `None`: it worked.
    waiting: Option<Waiting>,
}

/// The samples, by thread id, that lie in an interval of running that has not been reported yet. They are kept as series: consecutive samples in
/// which the thread worked, or waited for the same reason.
#[derive(Default)]
pub struct Spins {
    series: HashMap<u32, VecDeque<Series>>,
    held: usize,
}

impl Spins {
    /// Adds a sample. Samples of one thread must arrive in order of time.
    pub fn sample(&mut self, tid: u32, t_ns: u64, waiting: Option<Waiting>) {
        let last = self.series.get_mut(&tid).and_then(VecDeque::back_mut);
        match last.filter(|last| last.waiting == waiting && t_ns.saturating_sub(last.last_ns) <= NEAR_NS) {
            Some(last) => last.last_ns = t_ns,
            None if self.held < MOST => {
                let new = Series { first_ns: t_ns, last_ns: t_ns, waiting };
                self.series.entry(tid).or_default().push_back(new);
                self.held += 1;
            }
            None => {}
        }
    }

    /// Returns the intervals of spinning between `from_ns` and `until_ns`, an interval in which thread `tid` ran. Drops the thread's samples up to
    /// `until_ns`, so calls for one thread must be in order of time.
    pub fn within(&mut self, tid: u32, from_ns: u64, until_ns: u64) -> Vec<Spin> {
        let Some(all) = self.series.get_mut(&tid) else { return Vec::new() };
        let mut spins = Vec::new();
        while let Some(first) = all.front_mut() {
            if first.first_ns > until_ns {
                break;
            }
            let (first_ns, last_ns) = (first.first_ns.max(from_ns), first.last_ns.min(until_ns));
            if let (Some(waiting), true) = (first.waiting, first_ns <= last_ns) {
                spins.push(Spin { first_ns, last_ns, waiting });
            }
            if first.last_ns > until_ns {
                // The series continues after the end of this interval. Keep only the rest of the series, for a later interval.
                first.first_ns = until_ns + 1;
                break;
            }
            all.pop_front();
            self.held -= 1;
        }
        if all.is_empty() {
            self.series.remove(&tid);
        }
        spins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OMP: Option<Waiting> = Some(Waiting::OpenMp);

    #[test]
    fn a_series_that_is_torn_by_a_block_is_two() {
        let mut spins = Spins::default();
        for (t_ns, waiting) in [(10, None), (20, OMP), (30, OMP), (70, OMP), (80, OMP), (90, None)] {
            spins.sample(1, t_ns, waiting);
        }
        let spin = |first_ns, last_ns| Spin { first_ns, last_ns, waiting: Waiting::OpenMp };
        assert_eq!(spins.within(1, 5, 40), [spin(20, 40)]);
        assert_eq!(spins.within(1, 60, 95), [spin(60, 80)]);
        assert_eq!((spins.within(1, 95, 99), spins.within(2, 0, 99)), (vec![], vec![]));
        assert!(spins.series.is_empty() && spins.held == 0);
    }

    #[test]
    fn samples_that_are_far_apart_say_nothing_of_what_is_between() {
        let mut spins = Spins::default();
        spins.sample(1, 10, OMP);
        spins.sample(1, 10 + NEAR_NS + 1, OMP);
        assert_eq!(spins.within(1, 0, NEAR_NS), [Spin { first_ns: 10, last_ns: 10, waiting: Waiting::OpenMp }]);
        assert_eq!(spins.within(1, NEAR_NS, NEAR_NS + 2), []);
    }

    #[test]
    fn samples_of_no_stretch_take_bounded_room() {
        let mut spins = Spins::default();
        for tid in 0..MOST as u32 + 10 {
            spins.sample(tid, 1, OMP);
        }
        assert_eq!((spins.series.len(), spins.held), (MOST, MOST));
        assert_eq!(spins.within(3, 0, 2).len(), 1);
        spins.sample(u32::MAX, 2, OMP);
        assert_eq!(spins.within(u32::MAX, 0, 2).len(), 1);
    }
}
