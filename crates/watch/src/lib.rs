//! Observers: eBPF, perf records or /proc become thread clocks and events.

pub mod observer;

pub use observer::{Intake, Observer, WatchError};
