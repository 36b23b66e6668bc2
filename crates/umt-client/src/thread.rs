//! The calling thread: its errno, the kernel's counts for it, its sleep, its thread id, and the clock.

use std::mem::MaybeUninit;
use std::ptr;

/// Guard that restores the program's errno, for calls that the program does not make.
pub struct Errno(libc::c_int);

impl Errno {
    /// Saves errno until the result is dropped.
    #[must_use]
    pub fn keep() -> Errno {
        // SAFETY: errno belongs to the calling thread.
        Errno(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: errno belongs to the calling thread.
        unsafe { *libc::__errno_location() = self.0 }
    }
}

/// Maximum number of short sleeps by which [`leave_once`] tries to leave the CPU.
const LEAVES: u32 = 100;

pub(crate) fn sleep_ns(ns: libc::c_long) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: ns };
    // SAFETY: `time` is valid. The null pointer means that the remaining time is not wanted.
    unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
}

/// Makes the calling thread leave its CPU. The kernel side begins (or stops) to track a thread only when that thread next leaves its CPU.
pub fn leave_once() {
    let before = sleeps();
    // Several attempts, because the time may expire before the thread sleeps.
    for _ in 0..LEAVES {
        sleep_ns(1);
        if sleeps() != before {
            return;
        }
    }
}

/// Returns how often the calling thread has gone to sleep: its voluntary switches.
fn sleeps() -> libc::c_long {
    usage().ru_nvcsw
}

/// Returns the kernel's counts for the calling thread.
pub(crate) fn usage() -> libc::rusage {
    let mut usage = MaybeUninit::uninit();
    // SAFETY: `usage` has space for the result, and the call cannot fail with these arguments.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    }
}

/// Returns the time in nanoseconds on CLOCK_MONOTONIC, the clock that BPF uses.
#[must_use]
pub fn now_ns() -> u64 {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `now` has space for the result, and the call cannot fail with this clock.
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub(crate) fn tid() -> u32 {
    // SAFETY: the call takes no arguments, and returns a number.
    unsafe { libc::gettid() as u32 }
}
