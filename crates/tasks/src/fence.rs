//! A full fence of which one side pays nearly nothing.
//!
//! Who pushes a task must not overlook somebody who is about to sleep, and who is about to sleep must not overlook the
//! task: both write one word, then read the other's, and both need a full fence in between. Tasks are pushed millions
//! of times a second, sleep is rare; so the pusher's fence is for the compiler only, and the sleeper makes all
//! CPUs that run this process' threads do one, by membarrier(2). Where the kernel has no such call, both pay.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

/// Whether [`heavy`] reaches the other threads.
#[cfg(not(loom))]
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Asks the kernel once, before there are tasks. A forked child inherits it.
#[cfg(not(loom))]
pub fn begin() {
    let register = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    // SAFETY: registers this process, changes nothing else.
    let registered = unsafe { libc::syscall(libc::SYS_membarrier, register, 0, 0) } == 0;
    ASYMMETRIC.store(registered, Ordering::Relaxed);
}

/// The pusher's.
#[inline]
#[cfg(not(loom))]
pub fn light() {
    if ASYMMETRIC.load(Ordering::Relaxed) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The sleeper's.
#[cfg(not(loom))]
pub fn heavy() {
    if ASYMMETRIC.load(Ordering::Relaxed) {
        let barrier = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED;
        // SAFETY: touches no memory. Registered, so it cannot fail.
        unsafe { libc::syscall(libc::SYS_membarrier, barrier, 0, 0) };
    }
    fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub use heavy as light;

/// Both are the same to the model checker.
#[cfg(loom)]
pub fn heavy() {
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}
