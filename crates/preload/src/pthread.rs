//! Barriers of POSIX threads.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::pthread_barrier_t;
use wire::preload::PTHREAD;

use crate::{memory, phases};

type Wait = unsafe extern "C-unwind" fn(*mut pthread_barrier_t) -> c_int;

static REAL_WAIT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Wrapper of pthread_barrier_wait(3), which records the barrier.
///
/// # Safety
/// The same requirements as for the real function apply to the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    let Some(real_wait) = real_wait() else { return libc::EINVAL };
    let slot = memory::thread_slot();
    if let Some(slot) = slot {
        memory::note_seen(PTHREAD);
        phases::arrive(slot);
    }
    // SAFETY: guaranteed by the caller.
    let result = unsafe { real_wait(barrier) };
    if let Some(slot) = slot {
        phases::leave(slot);
    }
    result
}

#[inline]
fn real_wait() -> Option<Wait> {
    let mut real_wait = REAL_WAIT.load(Ordering::Relaxed);
    if real_wait.is_null() {
        // SAFETY: the name is a C string. The result is the next library's function of this name.
        real_wait = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_barrier_wait".as_ptr()) }.cast();
        REAL_WAIT.store(real_wait, Ordering::Relaxed);
    }
    // SAFETY: `real_wait` is null or the C library's function pthread_barrier_wait, which has this type.
    unsafe { std::mem::transmute::<*mut (), Option<Wait>>(real_wait) }
}
