//! Whether overlap is active.

use std::sync::atomic::{AtomicBool, Ordering};

static WANTED: AtomicBool = AtomicBool::new(false);

/// Returns whether `overlap` runs the tasks of regions that begin now.
#[inline]
pub fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Activates overlap from now on.
pub fn want() {
    WANTED.store(true, Ordering::Relaxed);
}
