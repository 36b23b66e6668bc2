//! The real function of a call: the libgomp function that one of our functions has to call.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

thread_local! {
    /// The libgomp function that the program has called on this thread.
    /// `dispatch` sets it before it calls our function instead, because the call has no room for another argument.
    static REAL_FN: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// Sets the libgomp function that belongs to the program's present call, for our function that runs next.
pub fn set_real_fn(real_fn: *mut c_void) {
    REAL_FN.set(real_fn);
}

/// Returns the libgomp function that belongs to the program's present call.
pub fn real_fn() -> *mut c_void {
    REAL_FN.get()
}
