//! Real threads in hand: each order becomes one change of an affinity, through `changes`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::Path;
use std::process::{self, Command};

use changes::guardian::Guardian;
use changes::{
    ChangeRequest, Claim, JournalFolder, Knob, KnobHandle, LiveKnobIo, Right, Session, Setting, Thread, Value,
};
use machine::CpuSet;
use wire::Stand;

use super::Error;
use super::plan::Plan;
use crate::policy::{Order, Slot};

/// Who wants the changes, as messages name it.
const ENGINE: &str = "pack";

/// A thread that the session holds.
pub struct Held {
    /// Its place in the table of stands.
    pub stand: usize,
    /// Its id.
    pub tid: u32,
    handle: KnobHandle,
    /// The pack's CPUs one by one, and all of them.
    slots: Vec<Setting>,
    anywhere: Setting,
    /// `None`: anywhere in the pack.
    now: Option<Slot>,
    /// It was found outside of the pack, and is left as it is until somebody has asked why.
    strayed: bool,
}

impl Held {
    /// Does what the policy wants, unless the program has set the thread's CPUs itself meanwhile: then that is
    /// what holds. The look costs a small part of the move.
    ///
    /// # Errors
    /// [`changes::Error::Gone`] when the thread has ended; the kernel's refusal.
    pub fn obey(&mut self, order: &Order) -> Result<(), changes::Error> {
        let wanted = order.place();
        if wanted == self.now || self.strayed {
            return Ok(());
        }
        self.strayed = !self.handle.is_within(&self.anywhere)?;
        if self.strayed {
            return Ok(());
        }
        self.handle.apply(wanted.map_or(&self.anywhere, |slot| &self.slots[slot]))?;
        self.now = wanted;
        Ok(())
    }

    /// Whether it was found outside of the pack.
    pub fn has_strayed(&self) -> bool {
        self.strayed
    }
}

/// The session with what it has taken.
pub struct Holder<'h> {
    knob_io: &'h LiveKnobIo,
    session: Session<'h>,
    cpus: CpuSet,
    /// Leaders of processes that were announced, with the right to pack them; that of the processes that were
    /// named is in `alone`.
    adopted: BTreeMap<u32, (Thread, Option<Right>)>,
    /// For each thread that was met, by id: itself once taken, else its nearest taken ancestor. A thread that
    /// ended before it was met may have children that inherited our masks through it.
    origin: BTreeMap<u32, Thread>,
    /// Nobody else may pack the processes that were named meanwhile.
    alone: BTreeMap<u32, Right>,
    /// Threads that are left as they are, and why the first of them is.
    left: Left,
}

/// Threads that cannot be steered.
#[derive(Debug, Default)]
pub struct Left {
    /// How many.
    pub threads: usize,
    /// Why the first of them cannot.
    pub why: Option<String>,
}

impl Left {
    fn add(&mut self, threads: usize, why: &dyn Display) {
        self.threads += threads;
        self.why.get_or_insert_with(|| why.to_string());
    }
}

impl<'h> Holder<'h> {
    /// Begins a session. Nothing is changed yet.
    ///
    /// # Errors
    /// When one of the processes is packed already, or the journal or the guardian do not work.
    pub fn begin(knob_io: &'h LiveKnobIo, plan: &Plan) -> Result<Holder<'h>, Error> {
        let journals = JournalFolder::of_user();
        let mut alone = BTreeMap::new();
        for pid in plan.pids.iter().copied().collect::<BTreeSet<u32>>() {
            alone.insert(pid, journals.hold_alone(pid)?.ok_or(Error::PackedAlready(pid))?);
        }
        let session =
            Session::begin(knob_io, journals, process::id(), &plan.command, |journal| post(journal).map(Some))?;
        let (adopted, origin, left) = (BTreeMap::new(), BTreeMap::new(), Left::default());
        Ok(Holder { knob_io, session, cpus: plan.cpus.iter().copied().collect(), adopted, origin, alone, left })
    }

    /// Takes the threads that are there when packing begins, all or none.
    ///
    /// # Errors
    /// When somebody else holds one of them, or the kernel refuses.
    pub fn take_all(&mut self, new: &[(usize, Stand)]) -> Result<Vec<(usize, Held)>, Error> {
        let held = self.take(new)?;
        match self.left.why.take() {
            Some(why) => Err(Error::Refused(why)),
            None => Ok(held),
        }
    }

    /// Takes threads, and says which of them are held; those that have ended meanwhile are not, and those that
    /// cannot be taken are left as they are: a child that has become another user's, or that somebody else
    /// packs, is no reason to give up the others.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn take(&mut self, new: &[(usize, Stand)]) -> Result<Vec<(usize, Held)>, Error> {
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let processes: BTreeSet<u32> = new.iter().map(|(_, stand)| stand.tgid).collect();
        // In the order of their births, so that each finds its creator.
        for (_, stand) in new {
            self.passed(stand);
        }
        let mut refused = BTreeSet::new();
        for pid in processes {
            if let Err(error) = self.adopt(pid, new) {
                let threads = new.iter().filter(|(_, stand)| stand.tgid == pid).count();
                self.left.add(threads, &error);
                refused.insert(pid);
            }
        }
        let living = new
            .iter()
            .filter(|(_, stand)| !refused.contains(&stand.tgid))
            .filter_map(|(number, stand)| Some((*number, stand, self.knob_io.thread(stand.tid).ok()?)));
        let mut threads: Vec<(usize, &Stand, Thread)> = living.collect();
        let requests: Vec<ChangeRequest> =
            threads.iter().map(|(_, stand, thread)| self.request(*thread, self.ancestors(stand))).collect();
        if self.session.take(requests.clone()).is_err() {
            // One of them is the reason; what was taken already is not taken again.
            let mut taken = requests.into_iter().map(|request| self.session.take([request]));
            let left = &mut self.left;
            threads.retain(|_| match taken.next() {
                Some(Err(error)) => {
                    left.add(1, &error);
                    false
                }
                _ => true,
            });
        }
        for (.., thread) in &threads {
            self.origin.entry(thread.tid).or_insert(*thread);
        }
        Ok(threads
            .into_iter()
            .filter_map(|(number, _, thread)| self.hold(number, thread).ok().map(|held| (number, held)))
            .collect())
    }

    /// A thread came and went before anybody looked: what it made is an heir of what made it.
    pub fn passed(&mut self, stand: &Stand) {
        if let Some(origin) = self.origin.get(&stand.creator_tid).copied() {
            self.origin.insert(stand.tid, origin);
        }
    }

    /// A thread has ended; if it was a process's first, so may the process have, and others may pack a new one
    /// of that number.
    pub fn forget(&mut self, tid: u32) {
        self.origin.remove(&tid);
        self.adopted.remove(&tid);
    }

    /// Why a thread is outside of the pack: false when somebody else has set its CPUs, who shall have them. When the
    /// kernel has, because CPUs of the pack are gone, it is taken back to what is left of them, if anything is.
    pub fn keeps(&self, held: &mut Held) -> bool {
        if !self.session.has(held.handle.knob()).unwrap_or(false) {
            return false;
        }
        // With no CPU of the pack there it stays where it is, and strays again at the next order.
        let _ = held.handle.apply(&held.anywhere);
        (held.now, held.strayed) = (None, false);
        true
    }

    /// Threads that could not be steered.
    pub fn left(&self) -> &Left {
        &self.left
    }

    /// What sessions that were killed have left and could not be put back.
    pub fn inherited(&self) -> &[String] {
        self.session.inherited()
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// When the journal cannot be settled; the guardian tries again.
    pub fn end(self) -> Result<changes::undo::Undone, Error> {
        Ok(self.session.end()?)
    }

    /// Announces a process: what is born in it from now on inherits our masks, and is put back too.
    fn adopt(&mut self, pid: u32, new: &[(usize, Stand)]) -> Result<(), Error> {
        if self.adopted.contains_key(&pid) {
            return Ok(());
        }
        // A leader that has ended takes its process's name with it; its threads are taken one by one.
        let Ok(leader) = self.knob_io.thread(pid) else { return Ok(()) };
        let right = match self.alone.contains_key(&pid) {
            true => None,
            false => Some(JournalFolder::of_user().hold_alone(pid)?.ok_or(Error::PackedAlready(pid))?),
        };
        let creator = new.iter().find(|(_, stand)| stand.tid == pid).map_or(0, |(_, stand)| stand.creator_tid);
        let heir_of = self.origin.get(&creator).copied().into_iter().collect();
        match self.session.adopt([self.request(leader, heir_of)]) {
            Ok(()) | Err(changes::Error::Gone(_)) => {}
            Err(error) => return Err(error.into()),
        }
        self.adopted.insert(pid, (leader, right));
        Ok(())
    }

    /// Whose original values a newborn thread has: its creator's, else its process's.
    fn ancestors(&self, stand: &Stand) -> Vec<Thread> {
        if stand.creator_tid == 0 {
            return Vec::new();
        }
        let creator = self.origin.get(&stand.creator_tid).copied();
        creator.into_iter().chain(self.adopted.get(&stand.tgid).map(|(leader, _)| *leader)).collect()
    }

    fn request(&self, thread: Thread, heir_of: Vec<Thread>) -> ChangeRequest {
        let claim = Claim::Within(self.cpus.clone());
        ChangeRequest { engine: ENGINE.to_owned(), knob: Knob::Affinity(thread), claim, heir_of }
    }

    fn hold(&self, stand: usize, thread: Thread) -> Result<Held, changes::Error> {
        let handle = self.session.handle(&Knob::Affinity(thread))?;
        let one = |cpu: u32| handle.prepare(&Value::Cpus([cpu].into_iter().collect()));
        let slots = self.cpus.iter().map(one).collect::<Result<_, _>>()?;
        let anywhere = handle.prepare(&Value::Cpus(self.cpus.clone()))?;
        Ok(Held { stand, tid: thread.tid, handle, slots, anywhere, now: None, strayed: false })
    }
}

/// Whether somebody packs this process now.
///
/// # Errors
/// When the folder of journals cannot be used.
pub fn is_packed(pid: u32) -> Result<bool, changes::Error> {
    JournalFolder::of_user().is_held(pid)
}

/// The process that undoes when this one is killed: cox itself, as `cox changes guard JOURNAL`.
fn post(journal: &Path) -> Result<Guardian, changes::Error> {
    let mut command = Command::new("/proc/self/exe");
    // Its parts are none of this session's.
    command.args(["changes", "guard"]).arg(journal).env_remove(arch::laps::VARIABLE);
    Guardian::post(command).map_err(|source| changes::Error::Journal { path: journal.to_owned(), source })
}
