//! Restores changes. The session, its guardian, or a later session that finds the journal of a dead one can do this,
//! any number of times; the result is always the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::claim::Claim;
use crate::error::Error;
use crate::evacuation::{LOOKS, OwnCgroups, evacuate};
use crate::format::Change;
use crate::knob::Knob;
use crate::knob_io::KnobIo;
use crate::restoring::{Found, put_back};
pub use crate::undone::{Left, Undone};
use crate::unmoved::Why;
use crate::value::Value;

/// Restores `changes` in reverse order, except for those that `is_held` finds to be held by another session.
///
/// A mask is checked again when the change is undone that was journaled before its cpuset changed ([`Claim::Confined`]): as long
/// as the cpuset lacked CPUs, the kernel has left them out of the original mask, too.
///
/// A cgroup that the session has made is emptied before its files are restored and it is removed: some values cannot be
/// restored while it has members. What becomes of its files does not matter once it is gone.
pub fn undo(knob_io: &dyn KnobIo, changes: &[Change], is_held: &dyn Fn(&Change) -> bool) -> Undone {
    let mut undone = Undone::default();
    let own = OwnCgroups::of(changes.iter().filter(|change| !is_held(change)));
    let mut emptied = BTreeSet::new();
    let mut masks: BTreeMap<&Knob, &Change> = BTreeMap::new();
    for change in changes.iter().rev() {
        if is_held(change) {
            undone.inherited += 1;
            continue;
        }
        if let Some(user) = user_of(knob_io, change, &own) {
            let reason =
                format!("{} below it has CPUs or memory nodes of its own now, and would lose them", user.display());
            undone.left.push(Left { is_theirs: true, ..Left::of(change.knob.clone(), change, reason) });
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
            _ => match masks.get(&change.knob) {
                Some(set) if change.claim == Claim::Confined => mask(knob_io, set, change),
                _ => put_back(knob_io, &change.knob, change),
            },
        };
        if matches!((&change.knob, &result), (Knob::Affinity(_), Ok(Found::Ours))) {
            masks.insert(&change.knob, change);
        }
        // A mask may have been taken twice: first as one that the kernel changes, later to be set. The last look decides.
        undone.left.retain(|left| left.knob != change.knob);
        match result {
            Ok(Found::Original | Found::Ours) => undone.restored += 1,
            _ if around.is_some() && change.knob.file().is_some() => undone.restored += 1,
            // The kernel has bound this thread meanwhile, to CPUs of its choice, and lets nobody set its mask any more.
            Ok(Found::Theirs(_)) | Err(Error::Unmovable { .. }) if is_bound(knob_io, &change.knob) => undone.gone += 1,
            Ok(Found::Theirs(now)) => {
                let reason = format!("its value is now {now}, which was not set by cox");
                undone.left.push(Left { is_theirs: true, ..Left::of(change.knob.clone(), change, reason) });
            }
            Err(Error::Gone(_)) => undone.gone += 1,
            Err(error) if change.claim == Claim::Confined && has_errno(&error, libc::EINVAL) => {
                let reason = "its cgroup has none of its original CPUs any more".to_owned();
                undone.left.push(Left { is_theirs: true, ..Left::of(change.knob.clone(), change, reason) });
            }
            Err(error) => undone.left.push(Left::of(change.knob.clone(), change, error.to_string())),
        }
    }
    undone
}

/// Returns a cgroup that another program has given values of its own since the session turned a controller on; `None` for other
/// changes. The kernel forgets these values when the controller is turned off. Between this check and the write, a program could
/// set another one: the kernel has no call that does both.
fn user_of(knob_io: &dyn KnobIo, change: &Change, own: &OwnCgroups<'_>) -> Option<PathBuf> {
    let (Knob::Controller { cgroup, name }, Value::Present(false)) = (&change.knob, &change.original) else {
        return None;
    };
    // If the cgroups cannot be listed, turning the controller off fails, too.
    knob_io.users_of(cgroup, name).ok()?.into_iter().find(|user| !own.contains(user))
}

/// Returns whether this is the affinity of a thread that the kernel has bound to its CPUs.
fn is_bound(knob_io: &dyn KnobIo, knob: &Knob) -> bool {
    matches!(knob, Knob::Affinity(thread) if knob_io.fixed(*thread) == Some(Why::Bound))
}

/// Restores a mask that the session has `set` after its cpuset had changed, and has restored before the cpuset was.
fn mask(knob_io: &dyn KnobIo, set: &Change, confined: &Change) -> Result<Found, Error> {
    match put_back(knob_io, &set.knob, set)? {
        Found::Theirs(_) => put_back(knob_io, &confined.knob, confined),
        found => Ok(found),
    }
}

/// Removes a cgroup. If it is busy, empties it and tries again: another program may have moved a thread there.
fn remove(knob_io: &dyn KnobIo, cgroup: &Path, change: &Change, mut empty: impl FnMut()) -> Result<Found, Error> {
    let mut result = put_back(knob_io, &change.knob, change);
    for _ in 1..LOOKS {
        let is_busy = |error: &Error| has_errno(error, libc::EBUSY);
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

fn has_errno(error: &Error, errno: i32) -> bool {
    matches!(error, Error::Knob { source, .. } if source.raw_os_error() == Some(errno))
}
