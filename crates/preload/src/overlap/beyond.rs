//! The function of libgomp that one of our functions calls.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

thread_local! {
    /// The function of libgomp for our function that this thread calls next. A variable, because the call has no room for another argument.
    static BEYOND: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// Sets the function of libgomp for our function that this thread calls next.
pub fn goes_on_to(real: *mut c_void) {
    BEYOND.set(real);
}

/// Returns the function of libgomp for our function that this thread has called.
pub fn beyond() -> *mut c_void {
    BEYOND.get()
}
