//! CPUs that the system leaves alone: which settings of the machine that takes, applied and restored.
//!
//! Terms:
//!
//! - **quiet CPUs**: the CPUs on which nothing but one program runs.
//! - **housekeeping CPUs**: the other ones, on which everything else runs. At least one always stays.
//! - **level**: how much is changed ([`Level`]). Each level contains the ones before it.
//! - **step**: one setting with its present value, the value that it needs, and the reason.
//!
//! Data goes one way: [`Facts::read`] reads the machine; [`choose`] or [`check`] decides which CPUs become quiet;
//! [`plan`] compares the [`checklist`] with the facts and returns the steps; [`Applied`] makes them, as requests to a
//! session of `changes`, which restores everything. [`Quieting`] does all of it as an engine of a session. [`Census`]
//! counts what came to the quiet CPUs nevertheless.

#![forbid(unsafe_code)]

mod applied;
mod census;
pub mod checklist;
mod counting;
mod cpu_choice;
mod cpusets;
mod engine;
mod facts;
mod level;
mod new_cpusets;
mod plan;
mod reading;
mod reboot;
mod requests;
mod tasks;

pub use applied::Applied;
pub use census::Census;
pub use cpu_choice::{Chosen, Refusal, check, choose};
pub use cpusets::OwnCpusets;
pub use engine::{CpuRequest, Lasting, Quieting};
pub use facts::{Cpusets, Facts, Interrupt};
pub use level::Level;
pub use plan::{Extent, NOTHING, Obstacle, Plan, Step, What, plan};
pub use reboot::{BootWord, Reboot, reboot};
pub use requests::{ENGINE, quiet_cpus, quiet_folders};
pub use tasks::{Task, TaskList, Tasks, cpusets_below};
