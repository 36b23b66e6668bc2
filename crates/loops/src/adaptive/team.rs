//! What a request reads of the other threads.

use crate::statistics::Pace;

/// A fraction of an iteration from 0.45 counts as a whole one, as in DLS4LB.
pub(super) const ROUNDING: f64 = 0.55;

/// What the threads of a team have published. Values may be a little old.
pub trait Team {
    /// Returns how fast a thread is.
    fn pace(&self, thread: usize) -> Pace;
    /// Returns the chunk that a thread executes: its iterations, and for how long it has executed them, nanoseconds. 0
    /// iterations: the thread executes none. Only `bold` asks for it.
    fn running(&self, thread: usize) -> (u64, f64);
}

impl Team for [Pace] {
    fn pace(&self, thread: usize) -> Pace {
        self.get(thread).copied().unwrap_or_default()
    }

    fn running(&self, _: usize) -> (u64, f64) {
        (0, 0.0)
    }
}
