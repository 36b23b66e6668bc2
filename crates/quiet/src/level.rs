//! How much of the machine is changed.

use std::fmt;
use std::str::FromStr;

/// How much is changed. Each level contains the ones before it. The first ones are the steps of Akkan, Lang and
/// Liebrock (ROSS 2012), whose kernel patch is [`Level::Tickless`] here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The program's threads may use the quiet CPUs only. Other threads may use them, too.
    Pin,
    /// The program has a cpuset of its own, and all other threads that can be moved lose its CPUs: in version 1 of cgroups
    /// they go to a cpuset of their own, in version 2 the program's becomes a partition.
    Cgroup,
    /// The scheduler does not balance load between the two cpusets, nor, if it is isolated, within the quiet one. In
    /// version 2 of cgroups, the cpusets are already apart on the level before: only a partition takes CPUs from
    /// cgroups that have none of their own.
    NoBalance,
    /// Devices interrupt the housekeeping CPUs.
    Irq,
    /// Kernel threads and work items run on the housekeeping CPUs.
    Work,
    /// Everything else that can be changed at run time: periodic functions of the kernel, and what makes other CPUs
    /// interrupt these.
    Full,
    /// The tick is off. Only on CPUs that the kernel was booted with (`nohz_full`).
    Tickless,
}

impl Level {
    /// All levels, from the least to the most.
    pub const ALL: [Level; 7] =
        [Level::Pin, Level::Cgroup, Level::NoBalance, Level::Irq, Level::Work, Level::Full, Level::Tickless];

    /// Returns the name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Pin => "pin",
            Level::Cgroup => "cgroup",
            Level::NoBalance => "no-balance",
            Level::Irq => "irq",
            Level::Work => "work",
            Level::Full => "full",
            Level::Tickless => "tickless",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(name: &str) -> Result<Level, String> {
        Level::ALL
            .into_iter()
            .find(|level| level.name() == name)
            .ok_or_else(|| format!("no level '{name}'; the levels are {}", Level::ALL.map(Level::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_levels_are_ordered() {
        assert!(Level::ALL.iter().all(|level| level.name().parse() == Ok(*level)));
        assert!(Level::ALL.is_sorted());
        assert!("silent".parse::<Level>().unwrap_err().contains("no-balance"));
    }
}
