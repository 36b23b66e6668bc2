//! Threads that were created while the kernel had widened the mask of their creator.
//!
//! Before Linux 6.2, each change of a cpuset gives its threads all its CPUs, whatever masks programs have set
//! (`update_tasks_cpumask` in kernel/cgroup/cpuset.c). The session restores the masks that it has journaled
//! ([`Claim::Confined`]). No journal has the mask of a thread that was created meanwhile. So:
//!
//! 1. Before the cpusets are restored, such threads are listed. One that has all CPUs of its cpuset has inherited what the
//!    kernel had given its creator: it is to get the original mask of the creator. Any other mask is one that its program
//!    has set since, and is to be its mask again.
//! 2. After the cpusets are restored, each of them gets that mask, if the kernel has given it all CPUs.
//!
//! The journal has all threads that existed and can be moved. So a thread that is in no journal was created meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use crate::claim::Claim;
use crate::evacuation::{LOOKS, lineage};
use crate::format::Change;
use crate::knob::{Knob, Thread};
use crate::knob_io::KnobIo;
use crate::restoring::put_back_born;
use crate::undone::Undone;
use crate::value::Value;

/// The process that creates the kernel's threads, whose masks no cpuset changes.
const KTHREADD: u32 = 2;

/// Threads that were created meanwhile, with the masks that they are to get.
#[derive(Default)]
pub(crate) struct ForgottenMasks<'c> {
    /// The session's changes of masks that the kernel has changed, and that no other session restores.
    confined: BTreeMap<&'c Knob, &'c Change>,
    /// Ids of the threads that were looked at.
    looked_at: BTreeSet<u32>,
    found: Vec<Change>,
}

impl<'c> ForgottenMasks<'c> {
    /// Lists the threads that were created meanwhile; none if the kernel does not forget masks. Those in `known` have journal
    /// entries of their own. Another session restores the changes that are held.
    pub(crate) fn find(
        knob_io: &dyn KnobIo,
        changes: &'c [Change],
        known: &BTreeSet<Knob>,
        is_held: &dyn Fn(&Change) -> bool,
    ) -> ForgottenMasks<'c> {
        let confined = changes.iter().filter(|change| change.claim == Claim::Confined && !is_held(change));
        let mut forgotten = ForgottenMasks {
            confined: confined.map(|change| (&change.knob, change)).collect(),
            ..ForgottenMasks::default()
        };
        if !forgotten.confined.is_empty() && knob_io.forgets_masks() {
            forgotten.look(knob_io, known);
        } else {
            forgotten.confined.clear();
        }
        forgotten
    }

    /// Adds the threads that are new since the last time.
    fn look(&mut self, knob_io: &dyn KnobIo, known: &BTreeSet<Knob>) {
        for tid in knob_io.all_threads().unwrap_or_default() {
            if !self.looked_at.insert(tid) {
                continue;
            }
            let Some(start_ns) = knob_io.started_ns(tid) else { continue };
            let thread = Thread { tid, start_ns };
            if !known.contains(&Knob::Affinity(thread)) {
                self.found.extend(self.change(knob_io, thread, known));
            }
        }
    }

    /// Returns the mask that a thread is to get, as a change; `None` if it is unknown.
    fn change(&self, knob_io: &dyn KnobIo, thread: Thread, known: &BTreeSet<Knob>) -> Option<Change> {
        let knob = Knob::Affinity(thread);
        let now = knob_io.read(&knob).ok()?;
        if now != Value::Cpus(knob_io.possible_cpus(thread).ok()?) {
            let engine = self.confined.values().next()?.engine.clone();
            return Some(Change { engine, knob, original: now, claim: Claim::Confined });
        }
        let creators = lineage(knob_io, thread).into_iter().skip(1);
        let creator = creators.map(Knob::Affinity).find(|creator| known.contains(creator))?;
        let change = self.confined.get(&creator).filter(|_| creator.thread().is_some_and(|its| its.tid != KTHREADD))?;
        Some(Change { knob, ..(*change).clone() })
    }

    /// Restores the masks, also of threads that were created since they were listed.
    pub(crate) fn restore(mut self, knob_io: &dyn KnobIo, known: &BTreeSet<Knob>, undone: &mut Undone) {
        if self.confined.is_empty() {
            return;
        }
        for _ in 0..LOOKS {
            let mut more = false;
            for change in std::mem::take(&mut self.found) {
                more |= put_back_born(knob_io, &change.knob, &change, undone);
            }
            // A thread may have created another one before it had its mask again.
            self.look(knob_io, known);
            if !more && self.found.is_empty() {
                break;
            }
        }
    }
}
