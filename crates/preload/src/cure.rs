//! What is done about one library's spinning; `throttle` does it.

use std::sync::atomic::{AtomicU32, Ordering};

/// One library's cure.
pub struct Cure(pub AtomicU32);

/// Nothing is done.
pub const IDLE: u32 = 0;

/// There is a helper.
pub const BEGUN: u32 = 1;

/// It cannot be done in this program.
pub const IMPOSSIBLE: u32 = 2;

impl Cure {
    /// Nothing has been done.
    pub const fn new() -> Cure {
        Cure(AtomicU32::new(IDLE))
    }

    /// In a forked child: the helper is not here. What cannot be done cannot be done here either.
    pub fn forget(&self) {
        // The result says whether there was one, which nobody wants to know.
        let _ = self.0.compare_exchange(BEGUN, IDLE, Ordering::Relaxed, Ordering::Relaxed);
    }
}
