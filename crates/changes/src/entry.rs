//! A journal in the owner's folder, and what is wrong with it.

use std::path::PathBuf;

use crate::format::Change;
use crate::reading::Record;

/// A journal in the folder.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its file.
    pub path: PathBuf,
    /// What it says; `None` when the session died before it changed anything, and when it cannot be read.
    pub record: Option<Record>,
    /// Whether the session's process lives, in this boot.
    pub alive: bool,
    /// Why it cannot be settled like any other.
    pub problem: Option<Problem>,
}

/// What is wrong with a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Some lines cannot be read: which.
    Damaged(String),
    /// It cannot be read at all: why.
    Unreadable(String),
    /// A later version of this program has written it, in this format.
    Newer(u32),
    /// It was damaged, and what could be read of it was undone.
    SetAside,
}

impl Entry {
    /// The knobs it has taken.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        self.record.as_ref().map_or(&[], |record| &record.changes)
    }

    /// What threads that are born in a process inherit from it, as changes of the leader's knobs.
    #[must_use]
    pub fn births(&self) -> &[Change] {
        self.record.as_ref().map_or(&[], |record| &record.births)
    }
}
