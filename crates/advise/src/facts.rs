//! What the session knows besides the account: facts about the machine and the program's environment.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Machine and environment of a measured program, as read while it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// CPUs in the affinity mask of cox, which a program inherits when cox starts it; empty if not known.
    pub allowed_cpus: Vec<u32>,
    /// CPUs that were online; empty if not known.
    pub online_cpus: Vec<u32>,
    /// CPU quota of the control group, in CPUs; absent without a quota.
    pub cpu_quota: Option<f64>,
    /// Time the control group's CPUs were throttled during the run, summed over CPUs.
    pub throttled_ns: u64,
    /// Quota periods in which the control group was throttled during the run.
    pub nr_throttled: u64,
    /// Environment variables of the program that control waiting and placement; variables that are not set are absent.
    pub environment: BTreeMap<String, String>,
    /// File name of the OpenMP runtime that the program had mapped.
    #[serde(default)]
    pub openmp_runtime: Option<String>,
    /// Affinity mask of the main thread, if narrower than `allowed_cpus`. For a packed program, the mask before packing.
    pub pinned_cpus: Option<Vec<u32>>,
    /// CPUs on which cox packed the program (`--pack-cpus`). The threads' affinity masks are then those that cox set.
    #[serde(default)]
    pub packed_cpus: Option<Vec<u32>>,
    /// Whether CPUs share cores (simultaneous multithreading).
    pub smt: bool,
    /// Names of the commands and options that this version of cox has; a verdict recommends no others.
    pub verbs: BTreeSet<String>,
    /// Permissions that the user of cox lacks: [`Facts::EBPF`], [`Facts::OTHERS`], [`Facts::QUOTA`]. Steps that need such a permission are not
    /// recommended.
    #[serde(default)]
    pub denied: BTreeSet<String>,
    /// The program's command line.
    pub command: Vec<String>,
}

impl Facts {
    /// Environment variables that are read from the program: those on which a step depends, or which the report shows.
    pub const VARIABLES: [&str; 9] = [
        "OMP_NUM_THREADS",
        "OMP_WAIT_POLICY",
        "OMP_PROC_BIND",
        "OMP_PLACES",
        "OMP_SCHEDULE",
        "GOMP_SPINCOUNT",
        "GOMP_CPU_AFFINITY",
        "KMP_BLOCKTIME",
        "MALLOC_TOP_PAD_",
    ];

    /// Permission to observe by eBPF.
    pub const EBPF: &'static str = "ebpf";
    /// Permission to stop or move other users' programs.
    pub const OTHERS: &'static str = "others";
    /// Permission to change the CPU quota of the program's control group.
    pub const QUOTA: &'static str = "quota";

    /// Returns whether the user of cox lacks the permission `what`.
    pub fn is_denied(&self, what: &str) -> bool {
        self.denied.contains(what)
    }

    /// Returns the CPUs on which the program may run: if cox packed it, those on which cox packed it; else those of its own affinity mask, if that is
    /// narrower than the inherited mask; else those of the inherited mask.
    pub fn program_cpus(&self) -> &[u32] {
        self.packed_cpus.as_ref().or(self.pinned_cpus.as_ref()).unwrap_or(&self.allowed_cpus)
    }

    /// Returns whether cox packed the program.
    pub fn is_packed(&self) -> bool {
        self.packed_cpus.is_some()
    }

    /// Returns the quota in CPUs, if it is a valid number.
    pub fn quota(&self) -> Option<f64> {
        self.cpu_quota.filter(|cpus| cpus.is_finite() && *cpus > 0.0)
    }

    /// Returns a variable's value in lower case, without surrounding spaces.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.environment.get(name).map(|value| value.trim().to_ascii_lowercase())
    }

    /// Returns whether the environment tells waiting threads to sleep immediately.
    pub fn waits_passively(&self) -> bool {
        !self.passive_variables().is_empty()
    }

    /// Returns the environment variables that tell waiting threads to sleep immediately. Variables that the mapped OpenMP runtime does not read are not
    /// among them.
    pub fn passive_variables(&self) -> Vec<&'static str> {
        let gcc = self.openmp_runtime.as_deref().map(|runtime| runtime.starts_with("libgomp"));
        let variables = [
            ("OMP_WAIT_POLICY", "passive", true),
            ("GOMP_SPINCOUNT", "0", gcc != Some(false)),
            ("KMP_BLOCKTIME", "0", gcc != Some(true)),
        ];
        let set = |name, value| self.variable(name).as_deref() == Some(value);
        variables.into_iter().filter(|(name, value, read)| *read && set(name, *value)).map(|(name, ..)| name).collect()
    }

    /// Returns whether this version of cox has the command or option.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(verb)
    }
}
