//! Which CPUs the system leaves alone, and which settings of the machine that takes.
//!
//! Terms:
//!
//! - **quiet CPUs**: the CPUs on which nothing but one program runs.
//! - **housekeeping CPUs**: the other ones, on which everything else runs. At least one always stays.
//! - **level**: how much is changed ([`Level`]). Each level contains the ones before it.
//! - **step**: one setting with its present value, the value that it needs, and the reason.
//!
//! Data goes one way: [`Facts::read`] reads the machine; [`choose`] or [`check`] decides which CPUs become quiet; [`plan`] compares the
//! [`checklist`] with the facts and returns the steps. Only the first one does I/O, and none of them changes anything.

#![forbid(unsafe_code)]

pub mod checklist;
mod cpu_choice;
mod facts;
mod form;
mod level;
mod plan;
mod reading;
mod reboot;

pub use cpu_choice::{Chosen, Refusal, check, choose};
pub use facts::{Cpusets, Facts, Interrupt, Movable};
pub use form::Form;
pub use level::Level;
pub use plan::{NOTHING, Obstacle, Plan, Step, What, plan};
pub use reboot::{Reboot, reboot};
