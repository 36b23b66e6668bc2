//! Nestable locks, which are owned by a task (OpenMP 5.2, chapter 18.9) and not by the thread that runs it.
//!
//! libgomp takes the present implicit task as the owner, even if one of our tasks runs in it. Therefore this module writes the owner into the
//! program's lock itself, as libgomp does (config/linux/lock.c), and uses libgomp's simple lock inside, because threads outside our regions may use
//! the same lock. libgomp does not check the owner when it unsets a lock.
//!
//! A task that waits for a lock blocks its thread, and standbys run other tasks, as with a simple lock. If the owner cannot continue before the
//! waiting task has ended, because it is the parent and waits for that task, both wait for ever, as with libgomp.
//!
//! The layout is that of programs built by gcc 4.4 or later. Earlier versions have a smaller lock, and no tasks.

use std::ffi::c_int;
use std::mem::transmute;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::current::{real_fn, worker_in_region};

/// libgomp's lock (`omp_nest_lock_t`).
#[repr(C)]
pub struct NestLock {
    /// The simple lock inside.
    lock: c_int,
    count: c_int,
    /// The owning task; 0 if there is none.
    owner: AtomicUsize,
}

/// Returns the id of the task that runs on this thread, as stored in [`NestLock::owner`] while the task owns a lock.
fn me() -> usize {
    worker_in_region().map_or(0, tasks::worker::Worker::present)
}

/// Takes a lock for the present task, which may own it already. `take_simple` takes the simple lock inside, and returns whether it succeeded.
/// Returns the lock's new count, or 0 if another task owns the lock.
///
/// # Safety
/// `lock` is the program's lock.
unsafe fn take(lock: *mut NestLock, take_simple: impl FnOnce(*mut c_int) -> bool) -> c_int {
    let me = me();
    // SAFETY: the caller guarantees that `lock` is valid. Other threads may store an owner at the same time, but none of them ever stores the id of
    // the task that runs here. So the comparison below is right, whichever value it loads.
    let owner = unsafe { &(*lock).owner };
    if owner.load(Ordering::Relaxed) != me {
        // SAFETY: guaranteed by the caller.
        if !take_simple(unsafe { &raw mut (*lock).lock }) {
            return 0;
        }
        owner.store(me, Ordering::Relaxed);
    }
    // SAFETY: this task owns the lock, so no other thread accesses the count.
    unsafe {
        (*lock).count += 1;
        (*lock).count
    }
}

/// Takes a lock. If the task owns the lock already, only increments the lock's count.
///
/// # Safety
/// `lock` is the program's lock, and `omp_set_lock` was passed to [`set_real_fn`](super::set_real_fn).
pub unsafe extern "C" fn set(lock: *mut NestLock) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let set: unsafe extern "C" fn(*mut c_int) = transmute(real_fn());
        take(lock, |simple| {
            set(simple);
            true
        });
    }
}

/// Takes a lock if it is free or owned by the task. Returns the new count, or 0 if another task owns the lock.
///
/// # Safety
/// `lock` is the program's lock, and `omp_test_lock` was passed to [`set_real_fn`](super::set_real_fn).
pub unsafe extern "C" fn test(lock: *mut NestLock) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let test: unsafe extern "C" fn(*mut c_int) -> c_int = transmute(real_fn());
        take(lock, |simple| test(simple) != 0)
    }
}

/// Fortran form of [`set`]: the program's variable contains the address of the lock.
///
/// # Safety
/// As for [`set`].
pub unsafe extern "C" fn set_fortran(lock: *const *mut NestLock) {
    // SAFETY: guaranteed by the caller.
    unsafe { set(*lock) };
}

/// Fortran form of [`test`].
///
/// # Safety
/// As for [`test`].
pub unsafe extern "C" fn test_fortran(lock: *const *mut NestLock) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { test(*lock) }
}
