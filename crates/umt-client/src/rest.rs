//! How a thread without work sleeps, in sessions where the kernel's records show which threads are blocked.

use std::sync::atomic::Ordering;

use crate::pages::Pages;
use crate::protocol::look_before_rest;
use crate::records::Resting;
use crate::shared::{kernel_page, program_page};
use crate::wait_set;

/// Calls `sleep`, in which the calling thread waits for work. Meanwhile the thread counts as neither running nor blocked, and the kernel does not
/// wake a standby when the sleep begins.
pub(crate) fn rest<T>(sleep: impl FnOnce() -> T) -> T {
    let resting = Resting::begin();
    // `resting` marks this thread, so that other threads no longer count it as runnable. Suppose that another thread queues a task, does not see the
    // mark, and therefore rings no standby. Then it queued the task before the mark was set, so `look_before_rest` finds the task. A thread without
    // a log has no mark and needs none: other threads never count it as runnable.
    if let Some(kernel_page) = kernel_page()
        && look_before_rest(&Pages { program_page: program_page(), kernel_page }).is_some()
    {
        program_page().counts.0.own_rings.fetch_add(1, Ordering::Relaxed);
        wait_set::ring();
    }
    resting.stop_log();
    let slept = sleep();
    resting.end();
    slept
}
