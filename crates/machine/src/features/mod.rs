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

/// The rule of a feature.
type Rule = fn(&Facts) -> Available;

/// Id, name, documentation section and rule of each feature, in the order of display.
const SHOWN: [(FeatureId, &str, &str, Rule); 13] = [
    (FeatureId::BpfRecord, "eBPF scheduler record", "doctor#ebpf", rules::bpf_record),
    (FeatureId::Btf, "kernel type information", "doctor#btf", rules::btf),
    (FeatureId::BpfMemory, "memory for eBPF", "doctor#memlock", rules::bpf_memory),
    (FeatureId::PerfSwitches, "perf context-switch records", "doctor#perf", rules::perf_switches),
    (FeatureId::UserSampling, "user instruction sampling", "doctor#sampling", rules::user_sampling),
    (FeatureId::TaskSchedstat, "per-thread scheduler clocks", "doctor#schedstat", rules::task_schedstat),
    (FeatureId::SchedStatistics, "kernel scheduler statistics", "doctor#schedstats", rules::sched_statistics),
    (FeatureId::HardwareCounters, "hardware counters", "doctor#counters", rules::hardware_counters),
    (FeatureId::Cgroups, "control groups", "doctor#cgroups", rules::cgroups),
    (FeatureId::Psi, "pressure stall information", "doctor#psi", rules::psi),
    (FeatureId::NohzFull, "nohz_full", "doctor#nohz_full", rules::nohz_full),
    (FeatureId::SchedExt, "sched_ext", "doctor#sched_ext", rules::sched_ext),
    (FeatureId::UlpCarriers, "carriers for cox ulp", "doctor#carriers", rules::ulp_carriers),
];

/// Judges every feature, in the order of display.
#[must_use]
pub fn evaluate(facts: &Facts) -> Vec<Feature> {
    SHOWN.iter().map(|&(id, name, doc, rule)| Feature { id, name, available: rule(facts), doc }).collect()
}
