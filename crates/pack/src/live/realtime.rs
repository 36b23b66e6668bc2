//! Scheduling of the calling thread: real-time priority, and its CPU.

use std::io;

pub use changes::realtime::{become_punctual, take_shortest_slice};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Real-time priority of the manager. It is low, because other real-time threads of the machine matter more. Tickers
/// have the next higher priority, because they interrupt the manager.
pub const MANAGER: u32 = 1;
/// Real-time priority of tickers; see [`MANAGER`].
pub const TICKER: u32 = 2;

/// Binds the calling thread to this CPU.
///
/// # Errors
/// Fails if the CPU is offline or not allowed.
pub fn stay_on(cpu: u32) -> io::Result<()> {
    let mut mask = CpuSet::new();
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(io::Error::other(format!("CPU {cpu} is too high: cox supports {} CPUs", CpuSet::MAX_CPU)));
    }
    mask.set(cpu as usize);
    Ok(sched_setaffinity(None, &mask)?)
}
