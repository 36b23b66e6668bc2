//! Moves all threads out of a cgroup that the session has made, so that it can be removed.
//!
//! A thread that the session itself has moved there goes where it came from, and its journal entries say the rest. All
//! other threads were created there meanwhile: such a thread has inherited the cgroup, and the mask that the kernel gave
//! its creator because of it. So it goes where its creator came from, and gets its creator's original mask. The creator may
//! have been created there too; then its own creator decides, and so on. If all of them have ended, it goes where a thread
//! came from that the session has moved there, or else to the cgroup above.

use std::path::{Path, PathBuf};

use crate::claim::Claim;
use crate::error::Error;
use crate::format::Change;
use crate::knob::{Knob, Thread};
use crate::knob_io::KnobIo;
use crate::restoring::put_back;
use crate::undone::{Left, Undone};
use crate::value::Value;

/// Maximum number of passes over the members. A member may create another one before it is moved; the next pass finds
/// it. The last pass finds none.
pub(crate) const LOOKS: usize = 50;

/// How many creators are looked at for a member.
const ANCESTORS: usize = 64;

/// The cgroups that the session has made, by their folders.
pub(crate) struct OwnCgroups<'c>(Vec<&'c Path>);

impl<'c> OwnCgroups<'c> {
    /// Finds the cgroups that were made by these changes.
    pub(crate) fn of(changes: impl Iterator<Item = &'c Change>) -> OwnCgroups<'c> {
        OwnCgroups(changes.filter_map(made).collect())
    }

    /// Returns the innermost of these cgroups that a knob belongs to: the cgroup itself, or one of its files.
    pub(crate) fn around(&self, knob: &Knob) -> Option<&'c Path> {
        let path = match knob {
            Knob::Directory(path) => path,
            knob => knob.file()?,
        };
        let around = self.0.iter().copied().filter(|folder| path.starts_with(folder));
        around.max_by_key(|folder| folder.components().count())
    }

    /// Returns the nearest cgroup above `folder` that the session has not made.
    fn above(&self, folder: &Path) -> Option<PathBuf> {
        folder.ancestors().find(|above| !self.contains(above)).map(Path::to_owned)
    }

    /// Returns whether the session has made this cgroup.
    pub(crate) fn contains(&self, folder: &Path) -> bool {
        self.0.contains(&folder)
    }
}

/// Returns the folder of the cgroup that a change makes; `None` for other changes.
fn made(change: &Change) -> Option<&Path> {
    match (&change.knob, &change.original) {
        (Knob::Directory(path), Value::Present(false)) => Some(path),
        _ => None,
    }
}

/// Moves all threads out of `cgroup`, which is one of `own`. `changes` are those of the session.
pub(crate) fn evacuate(
    knob_io: &dyn KnobIo,
    cgroup: &Path,
    own: &OwnCgroups<'_>,
    changes: &[Change],
    undone: &mut Undone,
) {
    let Ok(hierarchy) = knob_io.hierarchy_of(cgroup) else { return };
    let mut failures: Vec<Left> = Vec::new();
    for _ in 0..LOOKS {
        let Ok(members) = knob_io.members_of(cgroup) else { return };
        if members.is_empty() {
            return;
        }
        failures.clear();
        for tid in members {
            let Some(start_ns) = knob_io.started_ns(tid) else { continue };
            let member = Member { knob_io, thread: Thread { tid, start_ns }, hierarchy: &hierarchy };
            match member.leave(cgroup, own, changes) {
                Ok(true) => undone.born += 1,
                Ok(false) | Err(Error::Gone(_)) => {}
                Err(error) => failures.push(member.left(error.to_string(), own.above(cgroup))),
            }
        }
    }
    undone.left.append(&mut failures);
}

/// A thread in a cgroup of ours.
struct Member<'k> {
    knob_io: &'k dyn KnobIo,
    thread: Thread,
    hierarchy: &'k Path,
}

impl Member<'_> {
    fn knob(&self) -> Knob {
        Knob::Membership { thread: self.thread, hierarchy: self.hierarchy.to_owned() }
    }

    /// Moves the thread out of `cgroup`, and restores its mask. Returns false if it has left the cgroup already, or if the
    /// session knows it.
    fn leave(&self, cgroup: &Path, own: &OwnCgroups<'_>, changes: &[Change]) -> Result<bool, Error> {
        let knob = self.knob();
        let from = |change: &Change| match &change.original {
            Value::Cgroup(folder) if folder != cgroup => Some(folder.clone()),
            _ => None,
        };
        let creators = lineage(self.knob_io, self.thread);
        let known = creators.iter().find_map(|creator| change_of(changes, &knob.of(*creator)?).and_then(from));
        // Its creator has ended: then it came with one of those that the session has moved here.
        let is_into = |change: &&Change| matches!(&change.claim, Claim::Exactly(Value::Cgroup(into)) if into == cgroup);
        let moved = changes.iter().filter(is_into).find_map(from);
        let mut result = Ok(false);
        // The creator's cgroup may have been removed.
        for target in known.into_iter().chain(moved).chain(own.above(cgroup)) {
            let here = Value::Cgroup(cgroup.to_owned());
            let out = |now: &Value| (*now == here).then(|| Value::Cgroup(target.clone()));
            result = self.knob_io.exchange(&knob, &out).map(|now| now == here);
            if matches!(result, Ok(_) | Err(Error::Gone(_))) {
                break;
            }
        }
        let has_left = result?;
        let affinity = Knob::Affinity(self.thread);
        // The session has moved this thread here, or has a journal entry of its mask. The mask of a thread that was only
        // moved is its own.
        if change_of(changes, &knob).or_else(|| change_of(changes, &affinity)).is_some() {
            return Ok(false);
        }
        let of_creator = |creator: &Thread| change_of(changes, &affinity.of(*creator)?);
        if let Some(change) = creators.iter().find_map(of_creator) {
            put_back(self.knob_io, &affinity, change)?;
        }
        Ok(has_left)
    }

    fn left(&self, reason: String, original: Option<PathBuf>) -> Left {
        let original = Value::Cgroup(original.unwrap_or_default());
        Left { knob: self.knob(), reason, is_theirs: false, original }
    }
}

/// Returns a thread, and the tasks that it comes from, the nearest first.
pub(crate) fn lineage(knob_io: &dyn KnobIo, thread: Thread) -> Vec<Thread> {
    let mut lineage = vec![thread];
    while let Some(tid) = lineage.last().and_then(|last| knob_io.creator_of(last.tid)) {
        let Some(start_ns) = knob_io.started_ns(tid).filter(|_| lineage.len() < ANCESTORS) else { break };
        lineage.push(Thread { tid, start_ns });
    }
    lineage
}

/// Returns the first change of a knob.
fn change_of<'c>(changes: &'c [Change], knob: &Knob) -> Option<&'c Change> {
    changes.iter().find(|change| change.knob == *knob)
}
