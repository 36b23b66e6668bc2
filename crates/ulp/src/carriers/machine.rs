//! What touches the processor: switching contexts, and the system calls of code that runs where syscall user dispatch is armed, or without the host's TLS.

use super::sync::AtomicU32;

use arch::frame::Alternate;

arch::user_contexts!();

/// All signals, as the kernel's 64-bit set.
pub(super) const ALL_SIGNALS: u64 = u64::MAX;
/// Length of the kernel's signal set, bytes.
pub(super) const SET_BYTES: u64 = 8;

/// Returns the kernel's bit of a signal.
pub(super) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Makes a system call with four arguments.
///
/// # Safety
/// Those of the system call.
pub(super) unsafe fn call4(number: i64, a: u64, b: u64, c: u64, d: u64) -> i64 {
    // SAFETY: the caller promises what the system call needs.
    unsafe { call(number, a, b, c, d, 0, 0) }
}

/// Calls sched_yield(2).
pub(super) fn yield_to_kernel() {
    // SAFETY: no arguments.
    unsafe { call4(libc::SYS_sched_yield, 0, 0, 0, 0) };
}

/// Wakes one thread that sleeps on a word of this address space.
pub(super) fn wake(word: &AtomicU32) {
    wake_at_most(word, 1);
}

/// Wakes all threads that sleep on a word of this address space.
pub(super) fn wake_all(word: &AtomicU32) {
    wake_at_most(word, i32::MAX);
}

fn wake_at_most(word: &AtomicU32, most: i32) {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;
    // SAFETY: the word is valid.
    unsafe { call4(libc::SYS_futex, (word as *const AtomicU32) as u64, operation, most as u64, 0) };
}

/// Sleeps while a word has this value. May return early.
pub(super) fn wait(word: &AtomicU32, value: u32) {
    let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
    // SAFETY: the word is valid; no time limit.
    unsafe { call4(libc::SYS_futex, (word as *const AtomicU32) as u64, operation, value.into(), 0) };
}

/// Blocks all signals, and returns those that were blocked before.
pub(super) fn block_signals() -> u64 {
    set_mask(ALL_SIGNALS)
}

/// Blocks these signals, and no others. Returns those that were blocked before.
pub(super) fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let (set, old) = ((&raw const mask) as u64, (&raw mut before) as u64);
    // SAFETY: both sets are valid.
    unsafe { call4(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK as u64, set, old, SET_BYTES) };
    before
}

/// Returns the stack of this task for signal handlers.
pub(super) fn alternate() -> Alternate {
    let mut alternate = Alternate { stack: 0, flags: libc::SS_DISABLE, bytes: 0 };
    // SAFETY: the structure is valid.
    unsafe { call4(libc::SYS_sigaltstack, 0, (&raw mut alternate) as u64, 0, 0) };
    alternate
}
