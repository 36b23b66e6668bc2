//! Features by name, and whether one can be used.

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

    pub(super) fn yes(how: impl Into<String>) -> Self {
        Self::Yes { how: how.into() }
    }

    pub(super) fn no(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::No { reason: reason.into(), fix: fix.into() }
    }

    pub(super) fn unknown(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into(), fix: fix.into() }
    }
}
