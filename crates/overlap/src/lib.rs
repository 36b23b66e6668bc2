//! Overlap as an engine of a session: each process of the session can request doorbells, which wake standby threads when its other threads
//! block.
//!
//! Other crates do most of the work: `preload` and `tasks` in the program, `watch::umt` in the kernel. This engine loads the kernel's part,
//! answers processes at a socket (`registration`), and finally adds up the counts of all of them.
//!
//! - [`engine`]: the engine.
//! - [`fitness`]: whether a program's tasks can be taken over.
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
