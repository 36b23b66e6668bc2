//! A session: makes changes, and undoes them when it ends.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use machine::CpuSet;

use crate::claim::Claim;
use crate::entry::{Entry, Problem};
use crate::error::Error;
use crate::evacuation::lineage;
use crate::files::Name;
use crate::format::{Change, FORMAT, Header};
use crate::guardian::Guardian;
use crate::handle::{Gate, KnobHandle};
use crate::housekeeping::Base;
use crate::journal::Journal;
use crate::journals::{JournalFolder, inherited};
use crate::knob::{Knob, Thread};
use crate::knob_io::KnobIo;
use crate::other_sessions::Others;
use crate::ownership::{is_ours, possible, shows};
use crate::request::{ChangeRequest, batches, conflict, merge};
use crate::undo::Undone;
use crate::unmoved::Unmoved;
use crate::value::Value;

/// A session and its changes. [`Session::end`] and dropping the session restore everything; if the process is killed,
/// its guardian does.
pub struct Session<'h> {
    knob_io: &'h dyn KnobIo,
    journals: JournalFolder,
    journal: Journal,
    /// In the order of the journal, because undoing needs the reverse order.
    changes: Vec<Change>,
    /// The last change of each knob, by its place in `changes`.
    taken: BTreeMap<Knob, usize>,
    unmoved: Vec<Unmoved>,
    births: Vec<Change>,
    gate: Arc<Gate>,
    inherited: Vec<String>,
    // This must be the last field. When the guardian's handle is dropped, the guardian looks for the journal. By then
    // the session must have restored its changes and removed the journal.
    _guardian: Option<Guardian>,
    ended: bool,
}

impl<'h> Session<'h> {
    /// Begins a session: restores what dead sessions have changed, and starts the guardian. Changes nothing else.
    ///
    /// `pid` is the calling process, and `command` its command line, for messages. `guardian` starts a guardian for
    /// the journal at a path, or returns none if the session cannot be killed (tests).
    ///
    /// # Errors
    /// Fails if the owner's folder cannot be used, the process has a session already, or the guardian does not start.
    pub fn begin(
        knob_io: &'h dyn KnobIo,
        journals: JournalFolder,
        pid: u32,
        command: &str,
        guardian: impl FnOnce(&Path) -> Result<Option<Guardian>, Error>,
    ) -> Result<Session<'h>, Error> {
        journals.refuse_foreign()?;
        let path = journals.journal(pid);
        // The guardian is started before the journal is created: otherwise, a kill between the two would leave a
        // journal without a guardian.
        let guardian = guardian(&path)?;
        let lock = journals.lock()?;
        let inherited = inherited(&journals.settle_dead(&lock, knob_io)?);
        for entry in journals.look(knob_io)?.entries {
            if let (Some(Problem::Newer(format)), true) = (&entry.problem, entry.alive) {
                return Err(Error::Newer { path: entry.path, format: *format });
            }
        }
        let header = Header {
            format: FORMAT,
            boot_id: knob_io.boot_id()?,
            pid,
            start_ns: knob_io.started_ns(pid).unwrap_or_default(),
            command: command.to_owned(),
        };
        let journal = Journal::create(path, &header)?;
        drop(lock);
        Ok(Session {
            knob_io,
            journals,
            journal,
            changes: Vec::new(),
            taken: BTreeMap::new(),
            unmoved: Vec::new(),
            births: Vec::new(),
            gate: Arc::new(Gate::open()),
            inherited,
            _guardian: guardian,
            ended: false,
        })
    }

    /// Writes to the journal that threads of these processes will be changed. Each change request names a knob of a
    /// process's first thread (its *leader*). Its claim has the values that the session may give this knob of any
    /// thread of the process. Must be called before [`Session::take`] is called for any thread of the process. Changes
    /// nothing, not even the leader.
    ///
    /// Values that later threads inherit are restored too. If the session takes a knob of such a thread, the knob gets
    /// the original value of the thread's creator ([`ChangeRequest::heir_of`]); if not, that of the leader.
    ///
    /// # Errors
    /// [`Error::Conflict`], also for a claim that differs from an earlier one; [`Error::Held`] and [`Error::OneWay`]
    /// as for [`Session::take`]; [`Error::Gone`] if a process has ended. Nothing is adopted then.
    pub fn adopt(&mut self, leaders: impl IntoIterator<Item = ChangeRequest>) -> Result<(), Error> {
        let requests = merge(leaders)?;
        let _lock = self.journals.lock()?;
        let others = Others(self.journals.others(self.knob_io, self.journal.path())?);
        others.refuse(&requests, Entry::births)?;
        let mut births = Vec::new();
        for request in requests {
            match self.births.iter().find(|before| before.knob == request.knob) {
                Some(before) if before.claim == request.claim => {}
                // A thread may have inherited a value under the earlier claim (the values that the session may set). If
                // the claim changed, this value would count as set by somebody else, and would not be restored.
                Some(before) => return Err(conflict(&before.engine, &before.claim, &request)),
                None => {
                    let now = self.read_of_process(&request.knob)?;
                    births.push(self.planned(&others, request, now)?);
                }
            }
        }
        self.journal.announce_births(&births)?;
        self.births.extend(births);
        Ok(())
    }

    /// Takes knobs: journals each knob's original value, and sets the knob to the first value of its claim, in the order
    /// of the requests. With [`Claim::AtTimes`] and [`Claim::Confined`], nothing is set yet. Threads that have ended are
    /// skipped. Threads and interrupts that the kernel does not let be moved are listed ([`Session::unmoved`]). A knob that
    /// has the value already is journaled, but not written. All changes are journaled with one fsync; files of a cgroup
    /// that this call makes are journaled once it exists, because only then they have an original value.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Held`] and [`Error::OneWay`] before anything is changed; [`Error::Gone`] for a
    /// file, and for a process that was to be stopped; [`Error::NotTaken`]; the kernel's error. In the last three cases the knobs taken so far remain taken: end
    /// the session to restore them.
    pub fn take(&mut self, requests: impl IntoIterator<Item = ChangeRequest>) -> Result<(), Error> {
        let requests = merge(requests)?;
        let _lock = self.journals.lock()?;
        let others = Others(self.journals.others(self.knob_io, self.journal.path())?);
        others.refuse(&requests, Entry::changes)?;
        let requests = requests.into_iter().filter(|request| self.is_new(request)).collect();
        batches(requests).into_iter().try_for_each(|batch| self.take_batch(&others, batch))
    }

    fn take_batch(&mut self, others: &Others, requests: Vec<ChangeRequest>) -> Result<(), Error> {
        let mut changes = Vec::new();
        for request in requests {
            let Some(now) = unless_ended(self.knob_io.read(&request.knob))? else { continue };
            changes.extend(unless_ended(self.planned(others, request, now))?);
        }
        self.journal.announce(&changes)?;
        for change in changes {
            self.taken.insert(change.knob.clone(), self.changes.len());
            self.changes.push(change.clone());
            if matches!(change.claim, Claim::AtTimes(_)) {
                continue;
            }
            let shared = self.without(others, &change);
            let (wanted, change) = match (change.claim.first(), shared) {
                (Some(wanted), _) => (wanted, change),
                // What is read back must be this value, and not any that the claim covers.
                (None, Some((wanted, shown))) => (wanted, Change { claim: Claim::Exactly(shown), ..change }),
                (None, None) => continue,
            };
            match unless_ended(self.write(&change, &wanted)) {
                Err(Error::Unmovable { knob, why }) => self.unmoved.push(Unmoved { knob: *knob, why }),
                done => _ = done?,
            }
        }
        Ok(())
    }

    /// Returns the value of a knob without the CPUs of all sessions that keep CPUs free, and what the kernel will show then;
    /// `None` for another claim.
    fn without(&self, others: &Others, change: &Change) -> Option<(Value, Value)> {
        let (Claim::Without { cpus: mine, otherwise }, Value::Cpus(original)) = (&change.claim, &change.original)
        else {
            return None;
        };
        let of_others = others.of(&change.knob).filter_map(|change| change.claim.kept_free());
        let base = Base::of(&change.knob, original, otherwise).within(possible(self.knob_io, &change.knob));
        let wanted = base.without(of_others.chain([mine]));
        let shown = base.shown(&wanted);
        Some((Value::Cpus(wanted), Value::Cpus(shown)))
    }

    /// Returns whether the session has not taken the requested knob yet. A mask that was only confined so far may be
    /// taken again, to be set.
    fn is_new(&self, request: &ChangeRequest) -> bool {
        let is_confined = |at: &usize| self.changes[*at].claim == Claim::Confined;
        self.taken.get(&request.knob).is_none_or(|at| is_confined(at) && request.claim != Claim::Confined)
    }

    /// Returns the affinities, memberships and interrupts that the kernel did not let the session change, and why.
    #[must_use]
    pub fn unmoved(&self) -> &[Unmoved] {
        &self.unmoved
    }

    /// Returns whether the session has taken (journaled) a knob, and the kernel has not refused to change it.
    #[must_use]
    pub fn has_changed(&self, knob: &Knob) -> bool {
        self.taken.contains_key(knob) && self.unmoved.iter().all(|unmoved| unmoved.knob != *knob)
    }

    /// Returns whether a knob that the session has taken (journaled) still has a value that the session has set. Also
    /// true if the kernel has replaced the value, because none of the claimed CPUs is available. If false, somebody
    /// else has set the knob.
    ///
    /// # Errors
    /// [`Error::Untaken`] or [`Error::Gone`].
    pub fn has(&self, knob: &Knob) -> Result<bool, Error> {
        let change = self.change(knob)?;
        Ok(is_ours(self.knob_io, knob, &change.claim, &self.knob_io.read(knob)?))
    }

    /// Returns those of the requests whose knobs other sessions hold, too.
    ///
    /// # Errors
    /// Fails if the journals cannot be read.
    pub fn shared(&self, requests: Vec<ChangeRequest>) -> Result<Vec<ChangeRequest>, Error> {
        let others = Others(self.journals.others(self.knob_io, self.journal.path())?);
        Ok(requests.into_iter().filter(|request| others.of(&request.knob).next().is_some()).collect())
    }

    /// Returns the tasks that a thread comes from, the nearest first, for [`ChangeRequest::heir_of`].
    #[must_use]
    pub fn creators_of(&self, thread: Thread) -> Vec<Thread> {
        lineage(self.knob_io, thread).split_off(1)
    }

    /// Returns a handle by which any thread can set the knob any number of times. The session must have taken
    /// (journaled) the knob, which must belong to a thread. The handle stops working when the session begins to
    /// restore.
    ///
    /// # Errors
    /// [`Error::Untaken`] if the knob was not taken, [`Error::Gone`], or [`Error::Knob`] for a file.
    pub fn handle(&self, knob: &Knob) -> Result<KnobHandle, Error> {
        KnobHandle::new(self.knob_io, self.change(knob)?, Arc::clone(&self.gate))
    }

    /// Returns the changes of dead sessions that could not be restored when this session began, one line each.
    #[must_use]
    pub fn inherited(&self) -> &[String] {
        &self.inherited
    }

    /// Restores every knob that no other session holds and that nobody else has changed. Damaged journals do not
    /// matter, because the session knows what it has changed. Failures are listed in [`Undone::left`] and
    /// [`Undone::troubles`].
    pub fn end(mut self) -> Undone {
        self.settle()
    }

    /// Ends the session and keeps its changes, which then belong to the machine: they stay until
    /// [`JournalFolder::settle_named`] restores them, or until the machine is booted. Returns the session's name. If the
    /// process is killed before the journal says that the changes last, they are restored as those of any session.
    ///
    /// # Errors
    /// Fails if the journal cannot be written; the changes are restored then.
    pub fn keep(mut self) -> Result<Name, Error> {
        let path = self.journal.path().to_owned();
        let nameless = || io::Error::other("not the name of a journal");
        let name = Name::of_path(&path).ok_or_else(|| Error::Journal { path: path.clone(), source: nameless() })?;
        // First shut, so that nothing is set after the journal says that the changes are complete.
        self.gate.shut();
        self.journal.announce_lasting()?;
        self.ended = true;
        Ok(name)
    }

    fn settle(&mut self) -> Undone {
        self.ended = true;
        self.gate.shut();
        self.journals.settle_own(self.knob_io, self.journal.path(), &self.changes, &self.births)
    }

    /// Builds the journal entry for a request. `now` is the knob's present value. It becomes the original, unless a
    /// session has set it.
    fn planned(&self, others: &Others, request: ChangeRequest, now: Value) -> Result<Change, Error> {
        let ChangeRequest { engine, knob, claim, heir_of } = request;
        let original = match self.find(&knob).or_else(|| others.of(&knob).next()) {
            Some(change) => change.original.clone(),
            None => {
                let ancestors = heir_of.iter().filter_map(|thread| knob.of(*thread));
                let changes_of = |ancestor: Knob| {
                    let births = self.births.iter().find(|births| births.knob == ancestor);
                    let own = self.find(&ancestor).or(births);
                    own.into_iter().chain(others.of(&ancestor)).collect::<Vec<&Change>>()
                };
                let known = ancestors.map(changes_of).find(|changes| !changes.is_empty()).unwrap_or_default();
                match known.into_iter().find(|change| self.is_inherited(others, change, &knob, &now)) {
                    Some(change) => change.claim.without(&now, &change.original),
                    None => now,
                }
            }
        };
        if let Some(first) = claim.first() {
            self.knob_io.way_back(&knob, &original, &first)?;
        }
        Ok(Change { engine, knob, original, claim })
    }

    /// Returns whether a thread has inherited the value `now` of its knob from a thread for which a session has made
    /// `change`. A value without some CPUs must be exactly what sessions have made of the original.
    fn is_inherited(&self, others: &Others, change: &Change, knob: &Knob, now: &Value) -> bool {
        let (Claim::Without { cpus, otherwise }, Value::Cpus(original), Value::Cpus(now)) =
            (&change.claim, &change.original, now)
        else {
            return is_ours(self.knob_io, knob, &change.claim, now);
        };
        let of_others = others.of(&change.knob).filter_map(|change| change.claim.kept_free());
        let claims: Vec<&CpuSet> = of_others.chain([cpus]).collect();
        Base::of(knob, original, otherwise).within(possible(self.knob_io, knob)).is_without(now, &claims)
    }

    /// Returns the value of this knob of a process's first thread (its leader). If the leader has ended before other
    /// threads, returns the value of another thread.
    fn read_of_process(&self, knob: &Knob) -> Result<Value, Error> {
        let only_threads = || {
            Error::of(knob, io::Error::other("new threads do not inherit it, because it is not a setting of a thread"))
        };
        let leader = knob.thread().ok_or_else(only_threads)?;
        let first = self.knob_io.read(knob);
        if !matches!(first, Err(Error::Gone(_))) {
            return first;
        }
        let threads = self.knob_io.threads_of(leader)?.into_iter();
        let threads = threads.filter_map(|tid| Some(Thread { tid, start_ns: self.knob_io.started_ns(tid)? }));
        threads.filter_map(|thread| self.knob_io.read(&knob.of(thread)?).ok()).next().map_or(first, Ok)
    }

    fn find(&self, knob: &Knob) -> Option<&Change> {
        self.taken.get(knob).map(|at| &self.changes[*at])
    }

    fn change(&self, knob: &Knob) -> Result<&Change, Error> {
        self.find(knob).ok_or_else(|| Error::Untaken(Box::new(knob.clone())))
    }

    /// Writes a value and reads it back. If the value that was read is not within the claim, restores the original and
    /// returns an error. [`Claim::Within`] is an exception: the kernel may have removed CPUs from the mask (cpuset),
    /// which leaves it within the claim, but it never adds any. So somebody else has set a mask outside the claim, and
    /// this mask is kept.
    ///
    /// A file that has the value already is not written: some refuse even their own value.
    fn write(&self, change: &Change, wanted: &Value) -> Result<(), Error> {
        if change.knob.thread().is_none() && self.knob_io.read(&change.knob)? == *wanted {
            return Ok(());
        }
        self.knob_io.write(&change.knob, wanted)?;
        let found = self.knob_io.read(&change.knob)?;
        if shows(self.knob_io, &change.knob, &change.claim, &found) || matches!(change.claim, Claim::Within(_)) {
            return Ok(());
        }
        // The kernel accepts that a thread which is about to end is moved, and does not move it.
        if change.knob.thread().is_some_and(|thread| self.knob_io.started_ns(thread.tid) != Some(thread.start_ns)) {
            return Err(Error::Gone(Box::new(change.knob.clone())));
        }
        self.knob_io.write(&change.knob, &change.original)?;
        let (knob, wanted) = (Box::new(change.knob.clone()), Box::new(wanted.clone()));
        Err(Error::NotTaken { knob, wanted, found: Box::new(found) })
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // If this fails, the guardian tries again: after this function, the pipe to the guardian is closed, and the
            // guardian then looks for the journal.
            let _ = self.settle();
        }
    }
}

/// Turns the error for a thread that has ended into `None`. A file that does not exist remains an error, and a process that
/// was to be stopped: it may have been started again, with another id.
fn unless_ended<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Err(Error::Gone(knob)) if knob.thread().is_some() && !matches!(*knob, Knob::Running(_)) => Ok(None),
        result => result.map(Some),
    }
}
