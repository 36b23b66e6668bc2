//! What is to be packed, and how.

use watch::Sight;
use watch::stands::Helping;

use crate::policy::controller::Settings;

/// Where the processes began. OpenMP runtimes count the CPUs they may use when they start, and wait by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Began {
    /// In the pack: they have not begun yet.
    Here,
    /// On the CPUs that they are allowed now.
    Outside,
    /// In another pack, of so many CPUs.
    Packed(usize),
}

/// What to pack, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The processes; what they start is included when `children`.
    pub pids: Vec<u32>,
    /// Where they began, and counted CPUs.
    pub began: Began,
    /// Their child processes too.
    pub children: bool,
    /// CPUs of the pack.
    pub cpus: Vec<u32>,
    /// Capacity of each, of 1024.
    pub capacities: Vec<u64>,
    /// How to pack.
    pub settings: Settings,
    /// How threads are seen.
    pub sight: Sight,
    /// Who traces them where this process may not.
    pub helping: Option<Helping>,
    /// Do not pack in earnest: try both ways in turn, to compare them.
    pub trial: bool,
    /// Keep a line for each order.
    pub log: bool,
    /// cox's command line, for the journal.
    pub command: String,
}
