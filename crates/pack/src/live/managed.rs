//! Moves the threads of a live program: carries out each order of the policy by changing an affinity mask. The crate
//! `changes` makes the change, and restores the mask at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::process;

use changes::guardian::Guardian;
use changes::{
    ChangeRequest, Claim, JournalFolder, Knob, KnobHandle, LiveKnobIo, Right, Session, Setting, Thread, Value,
};
use machine::CpuSet;
use wire::ThreadSnapshot;

use super::Error;
use super::plan::{Began, Plan};
use crate::policy::{Order, Slot};

/// The name of the engine in messages and journals.
const ENGINE: &str = "pack";

/// A managed thread: the session may change its affinity mask, and restores it at the end.
pub struct ManagedThread {
    /// Index of the thread's snapshot in the table of thread snapshots.
    pub place: usize,
    /// Thread id.
    pub tid: u32,
    handle: KnobHandle,
    /// Prepared affinity masks: `slots` has one mask for each CPU of the pack, `anywhere` is the mask of all these
    /// CPUs.
    slots: Vec<Setting>,
    anywhere: Setting,
    /// The CPU of the pack (slot) to which the thread is bound now; `None`: it may use all CPUs of the pack.
    now: Option<Slot>,
    /// True if the thread's affinity mask was found to allow CPUs outside the pack. The thread is then not moved until
    /// [`Holder::keeps`] has found out who changed the mask: the program or the kernel.
    strayed: bool,
}

impl ManagedThread {
    /// Carries out an order of the policy (a new affinity mask), unless the program has changed the thread's mask
    /// meanwhile: the program's mask has priority. Reading the mask costs little compared with the move.
    ///
    /// # Errors
    /// [`changes::Error::Gone`] if the thread has ended; else the kernel's error.
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

    /// Returns whether the thread's affinity mask was found to allow CPUs outside the pack.
    pub fn has_strayed(&self) -> bool {
        self.strayed
    }
}

/// The session, the threads whose affinity masks it has changed, and the locks that it holds on processes.
pub struct Holder<'h> {
    knob_io: &'h LiveKnobIo,
    session: Session<'h>,
    cpus: CpuSet,
    /// For each process that was adopted (see `adopt`): its first thread, and a lock that keeps other sessions from
    /// packing the process. `None`: the user named the process, so its lock is in `alone`.
    adopted: BTreeMap<u32, (Thread, Option<Right>)>,
    /// For each thread, by id: the thread whose mask it may have inherited. This is the thread itself if the session
    /// has changed its mask, else the nearest ancestor whose mask the session has changed. Threads that ended before
    /// cox saw them are included, because they may have passed such a mask on to the threads that they created.
    origin: BTreeMap<u32, Thread>,
    /// The program's first thread, if cox has started the program. Threads whose creator is not known descend from it.
    first: Option<Thread>,
    /// For each process that the user named: a lock that keeps other sessions from packing it.
    alone: BTreeMap<u32, Right>,
    /// Threads of which cox could not take control: their number and the first reason. They are not moved.
    left: Failures,
}

/// Failures of one kind.
#[derive(Debug, Default)]
pub struct Failures {
    /// Number of failures.
    pub count: usize,
    /// The reason for the first failure.
    pub first: Option<String>,
}

impl Failures {
    /// Adds `count` failures with the same reason.
    pub fn add(&mut self, count: usize, why: &dyn Display) {
        self.count += count;
        self.first.get_or_insert_with(|| why.to_string());
    }
}

impl<'h> Holder<'h> {
    /// Begins a session; nothing is changed yet.
    ///
    /// # Errors
    /// Fails if one of the processes is packed already, or the journal or the guardian does not work.
    pub fn begin(knob_io: &'h LiveKnobIo, plan: &Plan) -> Result<Holder<'h>, Error> {
        let journals = JournalFolder::of_user();
        let mut alone = BTreeMap::new();
        for pid in plan.pids.iter().copied().collect::<BTreeSet<u32>>() {
            alone.insert(pid, journals.hold_alone(pid)?.ok_or(Error::PackedAlready(pid))?);
        }
        let guardian = |journal: &_| Guardian::of_this_program(journal, &[arch::laps::VARIABLE]).map(Some);
        let session = Session::begin(knob_io, journals, process::id(), &plan.command, guardian)?;
        let (adopted, origin, left) = (BTreeMap::new(), BTreeMap::new(), Failures::default());
        let first = plan.pids.first().filter(|_| plan.began == Began::Here);
        let first = first.and_then(|&pid| knob_io.thread(pid).ok());
        Ok(Holder { knob_io, session, cpus: plan.cpus.iter().copied().collect(), adopted, origin, first, alone, left })
    }

    /// Takes control of the threads that exist when packing begins, `new`: all of them or none. From then on, the
    /// session changes their affinity masks.
    ///
    /// # Errors
    /// Fails if another session has changed one of them, or the kernel refuses.
    pub fn take_all(&mut self, new: &[(usize, ThreadSnapshot)]) -> Result<Vec<(usize, ManagedThread)>, Error> {
        let managed = self.take(new)?;
        match self.left.first.take() {
            Some(why) => Err(Error::Refused(why)),
            None => Ok(managed),
        }
    }

    /// Takes control of the threads in `new` (the index and content of each thread's snapshot). Returns the threads
    /// that the session manages now. Threads that have ended are left out. Threads that cannot be changed are left as
    /// they are, for example those of a child process that now belongs to another user, or is packed by another
    /// session. The other threads are still taken.
    ///
    /// # Errors
    /// Fails if the journal cannot be written.
    pub fn take(&mut self, new: &[(usize, ThreadSnapshot)]) -> Result<Vec<(usize, ManagedThread)>, Error> {
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let processes: BTreeSet<u32> = new.iter().map(|(_, snapshot)| snapshot.tgid).collect();
        // Threads are in the order of their creation, so a creator is entered in `origin` before the threads that it
        // created.
        for (_, snapshot) in new {
            self.passed(snapshot);
        }
        let mut refused = BTreeSet::new();
        for pid in processes {
            if let Err(error) = self.adopt(pid, new) {
                let threads = new.iter().filter(|(_, snapshot)| snapshot.tgid == pid).count();
                self.left.add(threads, &error);
                refused.insert(pid);
            }
        }
        let living = new
            .iter()
            .filter(|(_, snapshot)| !refused.contains(&snapshot.tgid))
            .filter_map(|(number, snapshot)| Some((*number, snapshot, self.knob_io.thread(snapshot.tid).ok()?)));
        let mut threads: Vec<(usize, &ThreadSnapshot, Thread)> = living.collect();
        let requests: Vec<ChangeRequest> =
            threads.iter().map(|(_, snapshot, thread)| self.request(*thread, self.ancestors(snapshot))).collect();
        if self.session.take(requests.clone()).is_err() {
            // The session refused one of the requests. To find out which, repeat them one by one. This is safe: the
            // session skips threads of which it has already taken control.
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
            .filter_map(|(number, _, thread)| self.hold(number, thread).ok().map(|managed| (number, managed)))
            .collect())
    }

    /// Records from which thread a thread may have inherited its mask: the thread that `origin` names for its creator,
    /// if any. Also called for threads that ended before cox could manage them, because threads that they created may
    /// have inherited the mask in turn.
    pub fn passed(&mut self, snapshot: &ThreadSnapshot) {
        if let Some(origin) = self.origin.get(&snapshot.creator_tid).copied() {
            self.origin.insert(snapshot.tid, origin);
        }
    }

    /// Forgets a thread that has ended. If it was the first thread of its process, also releases the lock on the
    /// process: the process may have ended too, and another session may then pack a new process with the same id.
    pub fn forget(&mut self, tid: u32) {
        self.origin.remove(&tid);
        self.adopted.remove(&tid);
    }

    /// Finds out why a thread's mask allows CPUs outside the pack. Returns false if the program, or a process other
    /// than cox, has set the mask: then the mask stays. Returns true if the kernel has changed the mask because CPUs of
    /// the pack went offline: then the thread may use all CPUs of the pack again.
    pub fn keeps(&self, managed: &mut ManagedThread) -> bool {
        if !self.session.has(managed.handle.knob()).unwrap_or(false) {
            return false;
        }
        // This fails if no CPU of the pack is online any more. The thread then stays where it is, and the policy's next
        // order for it finds the mask outside the pack again.
        let _ = managed.handle.apply(&managed.anywhere);
        (managed.now, managed.strayed) = (None, false);
        true
    }

    /// Returns the number of threads of which cox could not take control, and the first reason.
    pub fn left(&self) -> &Failures {
        &self.left
    }

    /// Returns the changes of killed sessions that this session could not restore.
    pub fn inherited(&self) -> &[String] {
        self.session.inherited()
    }

    /// Restores everything.
    pub fn end(self) -> changes::undo::Undone {
        self.session.end()
    }

    /// Adopts a process: writes to the journal that threads created in it from now on may inherit masks that cox has
    /// set. These masks are then restored too.
    fn adopt(&mut self, pid: u32, new: &[(usize, ThreadSnapshot)]) -> Result<(), Error> {
        if self.adopted.contains_key(&pid) {
            return Ok(());
        }
        // If the first thread has ended, it cannot be found by the process's id. Then the process is not adopted, and
        // cox takes control of its other threads one by one.
        let Ok(leader) = self.knob_io.thread(pid) else { return Ok(()) };
        let right = match self.alone.contains_key(&pid) {
            true => None,
            false => Some(JournalFolder::of_user().hold_alone(pid)?.ok_or(Error::PackedAlready(pid))?),
        };
        let creator =
            new.iter().find(|(_, snapshot)| snapshot.tid == pid).map_or(0, |(_, snapshot)| snapshot.creator_tid);
        let heir_of = self.origin_of(creator).filter(|origin| origin.tid != pid).into_iter().collect();
        match self.session.adopt([self.request(leader, heir_of)]) {
            Ok(()) | Err(changes::Error::Gone(_)) => {}
            Err(error) => return Err(error.into()),
        }
        self.adopted.insert(pid, (leader, right));
        Ok(())
    }

    /// Returns the threads from which a new thread may have inherited its mask: the thread that `origin` names for its
    /// creator, and the first thread of its process.
    fn ancestors(&self, snapshot: &ThreadSnapshot) -> Vec<Thread> {
        let creator = self.origin_of(snapshot.creator_tid);
        if creator.is_none() && snapshot.creator_tid == 0 {
            return Vec::new();
        }
        let leader = self.adopted.get(&snapshot.tgid).map(|(leader, _)| *leader);
        creator.into_iter().chain(leader).filter(|ancestor| ancestor.tid != snapshot.tid).collect()
    }

    /// Returns the thread that `origin` names for a thread's creator. If the creator is not known (0), this is the
    /// program's first thread, or none.
    fn origin_of(&self, creator_tid: u32) -> Option<Thread> {
        if creator_tid == 0 { self.first } else { self.origin.get(&creator_tid).copied() }
    }

    fn request(&self, thread: Thread, heir_of: Vec<Thread>) -> ChangeRequest {
        let claim = Claim::Within(self.cpus.clone());
        ChangeRequest { engine: ENGINE.to_owned(), knob: Knob::Affinity(thread), claim, heir_of }
    }

    fn hold(&self, place: usize, thread: Thread) -> Result<ManagedThread, changes::Error> {
        let handle = self.session.handle(&Knob::Affinity(thread))?;
        let one = |cpu: u32| handle.prepare(&Value::Cpus([cpu].into_iter().collect()));
        let slots = self.cpus.iter().map(one).collect::<Result<_, _>>()?;
        let anywhere = handle.prepare(&Value::Cpus(self.cpus.clone()))?;
        Ok(ManagedThread { place, tid: thread.tid, handle, slots, anywhere, now: None, strayed: false })
    }
}

/// Returns whether any session packs this process now.
///
/// # Errors
/// Fails if the folder of journals cannot be used.
pub fn is_packed(pid: u32) -> Result<bool, changes::Error> {
    JournalFolder::of_user().is_held(pid)
}
