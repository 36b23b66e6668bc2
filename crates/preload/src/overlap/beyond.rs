//! The libgomp function that one of our functions has to call.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

thread_local! {
    /// The libgomp function that belongs to the program's present call on this thread. The dispatch (`ways`) sets it before one of our functions
    /// runs, because the call has no room for another argument.
    static BEYOND: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// Sets the libgomp function that belongs to the program's present call, for our function that runs next.
pub fn goes_on_to(real: *mut c_void) {
    BEYOND.set(real);
}

/// Returns the libgomp function that belongs to the program's present call.
pub fn beyond() -> *mut c_void {
    BEYOND.get()
}
