//! Restores the masks of threads that were created while a session kept CPUs free, and that the session has not met.
//!
//! In version 2 of cgroups, threads of the root cgroup stay there. The session takes the CPUs that it keeps free from their
//! masks ([`Claim::Without`]), and their children inherit what is left. The session journals the children that it meets. If
//! it is killed, it may not have met the last ones; and after [`Session::keep`](crate::Session::keep) it meets none. So the
//! undo lists the root cgroup once the creators are restored. The nearest creator that is in the journal decides: a child
//! whose mask is just what sessions have made of this creator's mask has inherited it, and gets back the creator's original.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::claim::Claim;
use crate::evacuation::{LOOKS, lineage};
use crate::format::Change;
use crate::knob::{Knob, Thread};
use crate::knob_io::KnobIo;
use crate::restoring::put_back_born;
use crate::shared_knobs::{Held, plainly};
use crate::undone::Undone;

/// Restores the masks of threads that have inherited them from the threads of `changes`, a session's own, but are not among
/// these. The CPUs that sessions of `held` keep free are left out.
pub(crate) fn restore_heirs(knob_io: &dyn KnobIo, changes: &[Change], held: &Held<'_>, undone: &mut Undone) {
    let journaled = Journaled::of(changes);
    if journaled.kept_free.is_empty() {
        return;
    }
    let made = changes.iter().filter_map(|change| match &change.knob {
        Knob::Directory(folder) => knob_io.hierarchy_of(folder).ok(),
        _ => None,
    });
    for root in made.collect::<BTreeSet<PathBuf>>() {
        let mut seen = BTreeSet::new();
        // A child may create another one before it is restored.
        for _ in 0..LOOKS {
            let members = knob_io.members_of(&root).unwrap_or_default();
            let new: Vec<u32> = members.into_iter().filter(|tid| seen.insert(*tid)).collect();
            let more = new.into_iter().filter(|tid| restore(knob_io, *tid, &journaled, held, undone)).count();
            if more == 0 {
                break;
            }
        }
    }
}

/// The threads in a session's journal.
struct Journaled<'c> {
    /// All whose masks it has.
    threads: BTreeSet<Thread>,
    /// Those from whose masks the session has taken CPUs.
    kept_free: BTreeMap<Thread, &'c Change>,
}

impl<'c> Journaled<'c> {
    fn of(changes: &'c [Change]) -> Journaled<'c> {
        let masks = || {
            changes.iter().filter_map(|change| match change.knob {
                Knob::Affinity(thread) => Some((thread, change)),
                _ => None,
            })
        };
        Journaled {
            threads: masks().map(|(thread, _)| thread).collect(),
            kept_free: masks().filter(|(_, change)| change.claim.kept_free().is_some()).collect(),
        }
    }
}

/// Restores a thread's mask if it has inherited it. Returns whether it may have created another thread that has.
fn restore(knob_io: &dyn KnobIo, tid: u32, journaled: &Journaled<'_>, held: &Held<'_>, undone: &mut Undone) -> bool {
    let Some(start_ns) = knob_io.started_ns(tid) else { return true };
    let thread = Thread { tid, start_ns };
    if journaled.threads.contains(&thread) {
        return false;
    }
    let creator = lineage(knob_io, thread).into_iter().find(|creator| journaled.threads.contains(creator));
    let Some(of_creator) = creator.and_then(|creator| journaled.kept_free.get(&creator)) else { return false };
    let knob = Knob::Affinity(thread);
    let of_others = |knob: &Knob| held.get(knob).into_iter().flatten().copied();
    if of_others(&knob).any(|claim| of_creator.claim.is_left_to(claim)) {
        return false;
    }
    let others: Vec<&Claim> = of_others(&knob).chain(of_others(&of_creator.knob)).collect();
    let change = plainly(knob_io, &Change { knob: knob.clone(), ..(*of_creator).clone() }, &others);
    put_back_born(knob_io, &knob, &change, undone)
}
