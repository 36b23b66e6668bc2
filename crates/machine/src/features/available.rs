//! Feature ids, and the verdict on whether a feature can be used.

/// Identifies a feature to programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FeatureId {
    /// Kernel type information (BTF).
    Btf,
    /// The `bpf` backend.
    BpfRecord,
    /// Enough locked memory for BPF maps, without raising RLIMIT_MEMLOCK.
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
    /// Schedulers written as BPF programs (sched_ext).
    SchedExt,
    /// Hardware performance counters.
    HardwareCounters,
    /// Control groups with a CPU controller.
    Cgroups,
    /// Pressure stall information.
    Psi,
    /// Switching between user-level processes in user space.
    UlpCarriers,
}

/// Whether a feature can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Available {
    /// The feature can be used.
    Yes {
        /// How the feature can be used: the file, capability or kernel interface that allows it.
        how: String,
    },
    /// The feature cannot be used.
    No {
        /// The reason.
        reason: String,
        /// What the user can do about it.
        fix: String,
    },
    /// The facts are not sufficient to decide.
    Unknown {
        /// The fact that is missing.
        reason: String,
        /// What the user can do to find out whether the feature can be used.
        fix: String,
    },
}

impl Available {
    /// Returns whether it is certain that the feature can be used.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes { .. })
    }

    /// Returns whether it is certain that the feature cannot be used. If not, an attempt is worthwhile.
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
