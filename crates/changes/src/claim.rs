//! Claims: the values that a session may give a knob.

use std::fmt;

use machine::CpuSet;
use serde::{Deserialize, Serialize};

use crate::housekeeping::Base;
use crate::knob::Knob;
use crate::value::{Scheduling, Value};

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
    /// The affinity that the kernel gives a thread because its cpuset changes. The session never sets it. When a thread
    /// returns to its cpuset, the kernel need not restore its mask: it gives a mask of the kernel's own, and before Linux
    /// 6.2 each mask, all CPUs of the cpuset. So take such a claim before the thread's [`Knob::Membership`](crate::Knob),
    /// to restore the mask after it.
    Confined,
    /// The original CPUs without these. Sessions with disjoint CPUs share such a knob: its value lacks the CPUs of all of
    /// them, and the last one restores the original. If no original CPU is left, other CPUs replace them. An empty original
    /// stays empty, but in an empty list ([`Knob::CpuList`](crate::Knob), a new cpuset) nobody has chosen yet: it gets the
    /// replacing CPUs.
    Without {
        /// These CPUs.
        cpus: CpuSet,
        /// The CPUs that replace the original ones if none of them is left: those on which the system may run.
        otherwise: CpuSet,
    },
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
            (Claim::Within(_), _) | (Claim::Confined, _) => false,
            (Claim::Without { cpus: free, .. }, Value::Cpus(cpus)) => cpus.intersection(free).is_empty(),
            (Claim::Without { .. }, _) => false,
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

    /// Returns whether two sessions may have these claims on one knob at the same time. A confined mask is none that a
    /// session sets, so it agrees with all that another one sets.
    pub fn agrees_with(&self, other: &Claim) -> bool {
        if let (Claim::Without { cpus: mine, .. }, Claim::Without { cpus: theirs, .. }) = (self, other) {
            return mine.intersection(theirs).is_empty();
        }
        self == other || matches!(self, Claim::Confined) || matches!(other, Claim::Confined)
    }

    /// Returns whether a session with this claim leaves restoring the knob to another session, which has the claim
    /// `other`. A mask that the session has set is restored although the thread stays confined for the other session:
    /// that session could not tell this mask from one that the program has set.
    pub fn is_left_to(&self, other: &Claim) -> bool {
        match (self, other) {
            (Claim::Confined, _) => true,
            // The CPUs that this session has kept free are given back at once.
            (_, Claim::Confined | Claim::Without { .. }) => false,
            _ => true,
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
            Claim::Confined => true,
            Claim::Exactly(_) | Claim::AtTimes(_) | Claim::Without { .. } => false,
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

    /// Returns the CPUs that [`Claim::Without`] keeps free; `None` for other claims.
    #[must_use]
    pub fn kept_free(&self) -> Option<&CpuSet> {
        if let Claim::Without { cpus, .. } = self { Some(cpus) } else { None }
    }

    /// Returns the CPUs that [`Claim::Without`] leaves of a knob's original ones, if no other session has such a claim on
    /// it. `None` for other claims.
    #[must_use]
    pub fn kept(&self, knob: &Knob, original: &CpuSet) -> Option<CpuSet> {
        let Claim::Without { cpus, otherwise } = self else { return None };
        Some(Base::of(knob, original, otherwise).without([cpus]))
    }

    /// Returns the value that the session sets first: as soon as it takes (journals) the knob, or, with
    /// [`Claim::AtTimes`], later. `None` with [`Claim::Confined`], because the session sets no value, and with
    /// [`Claim::Without`], whose value depends on other sessions.
    pub fn first(&self) -> Option<Value> {
        match self {
            Claim::Exactly(value) | Claim::AtTimes(value) => Some(value.clone()),
            Claim::Within(pack) => Some(Value::Cpus(pack.clone())),
            Claim::Confined | Claim::Without { .. } => None,
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claim::Exactly(value) => write!(f, "{value}"),
            Claim::Within(cpus) => write!(f, "any subset of CPUs {cpus}"),
            Claim::AtTimes(value) => write!(f, "{value} or the original value"),
            Claim::Without { cpus, .. } => write!(f, "its CPUs without CPUs {cpus}"),
            Claim::Confined => f.write_str("what the kernel makes of it"),
        }
    }
}
