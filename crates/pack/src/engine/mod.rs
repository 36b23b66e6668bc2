//! Packing as an engine of a session.
//!
//! - [`cpu_choice`]: chooses the CPUs of a pack.
//! - [`packing`]: the engine, and its command to change the CPUs.
//! - [`trial`]: the same engine in trial mode, for advice.
//! - `section`: makes the report.

pub mod cpu_choice;
pub mod packing;
mod section;
pub mod trial;

pub use cpu_choice::Wanted;
pub use packing::{Packed, Packing, Repack, repack};
pub use trial::{OnTrial, Tested};

pub use crate::live::How;
