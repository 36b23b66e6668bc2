//! The function of libgomp that one of our functions calls.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

thread_local! {
    /// The libgomp function that our function, which this thread calls next, has to call. It is in a variable, because the call has no room for
    /// another argument.
    static BEYOND: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// Sets the libgomp function that our function, which this thread calls next, has to call.
pub fn goes_on_to(real: *mut c_void) {
    BEYOND.set(real);
}

/// Returns the libgomp function that our function, which this thread has called, has to call.
pub fn beyond() -> *mut c_void {
    BEYOND.get()
}
