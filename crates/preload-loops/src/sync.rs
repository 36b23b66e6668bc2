//! Atomics: those of the standard library, or loom's if its model checker runs (`--cfg loom`).

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Attempts of a waiting thread before it gives its CPU to others: about a microsecond.
#[cfg(not(loom))]
const SPINS: u32 = 30;

/// Waits a little. `attempt` counts a thread's waits for the same event, from 0.
#[cfg(not(loom))]
pub(crate) fn pause(attempt: u32) {
    if attempt < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
}

/// Lets another thread of the model run.
#[cfg(loom)]
pub(crate) fn pause(_: u32) {
    loom::thread::yield_now();
}
