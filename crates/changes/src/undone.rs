//! What became of the changes of a session when they were undone.

use std::fmt;

use crate::format::Change;
use crate::knob::{Knob, RUNNING};
use crate::value::Value;

/// The result of undoing a session's changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Number of knobs that have their original value, because it was restored or was never changed.
    pub restored: usize,
    /// Number of restored knobs of new threads that the session did not know: they had inherited a value that the
    /// session had set.
    pub born: usize,
    /// Number of knobs whose thread or file does not exist any more, and of masks of threads that the kernel has bound since
    /// then.
    pub gone: usize,
    /// Number of knobs left to another session, which restores them when it ends.
    pub inherited: usize,
    /// Knobs that were not restored, and why.
    pub left: Vec<Left>,
    /// Problems with the journal or its folder, one line each. Some changes may not have been restored.
    pub troubles: Vec<String>,
}

impl Undone {
    /// Returns the knobs that could not be restored, and the problems with journals, one line each. A value that
    /// somebody else has set is not a failure.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        let left = self.left.iter().filter(|left| !left.is_theirs).map(ToString::to_string);
        left.chain(self.troubles.iter().cloned())
    }
}

/// A knob that was not restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The knob.
    pub knob: Knob,
    /// Why the knob was not restored: somebody else has set it, or the kernel returned an error.
    pub reason: String,
    /// True if somebody else has set the knob.
    pub is_theirs: bool,
    /// The original value.
    pub original: Value,
}

impl Left {
    pub(crate) fn of(knob: Knob, change: &Change, reason: String) -> Left {
        Left { knob, reason, is_theirs: false, original: change.original.clone() }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was not restored: {}; ", self.knob, self.reason)?;
        match by_hand(&self.knob, &self.original) {
            Some(command) => write!(f, "to restore it: {command}"),
            None => write!(f, "its original value was {}", self.original),
        }
    }
}

/// Returns the commands with which a user can restore the knob.
fn by_hand(knob: &Knob, original: &Value) -> Option<String> {
    match (knob, original) {
        (Knob::Affinity(thread), Value::Cpus(cpus)) => Some(format!("taskset -pc {cpus} {}", thread.tid)),
        (Knob::Scheduling(thread), Value::Scheduling(was)) => {
            let (class, tid) = (was.class()?.to_lowercase(), thread.tid);
            Some(format!("chrt --{class} -p {} {tid} && renice -n {} -p {tid}", was.priority, was.nice))
        }
        (Knob::File(path) | Knob::Choice(path), Value::Text(text)) => {
            Some(format!("echo '{text}' > {}", path.display()))
        }
        (Knob::CpuList(path), Value::Cpus(cpus)) => Some(format!("echo '{cpus}' > {}", path.display())),
        (Knob::Interrupt { name, .. }, Value::Cpus(cpus)) => {
            Some(format!("echo '{cpus}' > /proc/irq/N/smp_affinity_list, N as in: grep '{name}' /proc/interrupts"))
        }
        (Knob::CpuMask(path), Value::Cpus(cpus)) => Some(format!("echo {} > {}", cpus.to_mask(), path.display())),
        (Knob::Controller { cgroup, name }, Value::Present(on)) => {
            let sign = if *on { '+' } else { '-' };
            Some(format!("echo {sign}{name} > {}/cgroup.subtree_control", cgroup.display()))
        }
        (Knob::Running(thread), Value::Text(word)) if word == RUNNING => Some(format!("kill -CONT {}", thread.tid)),
        (Knob::Directory(path), Value::Present(false)) => Some(format!("rmdir {}", path.display())),
        (Knob::Membership { thread, .. }, Value::Cgroup(folder)) => {
            Some(format!("echo {} > {}/cgroup.procs", thread.tid, folder.display()))
        }
        _ => None,
    }
}
