//! What can be changed, the values it has, and what a session claims of it.

use std::fmt;
use std::path::PathBuf;

use machine::CpuSet;
use serde::{Deserialize, Serialize};

/// A thread, told from a later one with the same id by its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Start of the thread on CLOCK_BOOTTIME, as [`machine::process::Stat`] has it.
    pub start_ns: u64,
}

/// One thing that can be changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// The CPUs a thread may run on: sched_setaffinity(2).
    Affinity(Thread),
    /// A thread's scheduling class, nice value, priority and slice: sched_setattr(2).
    Scheduling(Thread),
    /// The text of a file below /proc or /sys, without its final line end.
    File(PathBuf),
}

impl Knob {
    /// The thread it belongs to.
    #[must_use]
    pub fn thread(&self) -> Option<Thread> {
        match self {
            Knob::Affinity(thread) | Knob::Scheduling(thread) => Some(*thread),
            Knob::File(_) => None,
        }
    }

    /// The same knob of another thread; `None` for a file.
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

/// How a thread is scheduled: the fields of `struct sched_attr` that belong to a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduling {
    /// SCHED_OTHER 0, SCHED_FIFO 1, SCHED_RR 2, SCHED_BATCH 3, SCHED_IDLE 5.
    pub policy: u32,
    /// SCHED_FLAG_RESET_ON_FORK 1, and whatever else the kernel shows.
    pub flags: u64,
    /// Nice value of the fair classes.
    pub nice: i32,
    /// Priority of the real-time classes.
    pub priority: u32,
    /// Time slice of the fair classes (Linux 6.12 and later); 0: the kernel's.
    pub slice_ns: u64,
}

impl Scheduling {
    /// SCHED_IDLE: runs when nobody else on its CPU wants to.
    pub const IDLE: u32 = 5;

    /// The same thread's scheduling in SCHED_IDLE.
    #[must_use]
    pub fn idle(self) -> Scheduling {
        Scheduling { policy: Scheduling::IDLE, priority: 0, ..self }
    }

    fn is_class_of(&self, other: &Scheduling) -> bool {
        (self.policy, self.priority, self.flags) == (other.policy, other.priority, other.flags)
    }
}

/// The value of a knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Of an affinity.
    Cpus(#[serde(with = "cpu_list")] CpuSet),
    /// Of a scheduling.
    Scheduling(Scheduling),
    /// Of a file.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Cpus(cpus) => write!(f, "CPUs {cpus}"),
            Value::Scheduling(s) => {
                let class = match s.policy {
                    0 => "SCHED_OTHER",
                    1 => "SCHED_FIFO",
                    2 => "SCHED_RR",
                    3 => "SCHED_BATCH",
                    Scheduling::IDLE => "SCHED_IDLE",
                    _ => "another class",
                };
                write!(f, "{class}, nice {}, priority {}", s.nice, s.priority)?;
                if s.slice_ns > 0 { write!(f, ", slice {} ns", s.slice_ns) } else { Ok(()) }
            }
            Value::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// What a session may set a knob to, and recognises as its own when it undoes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// This value, from the first moment.
    Exactly(Value),
    /// Any affinity within these CPUs; all of them at first.
    Within(#[serde(with = "cpu_list")] CpuSet),
    /// This value at times, and the original in between. Taking the knob writes nothing.
    AtTimes(Value),
}

impl Claim {
    /// Whether a value may be the session's doing.
    ///
    /// A scheduling that is claimed at times is recognised by its class, priority and flags: in another
    /// class the nice value and the slice stay the thread's, and whoever changes them then changes nothing
    /// of ours ([`Claim::without`]).
    pub fn covers(&self, value: &Value) -> bool {
        match (self, value) {
            (Claim::Within(pack), Value::Cpus(cpus)) => !cpus.is_empty() && cpus.is_subset(pack),
            (Claim::Within(_), _) => false,
            (Claim::AtTimes(Value::Scheduling(mine)), Value::Scheduling(now)) => mine.is_class_of(now),
            (Claim::Exactly(mine) | Claim::AtTimes(mine), value) => mine == value,
        }
    }

    /// Whether the session may set a value of a knob that was `original`.
    pub fn permits(&self, value: &Value, original: &Value) -> bool {
        value == original
            || match self {
                Claim::AtTimes(mine) => mine == value,
                _ => self.covers(value),
            }
    }

    /// Whether the session may have set an affinity that cannot be while a thread can only have `possible` CPUs:
    /// the kernel then gives it all of these.
    pub fn may_be_overruled(&self, possible: &CpuSet) -> bool {
        match self {
            Claim::Within(pack) => !pack.is_subset(possible),
            Claim::Exactly(Value::Cpus(mine)) | Claim::AtTimes(Value::Cpus(mine)) => {
                mine.intersection(possible).is_empty()
            }
            Claim::Exactly(_) | Claim::AtTimes(_) => false,
        }
    }

    /// What a knob is to be put back to that reads `now`, a value that is covered: the original, but for
    /// what somebody else has changed of a scheduling that was claimed at times.
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

    /// The value that the session sets first: on taking the knob, or at a time of its choice.
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
            Claim::Within(cpus) => write!(f, "some of CPUs {cpus}"),
            Claim::AtTimes(value) => write!(f, "{value} at times"),
        }
    }
}

/// CPU sets as the lists people write, `0-3,8`.
mod cpu_list {
    use machine::CpuSet;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(cpus: &CpuSet, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(cpus)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CpuSet, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
