//! Observers: they turn what eBPF, perf records or /proc report into events, and into a clock (an account of time) for each thread. [`preload_page`]
//! reads the state that the preload library inside a program reports.

pub mod bpf;
mod btf;
mod mapping;
pub mod noise;
pub mod observer;
mod online;
pub mod perf;
pub mod preload_page;
pub mod proc;
pub mod sampling;
pub mod snapshots;
pub mod ticks;
pub mod umt;

pub use bpf::{BpfObserver, Settings};
pub use observer::{Intake, Observer, WatchError};
pub use snapshots::{Sight, ThreadSnapshots};
