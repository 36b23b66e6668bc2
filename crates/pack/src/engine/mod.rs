//! Packing as an engine of a session.
//!
//! - [`cpu_choice`]: the CPUs of a pack, named or so many of those that the program may use.
//! - [`packing`]: the engine, and the commands that it takes.
//! - [`trial`]: the same on trial, for advice.
//! - `section`: what packing did, as a report.

pub mod cpu_choice;
pub mod packing;
mod section;
pub mod trial;

pub use cpu_choice::Wanted;
pub use packing::{How, Packed, Packing, repack};
pub use trial::{OnTrial, Tested};
