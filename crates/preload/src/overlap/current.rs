//! What belongs to the calling thread: its worker (the data that it needs to run tasks), and the libgomp function that one of our functions has to
//! call.
//!
//! The worker is in a thread-local variable that two instructions can read, because every task and every query about a task needs it.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use tasks::worker::Worker;

arch::thread_local_word!();

thread_local! {
    /// The libgomp function that the program has called on this thread. `dispatch` sets this variable before it calls our function in place of
    /// libgomp's. It cannot pass the address as an argument, because our function has exactly the parameters of libgomp's.
    static REAL_FN: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// Sets the calling thread's worker (the data that it needs to run tasks); null removes it.
pub fn set(worker: *const Worker) {
    set_word(worker.expose_provenance());
}

/// Returns the calling thread's worker, if the thread is in a region whose tasks `overlap` runs.
#[inline]
pub fn worker_in_region() -> Option<&'static Worker> {
    worker_anywhere().filter(|worker| worker.team().is_some())
}

/// Returns the calling thread's worker, also outside of the regions whose tasks `overlap` runs; `None` if the thread has no worker yet.
#[inline]
pub fn worker_anywhere() -> Option<&'static Worker> {
    // SAFETY: the word is null or the address of this thread's worker, which lives until the thread ends.
    unsafe { ptr::with_exposed_provenance::<Worker>(word()).as_ref() }
}

/// Stores the libgomp function that the program has called, for our function that handles the call in its place.
pub fn set_real_fn(real_fn: *mut c_void) {
    REAL_FN.set(real_fn);
}

/// Returns the libgomp function that the program has called on this thread, and whose call one of our functions now handles.
pub fn real_fn() -> *mut c_void {
    REAL_FN.get()
}
