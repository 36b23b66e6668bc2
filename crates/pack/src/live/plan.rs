//! What to pack, and how.

use watch::Sight;
use watch::stands::Helping;

use crate::policy::controller::Settings;

/// Where the processes started. An OpenMP runtime counts its allowed CPUs when it starts, and this number decides
/// whether its threads spin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Began {
    /// The processes have not started yet: they will start on the CPUs of this pack.
    Here,
    /// The processes started on the CPUs that they are allowed now.
    Outside,
    /// The processes started in another pack, which has this number of CPUs.
    Packed(usize),
}

/// What to pack, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The processes; with `children`, also the processes that they start.
    pub pids: Vec<u32>,
    /// Where the processes started.
    pub began: Began,
    /// Pack child processes too.
    pub children: bool,
    /// The CPUs on which the threads are packed.
    pub cpus: Vec<u32>,
    /// Capacity of each CPU, relative to 1024.
    pub capacities: Vec<u64>,
    /// Settings of the policy.
    pub settings: Settings,
    /// How cox observes threads.
    pub sight: Sight,
    /// The helper that traces threads if this process may not.
    pub helping: Option<Helping>,
    /// Run a trial: let the kernel and the policy place the threads in turn, to compare them.
    pub trial: bool,
    /// Log each order: the thread, its new CPU and the reason.
    pub log: bool,
    /// cox's command line, for the journal.
    pub command: String,
}
