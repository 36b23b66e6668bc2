//! Observers: eBPF, perf records or /proc become thread clocks and events. And what programs say of
//! themselves, through the preload library: [`preload_page`].

pub mod bpf;
mod btf;
pub mod observer;
mod online;
pub mod perf;
pub mod preload_page;
pub mod proc;
pub mod sampling;
pub mod stands;
pub mod umt;

pub use bpf::{BpfObserver, Settings};
pub use observer::{Intake, Observer, WatchError};
pub use stands::{Sight, Stands};
