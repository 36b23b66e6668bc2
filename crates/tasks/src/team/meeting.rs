//! The counters of a barrier.

use crate::sync::AtomicU32;

/// Words that members write when they arrive at a barrier.
pub(super) struct Meeting {
    pub arrived: AtomicU32,
    /// Number of the current barrier. Several threads may find that the barrier can be passed. The one that increments this word lets the
    /// members pass.
    pub passing: AtomicU32,
    /// Number of members that stay at the end of a region that ends without a barrier.
    pub staying: AtomicU32,
}

impl Meeting {
    pub fn new() -> Meeting {
        Meeting { arrived: AtomicU32::new(0), passing: AtomicU32::new(0), staying: AtomicU32::new(0) }
    }
}
