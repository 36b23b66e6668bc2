//! Whether tasks are ours.

use std::sync::atomic::{AtomicBool, Ordering};

static WANTED: AtomicBool = AtomicBool::new(false);

/// Whether tasks are ours in regions that begin now.
#[inline]
pub fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// They are, from now on.
pub fn want() {
    WANTED.store(true, Ordering::Relaxed);
}
