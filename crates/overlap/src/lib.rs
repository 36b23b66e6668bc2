//! Overlap as an engine of a session: gives each process that asks for it the kernel's word on its blocked threads.
//!
//! The work is done elsewhere: in the program by `preload` and `tasks`, in the kernel by `watch::umt`. This engine loads the
//! kernel's part, answers processes at a socket (`desk`), and adds up in the end what all of them say.
//!
//! - [`engine`]: the engine.
//! - [`fitness`]: whether a program's tasks can be taken over.
//! - [`section`]: what the engine counted, beside what was observed.

mod desk;
pub mod engine;
pub mod fitness;
mod memory;
pub mod section;
mod source;
mod sums;

pub use engine::{Backend, Counted, Overlapping};
pub use section::report;
pub use sums::{Reasons, Sums};
