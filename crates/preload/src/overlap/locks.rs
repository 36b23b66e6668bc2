//! Nestable locks, which a task owns (OpenMP 5.2, chapter 18.9) and not the thread that runs it.
//!
//! libgomp takes the present implicit task for the owner, whatever task of ours runs in it. So here the owner is entered in the program's
//! lock, as libgomp does it (config/linux/lock.c) and with its own simple lock inside: threads outside of our regions may use the same lock. To unset a
//! lock libgomp does not ask for the owner.
//!
//! A task that waits for a lock blocks its thread, and standbys run others, as with a simple lock. If the owner cannot go on before the waiting
//! task has ended, since it is its parent and waits for it, both wait for ever, as with libgomp.
//!
//! This is the lock of programs that gcc 4.4 or a later one has built. Earlier ones have a smaller lock, and no tasks.

use std::ffi::c_int;
use std::mem::transmute;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::beyond::beyond;
use super::here::here;

/// libgomp's lock (`omp_nest_lock_t`).
#[repr(C)]
pub struct NestLock {
    /// The simple one inside.
    lock: c_int,
    count: c_int,
    /// 0: nobody.
    owner: AtomicUsize,
}

/// The present task.
fn me() -> usize {
    here().map_or(0, tasks::worker::Worker::present)
}

/// Takes a lock, once more if the task has it.
///
/// # Safety
/// The program's lock, and `omp_set_lock` was [told](super::goes_on_to).
pub unsafe extern "C" fn set(lock: *mut NestLock) {
    let me = me();
    // SAFETY: the caller's promise. Others may write the owner, which is another's then, before and behind.
    if unsafe { &(*lock).owner }.load(Ordering::Relaxed) != me {
        // SAFETY: as above; the function has this type.
        unsafe {
            let set: unsafe extern "C" fn(*mut c_int) = transmute(beyond());
            set(&raw mut (*lock).lock);
            (*lock).owner.store(me, Ordering::Relaxed);
        }
    }
    // SAFETY: the lock is this task's.
    unsafe { (*lock).count += 1 };
}

/// Takes a lock if it is free or the task's: how often it has it, or 0.
///
/// # Safety
/// The program's lock, and `omp_test_lock` was [told](super::goes_on_to).
pub unsafe extern "C" fn test(lock: *mut NestLock) -> c_int {
    let me = me();
    // SAFETY: as in `set`.
    if unsafe { &(*lock).owner }.load(Ordering::Relaxed) != me {
        // SAFETY: as in `set`.
        unsafe {
            let test: unsafe extern "C" fn(*mut c_int) -> c_int = transmute(beyond());
            if test(&raw mut (*lock).lock) == 0 {
                return 0;
            }
            (*lock).owner.store(me, Ordering::Relaxed);
        }
    }
    // SAFETY: the lock is this task's.
    unsafe {
        (*lock).count += 1;
        (*lock).count
    }
}

/// The same for Fortran, whose variable has the lock's address.
///
/// # Safety
/// As [`set`].
pub unsafe extern "C" fn set_fortran(lock: *const *mut NestLock) {
    // SAFETY: the caller's promise.
    unsafe { set(*lock) };
}

/// The same for Fortran.
///
/// # Safety
/// As [`test`].
pub unsafe extern "C" fn test_fortran(lock: *const *mut NestLock) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { test(*lock) }
}
