//! Knobs, their values, and claims. The crate's documentation defines these terms.

use std::fmt;
use std::path::PathBuf;

use machine::CpuSet;
use serde::{Deserialize, Serialize};

/// A thread. Its start time distinguishes it from a later thread with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Start time on CLOCK_BOOTTIME, as in [`machine::process::Stat`], ns.
    pub start_ns: u64,
}

/// Something that can be changed and restored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// The CPUs that a thread may run on: sched_setaffinity(2).
    Affinity(Thread),
    /// A thread's scheduling class, nice value, priority and slice: sched_setattr(2).
    Scheduling(Thread),
    /// The text of a file below /proc or /sys, without its final line end.
    File(PathBuf),
}

impl Knob {
    /// Returns the thread whose knob this is; `None` for a file.
    #[must_use]
    pub fn thread(&self) -> Option<Thread> {
        match self {
            Knob::Affinity(thread) | Knob::Scheduling(thread) => Some(*thread),
            Knob::File(_) => None,
        }
    }

    /// Returns the same knob of another thread; `None` for a file.
    #[must_use]
    pub fn of(&self, thread: Thread) -> Option<Knob> {
        match self {
            Knob::Affinity(_) => Some(Knob::Affinity(thread)),
            Knob::Scheduling(_) => Some(Knob::Scheduling(thread)),
            Knob::File(_) => None,
        }
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Knob::Affinity(thread) => write!(f, "affinity of thread {}", thread.tid),
            Knob::Scheduling(thread) => write!(f, "scheduling of thread {}", thread.tid),
            Knob::File(path) => write!(f, "{}", path.display()),
        }
    }
}

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

    fn is_class_of(&self, other: &Scheduling) -> bool {
        (self.policy, self.priority, self.flags) == (other.policy, other.priority, other.flags)
    }
}

/// The value of a knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// The value of an affinity.
    Cpus(CpuSet),
    /// The value of a scheduling.
    Scheduling(Scheduling),
    /// The content of a file.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Cpus(cpus) => write!(f, "CPUs {cpus}"),
            Value::Scheduling(s) => {
                let class = s.class().map_or("another class".to_owned(), |class| format!("SCHED_{class}"));
                write!(f, "{class}, nice {}, priority {}", s.nice, s.priority)?;
                if s.slice_ns > 0 { write!(f, ", slice {} ns", s.slice_ns) } else { Ok(()) }
            }
            Value::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// The values that a session may give a knob. When the session's changes are undone, a knob that has one of these
/// values counts as changed by the session, and is restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// Exactly this value, from the start.
    Exactly(Value),
    /// Any affinity within these CPUs; all of them at the start.
    Within(CpuSet),
    /// This value at times, and the original value in between. When the session takes (journals) the knob, it does
    /// not set a value yet.
    AtTimes(Value),
}

impl Claim {
    /// Returns whether the session may have set this value.
    ///
    /// If the value is a thread's scheduling and the claim is [`Claim::AtTimes`], only class, priority and flags are
    /// compared. So the session's class is recognised even if somebody has changed the nice value or the slice
    /// meanwhile; [`Claim::without`] keeps such a change.
    pub fn covers(&self, value: &Value) -> bool {
        match (self, value) {
            (Claim::Within(pack), Value::Cpus(cpus)) => !cpus.is_empty() && cpus.is_subset(pack),
            (Claim::Within(_), _) => false,
            (Claim::AtTimes(Value::Scheduling(mine)), Value::Scheduling(now)) => mine.is_class_of(now),
            (Claim::Exactly(mine) | Claim::AtTimes(mine), value) => mine == value,
        }
    }

    /// Returns whether the session may set this value, if the knob's original is `original`.
    pub fn permits(&self, value: &Value, original: &Value) -> bool {
        value == original
            || match self {
                Claim::AtTimes(mine) => mine == value,
                _ => self.covers(value),
            }
    }

    /// Returns whether the session may have set an affinity without any of the CPUs in `possible`. The kernel cannot
    /// apply such a mask, and lets the thread use all possible CPUs instead.
    pub fn may_be_overruled(&self, possible: &CpuSet) -> bool {
        match self {
            Claim::Within(pack) => !pack.is_subset(possible),
            Claim::Exactly(Value::Cpus(mine)) | Claim::AtTimes(Value::Cpus(mine)) => {
                mine.intersection(possible).is_empty()
            }
            Claim::Exactly(_) | Claim::AtTimes(_) => false,
        }
    }

    /// Returns the value to which a knob is restored. `now` is its present value, which the session may have set. The
    /// result is `original`, with one exception: if the claim is [`Claim::AtTimes`], and somebody else has set a
    /// thread's nice value or slice, that value is kept.
    pub fn without(&self, now: &Value, original: &Value) -> Value {
        match (self, now, original) {
            (Claim::AtTimes(Value::Scheduling(mine)), Value::Scheduling(now), Value::Scheduling(original)) => {
                Value::Scheduling(Scheduling {
                    nice: if now.nice == mine.nice { original.nice } else { now.nice },
                    slice_ns: if now.slice_ns == mine.slice_ns { original.slice_ns } else { now.slice_ns },
                    ..*original
                })
            }
            _ => original.clone(),
        }
    }

    /// Returns the value that the session sets first: as soon as it takes (journals) the knob, or, with
    /// [`Claim::AtTimes`], later.
    pub fn first(&self) -> Value {
        match self {
            Claim::Exactly(value) | Claim::AtTimes(value) => value.clone(),
            Claim::Within(pack) => Value::Cpus(pack.clone()),
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claim::Exactly(value) => write!(f, "{value}"),
            Claim::Within(cpus) => write!(f, "any subset of CPUs {cpus}"),
            Claim::AtTimes(value) => write!(f, "{value} or the original value"),
        }
    }
}
