//! State of the spin throttle of one OpenMP library; `throttle` implements it.

use std::sync::atomic::{AtomicU32, Ordering};

/// State of one library's spin throttle.
pub struct ThrottleState(pub AtomicU32);

/// The throttle is not active.
pub const IDLE: u32 = 0;

/// The throttle has a helper thread.
pub const BEGUN: u32 = 1;

/// The throttle cannot work in this program.
pub const IMPOSSIBLE: u32 = 2;

impl ThrottleState {
    /// Creates an inactive throttle.
    pub const fn new() -> ThrottleState {
        ThrottleState(AtomicU32::new(IDLE))
    }

    /// Resets the state in a forked child, which has no helper thread. An impossible throttle stays impossible.
    pub fn forget(&self) {
        // It does not matter whether there was a helper, so the result is ignored.
        let _ = self.0.compare_exchange(BEGUN, IDLE, Ordering::Relaxed, Ordering::Relaxed);
    }
}
