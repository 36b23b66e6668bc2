//! What this kernel and this user may do, feature by feature: yes, or no with the reason and the fix.
//!
//! Reading ([`Facts::read`]) is apart from judging ([`evaluate`]), which is pure. Judging by facts tells
//! the reason, which a failed attempt (EPERM) does not; whoever uses a feature still has to try it, for a
//! security module or container can refuse without a trace in /proc.

mod facts;
mod kernel;
mod rules;

pub use facts::Facts;
pub use kernel::{KernelConfig, Release, Setting};

/// Names a feature to programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FeatureId {
    /// Kernel type information.
    Btf,
    /// The `bpf` backend.
    BpfRecord,
    /// Memory for BPF maps without a raised limit.
    BpfMemory,
    /// The `perf` backend.
    PerfSwitches,
    /// Samples of user instruction pointers.
    UserSampling,
    /// The `proc` backend.
    TaskSchedstat,
    /// The kernel's detailed scheduler statistics.
    SchedStatistics,
    /// CPUs without a timer tick.
    NohzFull,
    /// Schedulers as BPF programs.
    SchedExt,
    /// Hardware performance counters.
    HardwareCounters,
    /// Control groups with a CPU controller.
    Cgroups,
    /// Pressure stall information.
    Psi,
}

/// Whether a feature can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Available {
    /// It can.
    Yes {
        /// By which means.
        how: String,
    },
    /// It cannot.
    No {
        /// Why not.
        reason: String,
        /// What to do about it.
        fix: String,
    },
    /// The facts do not tell.
    Unknown {
        /// What is not known.
        reason: String,
        /// How to be sure.
        fix: String,
    },
}

impl Available {
    /// Whether it is certain that the feature can be used.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes { .. })
    }

    /// Whether it is certain that the feature cannot be used; otherwise trying is worth it.
    #[must_use]
    pub fn is_no(&self) -> bool {
        matches!(self, Self::No { .. })
    }

    fn yes(how: impl Into<String>) -> Self {
        Self::Yes { how: how.into() }
    }

    fn no(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::No { reason: reason.into(), fix: fix.into() }
    }

    fn unknown(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into(), fix: fix.into() }
    }
}

/// One feature and whether it can be used here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Feature {
    /// For programs.
    pub id: FeatureId,
    /// For people.
    pub name: &'static str,
    /// The verdict.
    pub available: Available,
    /// The section of the user guide that explains it, for `cox explain`: `doctor#ebpf`.
    pub doc: &'static str,
}

/// What people read about each feature, in the order to show them.
const SHOWN: [(FeatureId, &str, &str); 12] = [
    (FeatureId::BpfRecord, "eBPF scheduler record", "doctor#ebpf"),
    (FeatureId::Btf, "kernel type information", "doctor#btf"),
    (FeatureId::BpfMemory, "memory for eBPF", "doctor#memlock"),
    (FeatureId::PerfSwitches, "perf context-switch records", "doctor#perf"),
    (FeatureId::UserSampling, "user instruction sampling", "doctor#sampling"),
    (FeatureId::TaskSchedstat, "per-thread scheduler clocks", "doctor#schedstat"),
    (FeatureId::SchedStatistics, "kernel scheduler statistics", "doctor#schedstats"),
    (FeatureId::HardwareCounters, "hardware counters", "doctor#counters"),
    (FeatureId::Cgroups, "control groups", "doctor#cgroups"),
    (FeatureId::Psi, "pressure stall information", "doctor#psi"),
    (FeatureId::NohzFull, "nohz_full", "doctor#nohz_full"),
    (FeatureId::SchedExt, "sched_ext", "doctor#sched_ext"),
];

/// Judges every feature, in the order to show them.
#[must_use]
pub fn evaluate(facts: &Facts) -> Vec<Feature> {
    SHOWN.iter().map(|&(id, name, doc)| Feature { id, name, available: available(facts, id), doc }).collect()
}

/// The verdict about one feature.
#[must_use]
pub fn available(facts: &Facts, id: FeatureId) -> Available {
    rules::rule(id)(facts)
}
