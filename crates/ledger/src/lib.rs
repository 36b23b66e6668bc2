//! Scheduler events or clocks → where each thread's time went. Pure: no I/O, no clock, no unsafe.
#![forbid(unsafe_code)]

pub mod account;

pub use account::*;
