//! Where a function of ours goes on to in libgomp.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

thread_local! {
    /// libgomp's function, for the one of ours that this thread calls next, which has no room for another argument.
    static BEYOND: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// Has the next function of ours that this thread calls, and that wants one, go on to that one of libgomp's.
pub fn goes_on_to(real: *mut c_void) {
    BEYOND.set(real);
}

/// libgomp's function, for the one of ours that this thread has called.
pub fn beyond() -> *mut c_void {
    BEYOND.get()
}
