//! What the session knows besides the account: the machine's and the program's surroundings.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The surroundings of a measured program, as read while it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// CPUs cox, and so the program at its start, was allowed on; empty: not known.
    pub allowed_cpus: Vec<u32>,
    /// CPUs that were online; empty: not known.
    pub online_cpus: Vec<u32>,
    /// CPUs' worth of time the control group may use; absent without a quota.
    pub cpu_quota: Option<f64>,
    /// Time the control group's CPUs were throttled during the run, summed over CPUs.
    pub throttled_ns: u64,
    /// Quota periods in which the control group was throttled during the run.
    pub nr_throttled: u64,
    /// The variables that steer waiting and placement, as the program saw them; unset ones absent.
    pub environment: BTreeMap<String, String>,
    /// The OpenMP runtime that the program had mapped, by its file name.
    #[serde(default)]
    pub openmp_runtime: Option<String>,
    /// The main thread's own CPUs, when narrower than `allowed_cpus`; of a packed program those that it had before.
    pub pinned_cpus: Option<Vec<u32>>,
    /// The CPUs that cox packed the program on, as its user wanted: `--pack-cpus`. Threads' masks are cox's then.
    #[serde(default)]
    pub packed_cpus: Option<Vec<u32>>,
    /// Whether CPUs share cores (simultaneous multithreading).
    pub smt: bool,
    /// Names of cox's verbs and options that exist in this version; others are not recommended.
    pub verbs: BTreeSet<String>,
    /// What the user of cox has no right to, by the names [`Facts::EBPF`], [`Facts::OTHERS`] and [`Facts::QUOTA`]:
    /// steps that need it are not recommended.
    #[serde(default)]
    pub denied: BTreeSet<String>,
    /// The program's command line.
    pub command: Vec<String>,
}

impl Facts {
    /// The variables worth asking the program's environment for.
    pub const VARIABLES: [&str; 8] = [
        "OMP_NUM_THREADS",
        "OMP_WAIT_POLICY",
        "OMP_PROC_BIND",
        "OMP_PLACES",
        "OMP_SCHEDULE",
        "GOMP_SPINCOUNT",
        "GOMP_CPU_AFFINITY",
        "KMP_BLOCKTIME",
    ];

    /// Observing by eBPF.
    pub const EBPF: &'static str = "ebpf";
    /// Stopping or moving other users' programs.
    pub const OTHERS: &'static str = "others";
    /// Changing the CPU quota of the program's control group.
    pub const QUOTA: &'static str = "quota";

    /// Whether the user of cox has no right to `what`.
    pub fn is_denied(&self, what: &str) -> bool {
        self.denied.contains(what)
    }

    /// CPUs the program may run on, as a list: those of the pack, else its own mask if that is narrower.
    pub fn program_cpus(&self) -> &[u32] {
        self.packed_cpus.as_ref().or(self.pinned_cpus.as_ref()).unwrap_or(&self.allowed_cpus)
    }

    /// Whether cox packed the program.
    pub fn is_packed(&self) -> bool {
        self.packed_cpus.is_some()
    }

    /// The quota, if it is one.
    pub fn quota(&self) -> Option<f64> {
        self.cpu_quota.filter(|cpus| cpus.is_finite() && *cpus > 0.0)
    }

    /// A variable's value, without surrounding spaces and in lower case.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.environment.get(name).map(|value| value.trim().to_ascii_lowercase())
    }

    /// Whether waiting threads were told to sleep at once.
    pub fn waits_passively(&self) -> bool {
        let is = |name, value: &str| self.variable(name).as_deref() == Some(value);
        is("OMP_WAIT_POLICY", "passive") || is("GOMP_SPINCOUNT", "0") || is("KMP_BLOCKTIME", "0")
    }

    /// Whether this version of cox has the verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(verb)
    }
}
