//! Who runs a program's tasks.

/// A runtime, and how it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// GCC's runtime with so many threads for each CPU; with more than one they sleep while they wait.
    Gomp(u32),
    /// LLVM's, the same.
    Omp(u32),
    /// Ours; blocked threads go unnoticed.
    Off,
    /// Ours, with every block and unblock told to one thread on any CPU: the paper's layout.
    Leader,
    /// Ours, with blocks noticed by perf's records of one's own threads.
    Perf,
    /// Ours, with idle CPUs noticed by threads of the idle class.
    StandbyIdle,
    /// Ours, with doorbells rung by BPF.
    Bpf,
}

/// Threads for each CPU that people try by hand.
pub const MANUAL: [u32; 4] = [1, 2, 4, 8];

impl Way {
    /// Ours, from the least to the most.
    pub const OURS: [Way; 5] = [Way::Off, Way::Leader, Way::Perf, Way::StandbyIdle, Way::Bpf];

    /// All runtimes by [name](Way::runtime).
    pub const NAMES: [&str; 7] = ["libgomp", "libomp", "off", "leader", "perf", "standby-idle", "bpf"];

    /// Both peers, each as people set it by hand, and ours.
    pub fn all() -> impl Iterator<Item = Way> {
        MANUAL.map(Way::Gomp).into_iter().chain(MANUAL.map(Way::Omp)).chain(Way::OURS)
    }

    /// As a column is headed.
    pub fn name(self) -> String {
        match self.threads_by_cpu() {
            1 => self.runtime().into(),
            times => format!("{} {times}x", self.runtime()),
        }
    }

    /// … whatever the number of threads.
    pub fn runtime(self) -> &'static str {
        match self {
            Way::Gomp(_) => "libgomp",
            Way::Omp(_) => "libomp",
            Way::Off => "off",
            Way::Leader => "leader",
            Way::Perf => "perf",
            Way::StandbyIdle => "standby-idle",
            Way::Bpf => "bpf",
        }
    }

    /// Whether `cox run --overlap` starts the program.
    pub fn by_cox(self) -> bool {
        matches!(self, Way::Leader | Way::Perf | Way::StandbyIdle | Way::Bpf)
    }

    /// Threads of a team for each CPU.
    pub fn threads_by_cpu(self) -> u32 {
        match self {
            Way::Gomp(times) | Way::Omp(times) => times,
            _ => 1,
        }
    }
}

/// Writes a way by its name.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_name<S: serde::Serializer>(way: &Way, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&way.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_a_runtime_that_can_be_named() {
        let mut named: Vec<_> = Way::all().map(Way::runtime).collect();
        named.dedup();
        assert_eq!(named, Way::NAMES);
    }
}
