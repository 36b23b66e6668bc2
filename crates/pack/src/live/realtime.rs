//! The calling thread's own scheduling: real-time priority, and its CPU.
#![allow(unsafe_code, reason = "sched_setscheduler(2) has no safe wrapper in the libraries we use")]

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

/// Of the manager, and of the tickers, which interrupt it. Low: other real-time threads of the machine have
/// their reasons.
pub const MANAGER: i32 = 1;
/// See [`MANAGER`].
pub const TICKER: i32 = 2;

/// SCHED_FIFO at this priority. Threads and processes that it makes do not inherit it.
///
/// # Errors
/// `EPERM` without CAP_SYS_NICE and without RLIMIT_RTPRIO.
pub fn become_realtime(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the struct is initialised and only read.
    let result =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Run on this CPU only.
///
/// # Errors
/// When the CPU is offline or forbidden.
pub fn stay_on(cpu: u32) -> io::Result<()> {
    let mut mask = CpuSet::new();
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(io::Error::other(format!("CPU {cpu} is beyond {}", CpuSet::MAX_CPU)));
    }
    mask.set(cpu as usize);
    Ok(sched_setaffinity(None, &mask)?)
}
