//! Restores changes. The session, its guardian, or a later session that finds the journal of a dead one can do this,
//! any number of times; the result is always the same.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use crate::error::Error;
use crate::evacuation::{LOOKS, OwnCgroups, evacuate};
use crate::format::Change;
use crate::knob::Knob;
use crate::knob_io::KnobIo;
use crate::ownership::is_ours;
use crate::value::Value;

/// The result of undoing a session's changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Number of knobs that have their original value, because it was restored or was never changed.
    pub restored: usize,
    /// Number of restored knobs of new threads that the session did not know: they had inherited a value that the
    /// session had set.
    pub born: usize,
    /// Number of knobs whose thread or file does not exist any more.
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
        (Knob::Directory(path), Value::Present(false)) => Some(format!("rmdir {}", path.display())),
        (Knob::Membership { thread, .. }, Value::Cgroup(folder)) => {
            Some(format!("echo {} > {}/cgroup.procs", thread.tid, folder.display()))
        }
        _ => None,
    }
}

/// Restores `changes` in reverse order, except for those that `is_held` finds to be held by another session.
///
/// A cgroup that the session has made is emptied before its files are restored and it is removed: some values cannot be
/// restored while it has members. What becomes of its files does not matter once it is gone.
pub fn undo(knob_io: &dyn KnobIo, changes: &[Change], is_held: &dyn Fn(&Change) -> bool) -> Undone {
    let mut undone = Undone::default();
    let own = OwnCgroups::of(changes.iter().filter(|change| !is_held(change)));
    let mut emptied = BTreeSet::new();
    for change in changes.iter().rev() {
        if is_held(change) {
            undone.inherited += 1;
            continue;
        }
        let around = own.around(&change.knob);
        if let Some(cgroup) = around.filter(|cgroup| emptied.insert(*cgroup)) {
            evacuate(knob_io, cgroup, &own, changes, &mut undone);
        }
        let result = match (&change.knob, around) {
            (Knob::Directory(cgroup), Some(_)) => remove(knob_io, cgroup, change, || {
                evacuate(knob_io, cgroup, &own, changes, &mut undone);
            }),
            _ => put_back(knob_io, &change.knob, change),
        };
        match result {
            Ok(Found::Original | Found::Ours) => undone.restored += 1,
            _ if around.is_some() && change.knob.file().is_some() => undone.restored += 1,
            Ok(Found::Theirs(theirs)) => {
                let reason = format!("its value is now {theirs}, which was not set by cox");
                undone.left.push(Left { is_theirs: true, ..Left::of(change.knob.clone(), change, reason) });
            }
            Err(Error::Gone(_)) => undone.gone += 1,
            Err(error) => undone.left.push(Left::of(change.knob.clone(), change, error.to_string())),
        }
    }
    undone
}

/// Removes a cgroup. If it is busy, empties it and tries again: another program may have moved a thread there.
fn remove(knob_io: &dyn KnobIo, cgroup: &Path, change: &Change, mut empty: impl FnMut()) -> Result<Found, Error> {
    let mut result = put_back(knob_io, &change.knob, change);
    for _ in 1..LOOKS {
        let is_busy =
            |error: &Error| matches!(error, Error::Knob { source, .. } if source.raw_os_error() == Some(libc::EBUSY));
        // Without members it is a cgroup below it that keeps it busy.
        let has_members = || knob_io.members_of(cgroup).is_ok_and(|members| !members.is_empty());
        if !result.as_ref().is_err_and(is_busy) || !has_members() {
            break;
        }
        empty();
        result = put_back(knob_io, &change.knob, change);
    }
    result
}

/// What kind of value a knob had when cox checked whether to restore it.
pub(crate) enum Found {
    /// The original value.
    Original,
    /// A value that the session may have set; the knob has been restored.
    Ours,
    /// A value that somebody else has set.
    Theirs(Value),
}

/// Restores `knob` if its value counts as set by the session that made `change`. `change` is a change of this knob, or
/// of the knob from which the thread inherited its value.
pub(crate) fn put_back(knob_io: &dyn KnobIo, knob: &Knob, change: &Change) -> Result<Found, Error> {
    let ours = Cell::new(false);
    let back = |now: &Value| {
        ours.set(*now != change.original && is_ours(knob_io, knob, &change.claim, now));
        ours.get().then(|| change.claim.without(now, &change.original))
    };
    let now = knob_io.exchange(knob, &back)?;
    Ok(match () {
        () if now == change.original => Found::Original,
        () if ours.get() => Found::Ours,
        () => Found::Theirs(now),
    })
}
