//! How fast each thread has executed a loop in all its instances so far: `awf`, `static_weighted`.
//!
//! A history belongs to a plan, and so to one loop and one team; the thread with its number adds to it, and to no other. The speed is also in an atomic
//! word, which other threads read when they join an instance. With `nowait`, it may be one of an instance before or after the latest one.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

use loops::adaptive::team::Team;
use loops::history::History;
use loops::{Finished, Pace, Timing};

use crate::cpu_time;

/// One for each thread of a team.
pub struct Histories(Box<[Line]>);

#[repr(align(128))]
struct Line {
    /// Time of an iteration, nanoseconds, or ticks if wall time counts; 0 if unknown.
    mean: AtomicU64,
    history: UnsafeCell<History>,
}

// SAFETY: `add` accesses the line of the calling thread only.
unsafe impl Sync for Histories {}

impl std::fmt::Debug for Histories {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_list().entries((0..self.0.len()).map(|thread| self.pace(thread))).finish()
    }
}

impl Histories {
    /// Returns empty histories of `threads` threads.
    pub fn new(threads: usize, timing: Timing) -> Histories {
        let line = |_| Line { mean: AtomicU64::new(0), history: UnsafeCell::new(History::new(timing)) };
        Histories((0..threads).map(line).collect())
    }

    /// Adds an instance of the calling thread, whose number in the team is `thread`.
    pub fn add(&self, thread: usize, instance: &Finished) {
        let Some(line) = self.0.get(thread) else { return };
        // SAFETY: the team's thread with this number calls this, and no other.
        let history = unsafe { &mut *line.history.get() };
        history.add(instance);
        if instance.cpu_ns > 0.0 {
            // The share of the CPU is the thread's, from all its loops.
            history.set_share(cpu_time::share());
            history.end_instance();
            cpu_time::set_share(history.share());
        } else {
            history.end_instance();
        }
        let mean = history.speed().map_or(0.0, |speed| 1.0 / speed);
        line.mean.store(mean.to_bits(), Ordering::Relaxed);
    }
}

impl Team for Histories {
    fn pace(&self, thread: usize) -> Pace {
        let mean = self.0.get(thread).map_or(0, |line| line.mean.load(Ordering::Relaxed));
        Pace { mean_ns: f64::from_bits(mean), ..Pace::default() }
    }

    fn running(&self, _: usize) -> (u64, f64) {
        (0, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_adds_to_its_own_history() {
        let histories = Histories::new(2, Timing::Wall);
        assert_eq!(histories.pace(0).speed(), None);
        let instance = |wall_ns| Finished { iterations: 10, wall_ns, ..Finished::default() };
        histories.add(1, &instance(20.0));
        assert_eq!((histories.pace(0).speed(), histories.pace(1).mean_ns), (None, 2.0));
        // The second instance counts twice.
        histories.add(1, &instance(50.0));
        assert_eq!(histories.pace(1).mean_ns, 4.0);
    }
}
