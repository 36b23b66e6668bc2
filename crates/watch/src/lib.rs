//! Observers: turn what eBPF, perf records or /proc report into clocks (accounts of time) of threads and into events. [`preload_page`] reads the
//! state that the preload library inside a program reports.

pub mod bpf;
mod btf;
mod mapping;
pub mod observer;
mod online;
pub mod perf;
pub mod preload_page;
pub mod proc;
pub mod sampling;
pub mod snapshots;
pub mod umt;

pub use bpf::{BpfObserver, Settings};
pub use observer::{Intake, Observer, WatchError};
pub use snapshots::{Sight, ThreadSnapshots};
