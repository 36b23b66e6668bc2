//! Threads of this library.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use libc::pthread_attr_t;

use crate::start;

/// Returns the thread attributes that libgomp uses, as far as the environment determines them.
pub fn gomp_attributes() -> pthread_attr_t {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: the pointer to the attributes is valid; they are initialised before they are used.
    unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        if let Some(bytes) = start::gomp_stack_bytes() {
            // If setting the size fails here, it also fails in libgomp, which then uses the default.
            libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), bytes);
        }
        attributes.assume_init()
    }
}

/// Starts a detached thread that blocks all signals. Returns the error code of pthread_create(3).
pub fn start(
    attributes: Option<&pthread_attr_t>,
    run: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> Result<(), c_int> {
    let attributes = attributes.map_or(ptr::null(), ptr::from_ref);
    let (mut thread, mut all, mut before) = (0, MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the pointers are valid; the calling thread's mask, which the new thread inherits, is restored.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let error = libc::pthread_create(&raw mut thread, attributes, run, argument);
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        if error != 0 {
            return Err(error);
        }
        libc::pthread_detach(thread);
        Ok(())
    }
}
