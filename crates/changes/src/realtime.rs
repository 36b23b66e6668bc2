//! The calling thread's own real-time priority, for those of cox that must not wait for the program's threads.

use std::io;

use rustix::thread::gettid;

use crate::hands::attr::{self, Attr};

/// SCHED_FIFO at this priority. Threads and processes that it makes do not inherit it.
///
/// # Errors
/// `EPERM` without CAP_SYS_NICE and without RLIMIT_RTPRIO.
pub fn become_realtime(priority: u32) -> io::Result<()> {
    attr::set(gettid(), &Attr::real_time(priority))
}
