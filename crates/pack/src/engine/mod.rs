//! Packing as an engine of a session.
//!
//! - [`choice`]: the CPUs of a pack, named or so many of those that the program may use.
//! - [`packing`]: the engine, and the commands that it takes.
//! - [`trial`]: the same on trial, for advice.
//! - `section`: what packing did, as a report.

pub mod choice;
pub mod packing;
mod section;
pub mod trial;

pub use choice::Wanted;
pub use packing::{How, Packed, Packing, repack};
pub use trial::{OnTrial, Tested};
