//! A session's hold on what it changes.

use std::collections::BTreeMap;
use std::path::Path;

use crate::book::Book;
use crate::desire::{Desire, merge};
use crate::error::Error;
use crate::guardian::Guardian;
use crate::hands::Hands;
use crate::journal::{Change, FORMAT, Header, Journal};
use crate::knob::{Knob, Value};
use crate::undo::Undone;

/// What a session has changed. [`Session::end`] puts it back; so does its guardian when the process is
/// killed, and dropping it.
pub struct Session<'h> {
    hands: &'h dyn Hands,
    book: Book,
    journal: Journal,
    taken: BTreeMap<Knob, Change>,
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
        hands: &'h dyn Hands,
        book: Book,
        pid: u32,
        command: &str,
        guardian: impl FnOnce(&Path) -> Result<Option<Guardian>, Error>,
    ) -> Result<Session<'h>, Error> {
        // Before the journal: a kill between the two would leave a journal that nobody watches.
        let path = book.journal(pid);
        let guardian = guardian(&path)?;
        let lock = book.lock()?;
        book.settle_dead(&lock, hands)?;
        let header = Header {
            format: FORMAT,
            boot_id: hands.boot_id()?,
            pid,
            start_ns: hands.started_ns(pid).unwrap_or_default(),
            command: command.to_owned(),
        };
        let journal = Journal::create(path, &header)?;
        drop(lock);
        Ok(Session { hands, book, journal, taken: BTreeMap::new(), _guardian: guardian, ended: false })
    }

    /// Take what engines desire: each knob gets its claim's first value.
    ///
    /// # Errors
    /// [`Error::Conflict`] and [`Error::Held`] before anything is changed; [`Error::Gone`] and the
    /// kernel's refusals with what was taken until then still held: end the session to put it back.
    pub fn take(&mut self, desires: impl IntoIterator<Item = Desire>) -> Result<(), Error> {
        let desires = merge(desires)?;
        let _lock = self.book.lock()?;
        let entries = self.book.entries(self.hands)?;
        let others: Vec<_> = entries
            .iter()
            .filter(|entry| entry.path != self.journal.path())
            .filter_map(|entry| entry.record.as_ref())
            .flat_map(|record| record.changes.iter().map(move |change| (&record.header, change)))
            .collect();
        let holder = |knob: &Knob| others.iter().find(|(_, change)| change.knob == *knob).copied();
        let refused =
            desires.iter().find_map(|desire| holder(&desire.knob).filter(|(_, change)| change.claim != desire.claim));
        if let Some((header, change)) = refused {
            let (pid, command) = (header.pid, header.command.clone());
            return Err(Error::Held { knob: Box::new(change.knob.clone()), pid, command });
        }
        for desire in desires.into_iter().filter(|desire| self.change(&desire.knob).is_none()).collect::<Vec<_>>() {
            let now = self.hands.read(&desire.knob)?;
            let original = holder(&desire.knob).map_or(now, |(_, change)| change.original.clone());
            let change = Change { engine: desire.engine, knob: desire.knob, original, claim: desire.claim };
            self.journal.announce(&change)?;
            self.taken.insert(change.knob.clone(), change.clone());
            self.write(&change, &change.claim.first())?;
        }
        Ok(())
    }

    /// Set a knob that was taken to another value within its claim. Nothing is written to the disk.
    ///
    /// # Errors
    /// [`Error::NotClaimed`], [`Error::Gone`], or the kernel's refusal.
    pub fn set(&self, knob: &Knob, value: &Value) -> Result<(), Error> {
        match self.change(knob) {
            Some(change) if change.claim.covers(value) => self.hands.write(knob, value),
            change => Err(Error::NotClaimed {
                knob: Box::new(knob.clone()),
                value: Box::new(value.clone()),
                claim: change.map_or("nothing".to_owned(), |change| change.claim.to_string()),
            }),
        }
    }

    /// What has been taken.
    pub fn taken(&self) -> impl ExactSizeIterator<Item = &Change> {
        self.taken.values()
    }

    /// Put everything back that no other session holds, and that nobody else has changed.
    ///
    /// # Errors
    /// When the journal or its folder cannot be used; the guardian then tries once more.
    pub fn end(mut self) -> Result<Undone, Error> {
        self.settle()
    }

    fn settle(&mut self) -> Result<Undone, Error> {
        self.ended = true;
        let lock = self.book.lock()?;
        self.book.settle(&lock, self.hands, self.journal.path())
    }

    fn change(&self, knob: &Knob) -> Option<&Change> {
        self.taken.get(knob)
    }

    /// Write and read back. A cpuset may cut a mask down: what is left is still within the claim.
    fn write(&self, change: &Change, wanted: &Value) -> Result<(), Error> {
        self.hands.write(&change.knob, wanted)?;
        let found = self.hands.read(&change.knob)?;
        if change.claim.covers(&found) {
            return Ok(());
        }
        self.hands.write(&change.knob, &change.original)?;
        let (knob, wanted) = (Box::new(change.knob.clone()), Box::new(wanted.clone()));
        Err(Error::NotTaken { knob, wanted, found: Box::new(found) })
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // What fails here is the guardian's: its lifeline is cut next.
            let _ = self.settle();
        }
    }
}
