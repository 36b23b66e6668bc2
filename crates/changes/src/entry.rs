//! A journal in the owner's folder, and the problem with it, if there is one.

use std::path::PathBuf;

use crate::format::Change;
use crate::reading::Record;

/// A journal in the folder.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The journal's file.
    pub path: PathBuf,
    /// The content; `None` if the session died before it changed anything, or if the journal cannot be read.
    pub record: Option<Record>,
    /// True if the session's changes are to stay: its process is alive, in this boot, or the changes outlast it.
    pub alive: bool,
    /// What prevents cox from restoring all changes in the journal and then removing it; `None` if nothing
    /// does.
    pub problem: Option<Problem>,
}

/// What is wrong with a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Some lines cannot be read; the text says which.
    Damaged(String),
    /// The journal cannot be read at all; the text says why.
    Unreadable(String),
    /// A later version of this program has written the journal, in this format.
    Newer(u32),
    /// The journal was damaged, and has been undone as far as it could be read.
    SetAside,
}

impl Entry {
    /// Returns whether the changes outlast the session's process, until
    /// [`JournalFolder::settle_named`](crate::JournalFolder::settle_named) restores them.
    #[must_use]
    pub fn lasts(&self) -> bool {
        self.alive && self.record.as_ref().is_some_and(|record| record.lasts)
    }

    /// Returns the session's name: that of its journal, without the ending.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Returns the changes of knobs that the session has journaled.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        self.record.as_ref().map_or(&[], |record| &record.changes)
    }

    /// Returns the values that new threads may inherit from the session. Each item names a knob of a process's first
    /// thread, and holds for the same knob of all threads of that process.
    #[must_use]
    pub fn births(&self) -> &[Change] {
        self.record.as_ref().map_or(&[], |record| &record.births)
    }
}
