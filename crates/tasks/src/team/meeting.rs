//! Who has come to a barrier.

use std::sync::atomic::AtomicU32;

/// What members write who come to a barrier.
pub(super) struct Meeting {
    pub arrived: AtomicU32,
    /// The generation that somebody has let pass, or is about to.
    pub passing: AtomicU32,
    /// Those that stay at a region's end that is no barrier.
    pub staying: AtomicU32,
}

impl Meeting {
    pub fn new() -> Meeting {
        Meeting { arrived: AtomicU32::new(0), passing: AtomicU32::new(0), staying: AtomicU32::new(0) }
    }
}
