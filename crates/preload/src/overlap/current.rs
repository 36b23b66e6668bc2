//! The calling thread's worker, in a thread-local variable that two instructions can read, because every task and every query about a task needs
//! it.

use std::ptr;

use tasks::worker::Worker;

arch::thread_local_word!();

/// Returns the calling thread's worker; null if it has none yet.
#[inline]
pub fn get() -> *const Worker {
    ptr::with_exposed_provenance(word())
}

/// Sets the calling thread's worker; null removes it.
pub fn set(worker: *const Worker) {
    set_word(worker.expose_provenance());
}

/// Returns the calling thread's worker, if the thread is in a region whose tasks `overlap` runs.
#[inline]
pub fn worker_in_region() -> Option<&'static Worker> {
    // SAFETY: null or this thread's worker, which lives until the thread ends.
    unsafe { get().as_ref() }.filter(|worker| worker.team().is_some())
}

/// Returns the calling thread's worker, inside and outside of such regions.
#[inline]
pub fn worker_anywhere() -> Option<&'static Worker> {
    // SAFETY: null or this thread's worker, which lives until the thread ends.
    unsafe { get().as_ref() }
}
