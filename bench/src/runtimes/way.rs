//! The runtime that runs a program's tasks, and its settings.

/// A way to run the tasks: a runtime with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// GCC's libgomp with this many threads per CPU; with more than one, waiting threads sleep.
    Gomp(u32),
    /// LLVM's libomp with this many threads per CPU; with more than one, waiting threads sleep.
    Omp(u32),
    /// Our runtime without overlap: nothing detects that a thread has blocked.
    Off,
    /// Our runtime; a leader, which may run on any CPU, gets all block and unblock events: the layout of the UMT paper.
    Leader,
    /// Our runtime; each thread has a perf event for its context switches, which reports that the thread has blocked.
    Perf,
    /// Our runtime; sentinels (threads of scheduling class SCHED_IDLE) detect which CPUs are idle.
    StandbyIdle,
    /// Our runtime; if a thread blocks, BPF programs wake a standby thread in its place.
    Bpf,
}

/// The numbers of threads per CPU that a user would try with libgomp and libomp.
pub const MANUAL: [u32; 4] = [1, 2, 4, 8];

impl Way {
    /// The settings of our runtime, in the order of table columns: from no overlap to overlap by BPF programs.
    pub const OURS: [Way; 5] = [Way::Off, Way::Leader, Way::Perf, Way::StandbyIdle, Way::Bpf];

    /// Names of all runtimes, in the order of [`Way::runtime`].
    pub const NAMES: [&str; 7] = ["libgomp", "libomp", "off", "leader", "perf", "standby-idle", "bpf"];

    /// Returns all runtimes with their settings: libgomp and libomp with each number of threads in [`MANUAL`], and our runtime with each of its
    /// settings.
    pub fn all() -> impl Iterator<Item = Way> {
        MANUAL.map(Way::Gomp).into_iter().chain(MANUAL.map(Way::Omp)).chain(Way::OURS)
    }

    /// Returns the runtime's name for column headings; if there is more than one thread per CPU, with their number.
    pub fn name(self) -> String {
        match self.threads_by_cpu() {
            1 => self.runtime().into(),
            times => format!("{} {times}x", self.runtime()),
        }
    }

    /// Returns the runtime's name, without the number of threads.
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

    /// Returns whether `cox run --overlap` starts the program.
    pub fn by_cox(self) -> bool {
        matches!(self, Way::Leader | Way::Perf | Way::StandbyIdle | Way::Bpf)
    }

    /// Returns the number of team threads per CPU.
    pub fn threads_by_cpu(self) -> u32 {
        match self {
            Way::Gomp(times) | Way::Omp(times) => times,
            _ => 1,
        }
    }
}

/// Serializes a runtime with its settings as its name.
///
/// # Errors
/// The serializer's errors.
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
