//! Threads that sleep for want of work, where the kernel's records tell who is blocked.

use std::sync::atomic::Ordering;

use crate::pages::Pages;
use crate::protocol::look_before_rest;
use crate::records::Resting;
use crate::shared::{said, seen};
use crate::together;

/// Sleeps for want of work: idle is neither running nor blocked, and the kernel wakes nobody for it.
pub(crate) fn rest<T>(sleep: impl FnOnce() -> T) -> T {
    let resting = Resting::begin();
    // Who put a task and did not see this rest has put it before. Also of a thread without a log: it is runnable to nobody.
    if let Some(seen) = seen()
        && look_before_rest(&Pages { said: said(), seen }).is_some()
    {
        said().counts.0.own_rings.fetch_add(1, Ordering::Relaxed);
        together::ring();
    }
    resting.stop_log();
    let slept = sleep();
    resting.end();
    slept
}
