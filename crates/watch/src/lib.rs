//! Observers: eBPF, perf records or /proc become thread clocks and events.

pub mod observer;
pub mod perf;
pub mod proc;

pub use observer::{Intake, Observer, WatchError};
