//! A session's hold on what it changes.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::entry::{Entry, Problem};
use crate::error::Error;
use crate::format::{Change, FORMAT, Header};
use crate::guardian::Guardian;
use crate::handle::{Gate, KnobHandle};
use crate::journal::Journal;
use crate::journals::JournalFolder;
use crate::knob::{Claim, Knob, Thread, Value};
use crate::knob_io::KnobIo;
use crate::other_sessions::Others;
use crate::ownership::is_ours;
use crate::request::{ChangeRequest, conflict, merge};
use crate::undo::Undone;

/// What a session has changed. [`Session::end`] puts it back; so does its guardian when the process is
/// killed, and dropping it.
pub struct Session<'h> {
    knob_io: &'h dyn KnobIo,
    journals: JournalFolder,
    journal: Journal,
    taken: BTreeMap<Knob, Change>,
    births: Vec<Change>,
    gate: Arc<Gate>,
    inherited: Vec<String>,
    // Last: it looks for the journal when its lifeline is cut, and must not find one that is being settled.
    _guardian: Option<Guardian>,
    ended: bool,
}

impl<'h> Session<'h> {
    /// Begin: settle what dead sessions have left, and post the guardian. Nothing is changed yet.
    ///
    /// `pid` is the calling process and `command` its command line, for people; `guardian` posts one for
    /// the journal at a path, or none where nobody can kill the session (tests).
    ///
    /// # Errors
    /// When the owner's folder cannot be used, the process has a session already, or the guardian does
    /// not start.
    pub fn begin(
        knob_io: &'h dyn KnobIo,
        journals: JournalFolder,
        pid: u32,
        command: &str,
        guardian: impl FnOnce(&Path) -> Result<Option<Guardian>, Error>,
    ) -> Result<Session<'h>, Error> {
        // Before the journal: a kill between the two would leave a journal that nobody watches.
        journals.refuse_foreign()?;
        let path = journals.journal(pid);
        let guardian = guardian(&path)?;
        let lock = journals.lock()?;
        let mut inherited = Vec::new();
        for (entry, undone) in journals.settle_dead(&lock, knob_io)? {
            let whose =
                entry.record.as_ref().map_or_else(String::new, |record| format!(" of {}", record.header.command));
            inherited.extend(
                undone.failures().map(|failure| format!("left by a session{whose} that was killed: {failure}")),
            );
        }
        for entry in journals.entries(knob_io)? {
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
        let (taken, births, gate) = (BTreeMap::new(), Vec::new(), Arc::new(Gate::open()));
        Ok(Session { knob_io, journals, journal, taken, births, gate, inherited, _guardian: guardian, ended: false })
    }

    /// Announce that threads of these processes will be changed: each change request is for a knob of a process's
    /// *leader*, and says what its threads will be claimed for. To be called before the first of them is
    /// taken. Changes nothing itself; the leader has to be taken like any other thread.
    ///
    /// What a thread inherits that is born afterwards is put back with the rest: to the original of its
    /// creator when it is taken ([`ChangeRequest::heir_of`]), else to the leader's.
    ///
    /// # Errors
    /// [`Error::Conflict`], for something else than before as well; [`Error::Held`] and [`Error::OneWay`] as
    /// [`Session::take`]; [`Error::Gone`] when a process has ended. Nothing is adopted then.
    pub fn adopt(&mut self, leaders: impl IntoIterator<Item = ChangeRequest>) -> Result<(), Error> {
        let requests = merge(leaders)?;
        let _lock = self.journals.lock()?;
        let others = Others(self.journals.others(self.knob_io, self.journal.path())?);
        others.refuse(&requests, Entry::births)?;
        let mut births = Vec::new();
        for request in requests {
            match self.births.iter().find(|before| before.knob == request.knob) {
                Some(before) if before.claim == request.claim => {}
                // What was born under the one claim would not be recognised under the other.
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

    /// Take what engines ask for: each knob gets its claim's first value, unless it is claimed
    /// [`Claim::AtTimes`] only. Threads that have ended are passed over. All are journaled with one fsync.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Held`] and [`Error::OneWay`] before anything is changed;
    /// [`Error::Gone`] for a file, and the kernel's refusals, with what was taken until then still held:
    /// end the session to put it back.
    pub fn take(&mut self, requests: impl IntoIterator<Item = ChangeRequest>) -> Result<(), Error> {
        let requests = merge(requests)?;
        let _lock = self.journals.lock()?;
        let others = Others(self.journals.others(self.knob_io, self.journal.path())?);
        others.refuse(&requests, Entry::changes)?;
        let mut changes = Vec::new();
        for request in requests.into_iter().filter(|request| self.change(&request.knob).is_none()) {
            let Some(now) = unless_ended(self.knob_io.read(&request.knob))? else { continue };
            changes.extend(unless_ended(self.planned(&others, request, now))?);
        }
        self.journal.announce_all(&changes)?;
        for change in changes {
            self.taken.insert(change.knob.clone(), change.clone());
            if !matches!(change.claim, Claim::AtTimes(_)) {
                unless_ended(self.write(&change, &change.claim.first()))?;
            }
        }
        Ok(())
    }

    /// Set a knob that was taken to another value within its claim, or to its original. Nothing is written
    /// to the disk.
    ///
    /// # Errors
    /// [`Error::NotClaimed`], [`Error::Gone`], or the kernel's refusal.
    pub fn set(&self, knob: &Knob, value: &Value) -> Result<(), Error> {
        match self.change(knob) {
            Some(change) if change.claim.permits(value, &change.original) => self.knob_io.write(knob, value),
            change => Err(Error::NotClaimed {
                knob: Box::new(knob.clone()),
                value: Box::new(value.clone()),
                claim: change.map_or("nothing".to_owned(), |change| change.claim.to_string()),
            }),
        }
    }

    /// Whether a knob that was taken still is as the session has left it, or the kernel for want of the CPUs
    /// that were claimed; if not, somebody else has set it.
    ///
    /// # Errors
    /// [`Error::Untaken`], or [`Error::Gone`].
    pub fn has(&self, knob: &Knob) -> Result<bool, Error> {
        let change = self.change(knob).ok_or_else(|| Error::Untaken(Box::new(knob.clone())))?;
        Ok(is_ours(self.knob_io, knob, &change.claim, &self.knob_io.read(knob)?))
    }

    /// A handle to set a thread's knob that was taken, as often as one likes and from any thread. It stops
    /// working when the session begins to put things back.
    ///
    /// # Errors
    /// [`Error::Untaken`] when it was not taken, [`Error::Gone`], or [`Error::Knob`] for a file.
    pub fn handle(&self, knob: &Knob) -> Result<KnobHandle, Error> {
        match self.change(knob) {
            Some(change) => KnobHandle::new(self.knob_io, change, Arc::clone(&self.gate)),
            None => Err(Error::Untaken(Box::new(knob.clone()))),
        }
    }

    /// What has been taken.
    pub fn taken(&self) -> impl ExactSizeIterator<Item = &Change> {
        self.taken.values()
    }

    /// What of dead sessions' changes could not be put back when this session began, one line each.
    #[must_use]
    pub fn inherited(&self) -> &[String] {
        &self.inherited
    }

    /// Put everything back that no other session holds, and that nobody else has changed. What has become of the
    /// journals does not matter for that: the session knows what it has changed.
    ///
    /// # Errors
    /// None at present. What could not be done is among the [`Undone::left`] and [`Undone::troubles`].
    pub fn end(mut self) -> Result<Undone, Error> {
        Ok(self.settle())
    }

    fn settle(&mut self) -> Undone {
        self.ended = true;
        self.gate.shut();
        // In the order of their announcement, which the map has lost, nothing depends on another: each is one knob.
        let changes: Vec<Change> = self.taken.values().cloned().collect();
        self.journals.settle_own(self.knob_io, self.journal.path(), &changes, &self.births)
    }

    /// The change that a change request for a knob comes to that reads `now`.
    fn planned(&self, others: &Others, request: ChangeRequest, now: Value) -> Result<Change, Error> {
        let ChangeRequest { engine, knob, claim, heir_of } = request;
        let original = match self.change(&knob).or_else(|| others.of(&knob).next()) {
            Some(change) => change.original.clone(),
            None => {
                let ancestors: Vec<Knob> = heir_of.iter().filter_map(|thread| knob.of(*thread)).collect();
                let known = ancestors.iter().find_map(|knob| {
                    let births = self.births.iter().find(|births| births.knob == *knob);
                    self.change(knob).or(births).or_else(|| others.of(knob).next())
                });
                match known.filter(|change| is_ours(self.knob_io, &knob, &change.claim, &now)) {
                    Some(change) => change.claim.without(&now, &change.original),
                    None => now,
                }
            }
        };
        self.knob_io.way_back(&knob, &original, &claim.first())?;
        Ok(Change { engine, knob, original, claim })
    }

    /// The leader's value, or that of another thread when the leader has ended before its process.
    fn read_of_process(&self, knob: &Knob) -> Result<Value, Error> {
        let leader = knob.thread().ok_or_else(|| Error::Knob {
            knob: Box::new(knob.clone()),
            source: io::Error::other("only threads give birth to others"),
        })?;
        let first = self.knob_io.read(knob);
        if !matches!(first, Err(Error::Gone(_))) {
            return first;
        }
        let threads = self.knob_io.threads_of(leader)?.into_iter();
        let threads = threads.filter_map(|tid| Some(Thread { tid, start_ns: self.knob_io.started_ns(tid)? }));
        threads.filter_map(|thread| self.knob_io.read(&knob.of(thread)?).ok()).next().map_or(first, Ok)
    }

    fn change(&self, knob: &Knob) -> Option<&Change> {
        self.taken.get(knob)
    }

    /// Write and read back. A cpuset may cut a mask down: what is left is still within the claim. One that is not
    /// within has been set by somebody else since, and is his: the kernel adds no CPU to what it is asked for.
    fn write(&self, change: &Change, wanted: &Value) -> Result<(), Error> {
        self.knob_io.write(&change.knob, wanted)?;
        let found = self.knob_io.read(&change.knob)?;
        if change.claim.covers(&found) || matches!(change.claim, Claim::Within(_)) {
            return Ok(());
        }
        self.knob_io.write(&change.knob, &change.original)?;
        let (knob, wanted) = (Box::new(change.knob.clone()), Box::new(wanted.clone()));
        Err(Error::NotTaken { knob, wanted, found: Box::new(found) })
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // When its journal is still there, the guardian tries again: its lifeline is cut next.
            let _ = self.settle();
        }
    }
}

/// A thread that has ended is no failure; a file that is not there is.
fn unless_ended<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Err(Error::Gone(knob)) if knob.thread().is_some() => Ok(None),
        result => result.map(Some),
    }
}
