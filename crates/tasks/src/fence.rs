//! An asymmetric full fence: one side pays nearly nothing.
//!
//! A thread that pushes a task must not overlook a thread that is about to sleep, and the sleeper must not overlook the task. Both write
//! one word and then read the other's, so both need a full fence in between. Tasks are pushed millions of times a second; sleep is rare. So
//! the pusher's fence only keeps the compiler from reordering. The sleeper calls membarrier(2), which makes all CPUs that run this
//! process's threads execute a fence. If the kernel has no such call, both threads execute a full fence.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

/// Whether [`heavy`] makes the CPUs of the other threads execute a fence, by membarrier(2).
#[cfg(not(loom))]
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Registers the process for membarrier(2), once, before there are tasks. A forked child inherits the registration.
#[cfg(not(loom))]
pub fn begin() {
    let register = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    // SAFETY: the call registers this process, and changes nothing else.
    let registered = unsafe { libc::syscall(libc::SYS_membarrier, register, 0, 0) } == 0;
    ASYMMETRIC.store(registered, Ordering::Relaxed);
}

/// The cheap fence, for the frequent case, such as a thread that pushes a task.
#[inline]
#[cfg(not(loom))]
pub fn light() {
    if ASYMMETRIC.load(Ordering::Relaxed) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The expensive fence, for the rare case, such as a thread that is about to sleep.
#[cfg(not(loom))]
pub fn heavy() {
    if ASYMMETRIC.load(Ordering::Relaxed) {
        let barrier = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED;
        // SAFETY: the call accesses no memory. It cannot fail, because the process is registered.
        unsafe { libc::syscall(libc::SYS_membarrier, barrier, 0, 0) };
    }
    fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub use heavy as light;

/// The model checker treats both fences alike.
#[cfg(loom)]
pub fn heavy() {
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}
