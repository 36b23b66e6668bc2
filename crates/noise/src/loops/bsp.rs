//! Bulk-synchronous steps: all threads do the same work, then wait for each other. A step lasts as long as the slowest thread needs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arch::measuring::{Gap, ticks};

use super::fwq::{Worker, from_quanta};
use super::{NO_GAP, Ring, Series, Window, is_over, wait_for};

/// A barrier in which threads spin: a thread that sleeps would have to be woken, which costs more than the noise that is measured.
#[derive(Debug)]
pub struct Barrier {
    threads: u64,
    arrived: AtomicU64,
}

impl Barrier {
    /// Makes a barrier for this many threads.
    #[must_use]
    pub fn new(threads: usize) -> Barrier {
        Barrier { threads: threads as u64, arrived: AtomicU64::new(0) }
    }

    /// Waits for all threads.
    pub fn wait(&self) {
        let number = self.arrived.fetch_add(1, Ordering::AcqRel);
        let all = (number / self.threads + 1) * self.threads;
        while self.arrived.load(Ordering::Acquire) < all {
            std::hint::spin_loop();
        }
    }
}

/// What the threads of a measurement share.
#[derive(Debug)]
pub struct Meeting {
    barrier: Barrier,
    /// The number of the last step.
    last_step: AtomicU64,
}

impl Meeting {
    /// Makes a meeting of this many threads.
    #[must_use]
    pub fn new(threads: usize) -> Meeting {
        Meeting { barrier: Barrier::new(threads), last_step: AtomicU64::new(u64::MAX) }
    }
}

/// Memory for the times of steps, and of their work.
#[derive(Debug)]
pub struct Rings {
    whole: Ring<u64>,
    steps: Ring<Gap>,
}

impl Rings {
    /// Makes memory for this many steps.
    #[must_use]
    pub fn new(steps: usize) -> Rings {
        Rings { whole: Ring::new(steps, u64::MAX), steps: Ring::new(steps, NO_GAP) }
    }
}

/// Records the time of each step, and of the part before the barrier.
///
/// The thread that `leads` ends the measurement: before it arrives at a barrier, it stores the number of this step as the last one. Every thread
/// reads it behind the barrier, so all of them do the same number of steps.
pub fn measure(
    window: Window,
    mut worker: Worker,
    rings: Rings,
    meeting: &Meeting,
    leads: bool,
    stop: &AtomicBool,
) -> Series {
    let Rings { mut whole, mut steps } = rings;
    let room = whole.room();
    let begin = wait_for(window.begin);
    meeting.barrier.wait();
    let mut last = ticks();
    for step in 1..=room as u64 {
        worker.go();
        let done = ticks();
        if leads && (done >= window.end || is_over(stop)) {
            meeting.last_step.store(step, Ordering::Release);
        }
        meeting.barrier.wait();
        let after = ticks();
        whole.push(after - last);
        steps.push(Gap { before: last, after: done });
        last = after;
        if step >= meeting.last_step.load(Ordering::Acquire) {
            break;
        }
    }
    // Up to the barrier, a step is a quantum of work.
    let work = from_quanta(steps.into_items(), &window, (begin, last));
    Series { compute: work.samples, samples: whole.into_items(), ..work }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Work;

    #[test]
    fn all_threads_do_the_same_number_of_steps() {
        let (meeting, stop) = (Meeting::new(2), AtomicBool::new(false));
        let begin = ticks();
        let window = Window { begin, end: begin + 400_000_000, threshold: 1_000, coarse: 10_000 };
        let one = |leads| {
            measure(window, Worker::new(Work::Integer, 100_000, 100_000), Rings::new(10_000), &meeting, leads, &stop)
        };
        let (a, b) = std::thread::scope(|scope| {
            let other = scope.spawn(|| one(false));
            (one(true), other.join().unwrap())
        });
        assert_eq!(a.samples.len(), b.samples.len());
        assert!(a.samples.len() > 1, "{}", a.samples.len());
        let not_longer = a.compute.iter().zip(&a.samples).all(|(compute, whole)| compute <= whole);
        assert!(not_longer, "the barrier comes after the work");
    }

    #[test]
    fn no_thread_passes_the_barrier_before_all_have_come() {
        let (barrier, step) = (Barrier::new(3), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for n in 1..=50 {
                        step.fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        assert!(step.load(Ordering::Relaxed) >= 3 * n);
                        barrier.wait();
                    }
                });
            }
        });
        assert_eq!(step.into_inner(), 150);
    }
}
