//! Sleeps for want of work, in sessions where the kernel's records tell which threads are blocked.

use std::sync::atomic::Ordering;

use crate::pages::Pages;
use crate::protocol::look_before_rest;
use crate::records::Resting;
use crate::shared::{said, seen};
use crate::together;

/// Sleeps for want of work. The thread counts as neither running nor blocked, and the kernel wakes no standby for this sleep.
pub(crate) fn rest<T>(sleep: impl FnOnce() -> T) -> T {
    let resting = Resting::begin();
    // A thread that put a task without seeing this mark has put it before, so the look finds the task. This also holds for a thread without a log,
    // since no thread counts it as runnable.
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
