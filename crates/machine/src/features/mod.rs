//! Which features this user can use on this kernel. If a feature cannot be used, the verdict has the reason and a fix.
//!
//! [`Facts::read`] reads the facts; [`evaluate`] derives a verdict from them and reads nothing. Such a verdict names
//! the reason, which a failed attempt (EPERM) does not. Callers must still try the feature before they rely on it,
//! because a security module or a container can refuse it without a trace in /proc.

mod available;
mod facts;
mod kernel;
mod rules;

pub use available::{Available, FeatureId};
pub use facts::Facts;
pub use kernel::{KernelConfig, Release, Setting};

/// One feature and whether it can be used here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Feature {
    /// The id, for programs.
    pub id: FeatureId,
    /// The name, for users.
    pub name: &'static str,
    /// The verdict.
    pub available: Available,
    /// The section of the user guide about this feature, for `cox explain`, e.g. `doctor#ebpf`.
    pub doc: &'static str,
}

/// Id, name and documentation section of each feature, in the order of display.
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

/// Judges every feature, in the order of display.
#[must_use]
pub fn evaluate(facts: &Facts) -> Vec<Feature> {
    SHOWN.iter().map(|&(id, name, doc)| Feature { id, name, available: available(facts, id), doc }).collect()
}

/// Returns the verdict about one feature.
#[must_use]
pub fn available(facts: &Facts, id: FeatureId) -> Available {
    rules::rule(id)(facts)
}
