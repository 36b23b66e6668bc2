//! The calling thread's worker, where two instructions find it, at every task and every question about one.

use std::ptr;

use tasks::worker::Worker;

arch::own_word!();

/// Null: it has none yet.
#[inline]
pub fn get() -> *const Worker {
    ptr::with_exposed_provenance(word())
}

/// Makes it the calling thread's; null: it has none.
pub fn set(worker: *const Worker) {
    set_word(worker.expose_provenance());
}

/// The calling thread's worker, if it is in a region whose tasks are ours.
#[inline]
pub fn here() -> Option<&'static Worker> {
    // SAFETY: null, or this thread's, which is there until the thread ends.
    unsafe { get().as_ref() }.filter(|worker| worker.team().is_some())
}

/// The calling thread's worker, wherever it is.
#[inline]
pub fn anywhere() -> Option<&'static Worker> {
    // SAFETY: as above.
    unsafe { get().as_ref() }
}
