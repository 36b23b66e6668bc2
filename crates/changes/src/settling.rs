//! Settles one session: restores what it has changed, and removes its journal.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use machine::CpuSet;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

use crate::claim::Claim;
use crate::copies::{Shrunk, restore_copies};
use crate::entry::{Entry, Problem};
use crate::files;
use crate::forgotten_masks::ForgottenMasks;
use crate::format::Change;
use crate::heirs::restore_heirs;
use crate::housekeeping::Base;
use crate::knob::Knob;
use crate::knob_io::KnobIo;
use crate::lock::Lock;
use crate::shared_knobs::{Held, plainly};
use crate::sweep::sweep;
use crate::undo::{Undone, undo};
use crate::value::Value;

/// Restores what the session of the journal `mine` has changed, and removes the journal. `all` are all journals,
/// including this one. The caller holds the lock.
pub(crate) fn settle_one(_lock: &Lock, knob_io: &dyn KnobIo, mine: &Entry, all: &[Entry]) -> Undone {
    let others: Vec<Entry> = all.iter().filter(|entry| entry.path != mine.path).cloned().collect();
    let mut undone = put_back_all(knob_io, mine.changes(), mine.births(), &others);
    let path = &mine.path;
    let done = match &mine.problem {
        None => files::open_own(path, OFlags::RDONLY).and_then(|file| files::remove(path, &file)),
        Some(Problem::Damaged(damage)) => {
            let aside = files::aside(path);
            let moved = renameat_with(CWD, path, CWD, &aside, RenameFlags::NOREPLACE);
            let now = if moved.is_ok() { &aside } else { path };
            undone.troubles.push(format!(
                "{}: {damage}; the changes in all other lines have been undone. Check the damaged lines, then remove the file",
                now.display()
            ));
            moved.map_err(io::Error::from)
        }
        Some(Problem::Unreadable(why)) => {
            undone.troubles.push(format!("{}: {why}; none of its changes has been undone", path.display()));
            Ok(())
        }
        Some(Problem::Newer(_) | Problem::SetAside) => Ok(()),
    };
    undone.troubles.extend(done.err().map(|error| left_behind(path, &error)));
    undone
}

/// Returns the message for a journal whose changes were restored, but which could not be removed.
pub(crate) fn left_behind(path: &Path, error: &io::Error) -> String {
    format!("cannot remove {}: {error}", path.display())
}

/// Returns a cpuset that sessions have shrunk, with the CPUs that it has before and after this session's change is undone;
/// `None` for other changes. `others` are the claims of other sessions on it.
fn shrunk(change: &Change, others: &[&Claim]) -> Option<Shrunk> {
    let (Knob::CpuList(file), Claim::Without { cpus: mine, otherwise }, Value::Cpus(original)) =
        (&change.knob, &change.claim, &change.original)
    else {
        return None;
    };
    let of_others: Vec<&CpuSet> = others.iter().filter_map(|claim| claim.kept_free()).collect();
    let base = Base::of(&change.knob, original, otherwise);
    let from = if of_others.is_empty() { original.clone() } else { base.without(of_others.iter().copied()) };
    Some(Shrunk { file: file.clone(), to: base.without(of_others.into_iter().chain([mine])), from })
}

/// Restores `changes`, and the knobs of new threads that have inherited a changed value (`births`, and masks of
/// `changes`). A knob that one of the `others` holds too is left to that session, whose journal has the same original
/// value. This also holds for a dead session whose changes are not restored yet.
pub(crate) fn put_back_all(knob_io: &dyn KnobIo, changes: &[Change], births: &[Change], others: &[Entry]) -> Undone {
    let of_others = || others.iter().flat_map(Entry::changes);
    let mut held: Held<'_> = BTreeMap::new();
    of_others().for_each(|change| held.entry(&change.knob).or_default().push(&change.claim));
    let is_held = |change: &Change| {
        held.get(&change.knob).is_some_and(|claims| claims.iter().any(|claim| change.claim.is_left_to(claim)))
    };
    let claims_of_others = |change: &Change| held.get(&change.knob).map_or(&[][..], Vec::as_slice);
    let shrunk: Vec<Shrunk> = changes.iter().filter_map(|change| shrunk(change, claims_of_others(change))).collect();
    let plain: Vec<Change> = changes.iter().map(|change| plainly(knob_io, change, claims_of_others(change))).collect();
    let mut known: BTreeSet<Knob> = of_others().map(|change| change.knob.clone()).collect();
    known.extend(plain.iter().map(|change| change.knob.clone()));
    let forgotten = ForgottenMasks::find(knob_io, &plain, &known, &is_held);
    let mut undone = undo(knob_io, &plain, &is_held);
    let heirs: BTreeSet<&Knob> = others.iter().flat_map(Entry::births).map(|births| &births.knob).collect();
    let births: Vec<&Change> = births.iter().filter(|births| !heirs.contains(&births.knob)).collect();
    sweep(knob_io, &births, &known, &mut undone);
    restore_copies(knob_io, &shrunk, &known, &mut undone);
    forgotten.restore(knob_io, &known, &mut undone);
    restore_heirs(knob_io, changes, &held, &mut undone);
    undone
}
