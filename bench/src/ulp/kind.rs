//! Who takes part in the experiment.

use serde::Serialize;

/// Who gives up the CPU, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// User-level processes.
    Ulps,
    /// ULPs of which half only sleep.
    UlpsHalfAsleep,
    /// Processes that call sched_yield(2); where nobody yields, processes.
    Processes,
    /// Processes that wake the next one by a futex, and sleep.
    ProcessesFutex,
    /// Threads that call sched_yield(2).
    Threads,
    /// The switch of carriers alone.
    Bare,
    /// The switch of boost.context.
    Boost,
}

impl Kind {
    /// All, in the order of the tables.
    pub const ALL: [Kind; 7] = [
        Kind::Ulps,
        Kind::UlpsHalfAsleep,
        Kind::Processes,
        Kind::ProcessesFutex,
        Kind::Threads,
        Kind::Bare,
        Kind::Boost,
    ];

    /// What it is called in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ulps => "ULPs",
            Kind::UlpsHalfAsleep => "ULPs beside as many that sleep",
            Kind::Processes => "processes, sched_yield",
            Kind::ProcessesFutex => "processes, futex",
            Kind::Threads => "threads, sched_yield",
            Kind::Bare => "bare switch, FS base",
            Kind::Boost => "boost.context",
        }
    }

    /// Whether members make system calls between yields, and have lives of their own.
    pub fn is_process(self) -> bool {
        matches!(self, Kind::Ulps | Kind::Processes)
    }
}
