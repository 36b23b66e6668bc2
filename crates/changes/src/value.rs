//! Values of knobs.

use std::fmt;
use std::path::PathBuf;

use machine::CpuSet;
use serde::{Deserialize, Serialize};

/// The scheduling of a thread: the fields of `struct sched_attr` that belong to a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduling {
    /// Scheduling class: SCHED_OTHER 0, SCHED_FIFO 1, SCHED_RR 2, SCHED_BATCH 3, SCHED_IDLE 5.
    pub policy: u32,
    /// Flags: SCHED_FLAG_RESET_ON_FORK 1, and others that the kernel shows.
    pub flags: u64,
    /// Nice value of the fair classes.
    pub nice: i32,
    /// Priority of the real-time classes.
    pub priority: u32,
    /// Time slice of the fair classes (Linux 6.12 and later), ns; 0: the kernel's default.
    pub slice_ns: u64,
}

impl Scheduling {
    /// SCHED_IDLE: the thread runs only if no other thread on its CPU can.
    pub const IDLE: u32 = 5;
    /// SCHED_DEADLINE: the thread has a budget of CPU time in each period. cox neither sets nor restores it.
    pub const DEADLINE: u32 = 6;

    /// Returns the same scheduling, in SCHED_IDLE.
    #[must_use]
    pub fn idle(self) -> Scheduling {
        Scheduling { policy: Scheduling::IDLE, priority: 0, ..self }
    }

    /// Returns the name of the class without `SCHED_`; `None` for SCHED_DEADLINE and unknown classes.
    pub(crate) fn class(&self) -> Option<&'static str> {
        match self.policy {
            0 => Some("OTHER"),
            1 => Some("FIFO"),
            2 => Some("RR"),
            3 => Some("BATCH"),
            Scheduling::IDLE => Some("IDLE"),
            _ => None,
        }
    }

    pub(crate) fn is_class_of(&self, other: &Scheduling) -> bool {
        (self.policy, self.priority, self.flags) == (other.policy, other.priority, other.flags)
    }
}

/// The value of a knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// The value of an affinity, and of a file that has a set of CPUs.
    Cpus(CpuSet),
    /// The value of a scheduling.
    Scheduling(Scheduling),
    /// The content of a file.
    Text(String),
    /// Whether a cgroup exists.
    Present(bool),
    /// The cgroup that a thread is in, by its folder.
    Cgroup(PathBuf),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Cpus(cpus) if cpus.is_empty() => f.write_str("no CPUs"),
            Value::Cpus(cpus) => write!(f, "CPUs {cpus}"),
            Value::Scheduling(s) => {
                let class = s.class().map_or("another class".to_owned(), |class| format!("SCHED_{class}"));
                write!(f, "{class}, nice {}, priority {}", s.nice, s.priority)?;
                if s.slice_ns > 0 { write!(f, ", slice {} ns", s.slice_ns) } else { Ok(()) }
            }
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Present(true) => f.write_str("present"),
            Value::Present(false) => f.write_str("absent"),
            Value::Cgroup(folder) => write!(f, "{}", folder.display()),
        }
    }
}
