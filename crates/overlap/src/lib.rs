//! Overlap as an engine of a session: when a thread of the program blocks, cox wakes a standby thread, which runs tasks in its place. For this, each
//! process of the session requests doorbells, the descriptors on which its standby threads sleep.
//!
//! Other crates do most of the work: `preload` and `tasks` in the program, `watch::umt` in the kernel. This engine loads the eBPF programs, answers
//! the requests of processes at a socket (`registration`), and finally adds up the counts of all processes.
//!
//! - [`engine`]: the engine.
//! - [`fitness`]: whether cox's runtime can run a program's tasks in place of libgomp.
//! - [`section`]: the report's section, from the engine's counts and the observation.

pub mod engine;
pub mod fitness;
mod memory;
mod registration;
pub mod section;
mod source;
mod sums;

pub use engine::{Backend, Counted, Overlapping};
pub use section::report;
pub use sums::{Reasons, Sums};
