//! The calling thread's own scheduling: real-time priority, and its CPU.

use std::io;

pub use changes::realtime::{become_punctual, take_shortest_slice};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Of the manager, and of the tickers, which interrupt it. Low: other real-time threads of the machine have
/// their reasons.
pub const MANAGER: u32 = 1;
/// See [`MANAGER`].
pub const TICKER: u32 = 2;

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
