//! What this kernel and this user may do, feature by feature: yes, or no with the reason and the fix.
//!
//! Reading ([`Facts::read`]) is apart from judging ([`evaluate`]), which is pure. Judging by facts tells
//! the reason, which a failed attempt (EPERM) does not; whoever uses a feature still has to try it, for a
//! security module or container can refuse without a trace in /proc.

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
