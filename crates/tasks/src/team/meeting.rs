//! The counters of a barrier.

use std::sync::atomic::AtomicU32;

/// Words that members write when they arrive at a barrier.
pub(super) struct Meeting {
    pub arrived: AtomicU32,
    /// Generation of the next barrier. A thread raises this word to win the right to end the current barrier.
    pub passing: AtomicU32,
    /// Number of members that stay at a region's end that is no barrier.
    pub staying: AtomicU32,
}

impl Meeting {
    pub fn new() -> Meeting {
        Meeting { arrived: AtomicU32::new(0), passing: AtomicU32::new(0), staying: AtomicU32::new(0) }
    }
}
