//! What to pack, and how.

use watch::Sight;
use watch::snapshots::Helping;

use crate::policy::controller::Settings;

/// Options of packing.
#[derive(Clone, Debug)]
pub struct How {
    /// Pack child processes too.
    pub children: bool,
    /// Settings of the policy.
    pub settings: Settings,
    /// How cox observes threads.
    pub sight: Sight,
    /// Run a trial: place the threads by the kernel and by the policy in turn, to compare the two.
    pub trial: bool,
    /// Log each order: the thread, its new CPU and the reason.
    pub log: bool,
    /// Start the program with the preload library, if the program can load it.
    pub preload: bool,
    /// Detach the BPF programs while packing does not help. False if they are loaded for another engine anyway.
    pub pauses: bool,
}

impl Default for How {
    /// The options of `cox pack` without arguments.
    fn default() -> How {
        How {
            children: true,
            settings: Settings::default(),
            sight: Sight::Best,
            trial: false,
            log: false,
            preload: true,
            pauses: true,
        }
    }
}

/// On which CPUs a process started. An OpenMP runtime counts its allowed CPUs when it starts, and this number decides
/// whether its threads spin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Began {
    /// The program has not started yet. It will start on the CPUs of this pack, so an OpenMP runtime counts only these.
    #[default]
    Here,
    /// The processes run already without being packed: they started on the CPUs that they may use now.
    Outside,
    /// The processes started in another pack, which has this number of CPUs.
    Packed(usize),
}

/// What to pack, and how.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The processes; with [`How::children`], also the processes that they start.
    pub pids: Vec<u32>,
    /// Where the processes started: on the CPUs of this pack, on those of another pack, or without being packed.
    pub began: Began,
    /// The CPUs on which the threads are packed.
    pub cpus: Vec<u32>,
    /// Capacity of each CPU, relative to 1024.
    pub capacities: Vec<u64>,
    /// The options.
    pub how: How,
    /// Starts BPF programs in a helper process, in case this process may not load them.
    pub helping: Option<Helping>,
    /// cox's command line, for the journal.
    pub command: String,
}

impl Plan {
    /// Returns whether packing begins only when it could help, and pauses if it does not. Otherwise it lasts for the whole
    /// session: if the program runs already and its runtimes must be kept from spinning, if BPF is required or used by
    /// another engine, or if the user wants packing even where it gains nothing.
    pub(super) fn may_pause(&self) -> bool {
        let How { settings, sight, trial, pauses, .. } = &self.how;
        *pauses && self.began == Began::Here && !settings.always && !trial && *sight != Sight::Traced
    }
}
