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

    /// Both peers, each as people set it by hand, and ours.
    pub fn all() -> impl Iterator<Item = Way> {
        MANUAL.map(Way::Gomp).into_iter().chain(MANUAL.map(Way::Omp)).chain(Way::OURS)
    }

    /// As a column is headed.
    pub fn name(self) -> String {
        match self {
            Way::Gomp(1) => "libgomp".into(),
            Way::Omp(1) => "libomp".into(),
            Way::Gomp(times) => format!("libgomp {times}x"),
            Way::Omp(times) => format!("libomp {times}x"),
            Way::Off => "off".into(),
            Way::Leader => "leader".into(),
            Way::Perf => "perf".into(),
            Way::StandbyIdle => "standby-idle".into(),
            Way::Bpf => "bpf".into(),
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
