//! What the kernel says of the calling thread, sleeping, and the time.

use std::mem::MaybeUninit;
use std::ptr;

/// Times that a thread tries to leave its CPU.
const LEAVES: u32 = 100;

pub(crate) fn sleep_ns(ns: libc::c_long) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: ns };
    // SAFETY: a time to sleep, and nowhere to write what is left of it.
    unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
}

/// A thread is noticed, enlisted or discharged, when it next leaves its CPU: now.
pub fn leave_once() {
    let before = sleeps();
    // The time may be over before the thread has gone to sleep.
    for _ in 0..LEAVES {
        sleep_ns(1);
        if sleeps() != before {
            return;
        }
    }
}

/// How often the calling thread has gone to sleep.
fn sleeps() -> libc::c_long {
    usage().ru_nvcsw
}

/// What the kernel counts of the calling thread.
pub(crate) fn usage() -> libc::rusage {
    let mut usage = MaybeUninit::uninit();
    // SAFETY: a place for it, and a call that cannot fail.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    }
}

/// The time, on the clock that BPF has.
#[must_use]
pub fn now_ns() -> u64 {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: a place for the time.
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub(crate) fn tid() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::gettid() as u32 }
}
