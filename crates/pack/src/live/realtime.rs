//! Scheduling of the calling thread: real-time priority, and its CPU.

pub use changes::realtime::{become_punctual, punctually, stay_on, take_shortest_slice};

/// Real-time priority of the manager. It is low, because other real-time threads of the machine matter more. Tickers
/// (the threads that end scheduling periods) have the next higher priority, so that they can preempt the manager.
pub const MANAGER: u32 = 1;
/// Real-time priority of tickers; see [`MANAGER`].
pub const TICKER: u32 = 2;
