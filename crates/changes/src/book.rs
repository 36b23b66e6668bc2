//! The owner's folder: the journals of all sessions of one user on this machine, and their lock.
//!
//! Root's is `/run/coxswain`; another user's is below his own runtime folder, as he cannot write to
//! root's and root must not act on what he writes. A folder that belongs to somebody else, or that
//! others may write to, is refused.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use crate::error::Error;
use crate::hands::Hands;
use crate::journal::{self, Change, Record};
use crate::knob::Knob;
use crate::sweep::sweep;
use crate::undo::{Undone, undo};

const ENDING: &str = "journal";
const LOCK: &str = "lock";

/// How often a right that somebody has is asked for again, and after how long: who only asks, who tidies up, and
/// a guardian's process that was forked and has not executed yet have it for a moment.
const ASKS: usize = 10;
const ASK_AGAIN: Duration = Duration::from_millis(2);

/// The folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Book {
    folder: PathBuf,
}

/// While it lives, nobody else of this user changes or undoes anything.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// A right that nobody else has while it lives.
#[derive(Debug)]
pub struct Right {
    path: PathBuf,
    // Released after the file is removed: nobody can lock a file that is about to go.
    _lock: Lock,
}

impl Drop for Right {
    fn drop(&mut self) {
        // A file that stays is locked by nobody, and the next one who wants the right takes it.
        let _ = fs::remove_file(&self.path);
    }
}

/// A journal in the folder.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its file.
    pub path: PathBuf,
    /// What it says; `None` when the session died before it changed anything.
    pub record: Option<Record>,
    /// Whether the session's process lives, in this boot.
    pub alive: bool,
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

impl Book {
    /// The folder of the calling user, or the one that COX_CHANGES names.
    #[must_use]
    pub fn of_user() -> Book {
        if let Some(folder) = env::var_os("COX_CHANGES").filter(|folder| !folder.is_empty()) {
            return Book::at(folder);
        }
        let uid = geteuid();
        let folder = if uid.is_root() {
            PathBuf::from("/run/coxswain")
        } else {
            match env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_absolute()) {
                Some(runtime) => Path::new(&runtime).join("coxswain"),
                None => env::temp_dir().join(format!("coxswain-{}", uid.as_raw())),
            }
        };
        Book { folder }
    }

    /// A folder of one's own choice.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Book {
        Book { folder: folder.into() }
    }

    /// The journal a session of process `pid` is to write; one process may have several, one after the
    /// other.
    #[must_use]
    pub fn journal(&self, pid: u32) -> PathBuf {
        self.folder.join(format!("{pid}.{ENDING}"))
    }

    /// Waits for the lock, and makes the folder if it is not there.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn lock(&self) -> Result<Lock, Error> {
        self.made()
            .and_then(|()| {
                let path = self.folder.join(LOCK);
                let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
                flock(&file, FlockOperation::LockExclusive)?;
                Ok(Lock { _file: file })
            })
            .map_err(|source| self.failed(source))
    }

    /// A right that one process has at a time, by a name of its choice; `None` while another has it. It ends
    /// with the process, however that ends.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn hold_alone(&self, name: &str) -> Result<Option<Right>, Error> {
        for _ in 0..ASKS {
            if let Some(right) = self.hold_now(name)? {
                return Ok(Some(right));
            }
            thread::sleep(ASK_AGAIN);
        }
        self.hold_now(name)
    }

    /// Removes the files of rights whose holders were killed.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub(crate) fn forget_rights(&self, _lock: &Lock) -> Result<(), Error> {
        for file in fs::read_dir(&self.folder).map_err(|source| self.failed(source))? {
            let name = file.map_err(|source| self.failed(source))?.file_name();
            let is_other = name == LOCK || Path::new(&name).extension().is_some_and(|ending| ending == ENDING);
            if let Some(name) = name.to_str().filter(|_| !is_other) {
                // Having it for a moment removes it.
                drop(self.hold_now(name)?);
            }
        }
        Ok(())
    }

    fn hold_now(&self, name: &str) -> Result<Option<Right>, Error> {
        let path = self.folder.join(name);
        let open = || OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let number = |metadata: io::Result<fs::Metadata>| metadata.map(|metadata| metadata.ino()).ok();
        loop {
            let file = self.made().and_then(|()| open()).map_err(|source| self.failed(source))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Whoever had it before may have removed the file between our opening and our locking it.
                Ok(()) if number(file.metadata()) != number(fs::metadata(&path)) => {}
                Ok(()) => return Ok(Some(Right { path, _lock: Lock { _file: file } })),
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(self.failed(error.into())),
            }
        }
    }

    fn made(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let found = fs::symlink_metadata(&self.folder)?;
        if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
            return Err(io::Error::other("it is not a folder that only this user can write to"));
        }
        Ok(())
    }

    /// All journals, by name. Without a folder there are none.
    ///
    /// # Errors
    /// When one cannot be read or understood.
    pub fn entries(&self, hands: &dyn Hands) -> Result<Vec<Entry>, Error> {
        self.entries_without(hands, None)
    }

    /// All journals but that at `path`, which is not even read: a long one takes milliseconds.
    ///
    /// # Errors
    /// As [`Book::entries`].
    pub fn others(&self, hands: &dyn Hands, path: &Path) -> Result<Vec<Entry>, Error> {
        self.entries_without(hands, Some(path))
    }

    fn entries_without(&self, hands: &dyn Hands, without: Option<&Path>) -> Result<Vec<Entry>, Error> {
        let boot_id = hands.boot_id()?;
        let mut entries = Vec::new();
        let listed = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(entries),
            listed => listed.map_err(|source| self.failed(source))?,
        };
        for file in listed {
            let path = file.map_err(|source| self.failed(source))?.path();
            if path.extension().is_none_or(|ending| ending != ENDING) || Some(path.as_path()) == without {
                continue;
            }
            let failed = |source| Error::Journal { path: path.clone(), source };
            let text = match fs::read_to_string(&path) {
                // Ended between the two looks.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => text.map_err(failed)?,
            };
            let record = journal::parse(&text).map_err(|reason| failed(io::Error::other(reason)))?;
            let alive = record.as_ref().is_some_and(|record| {
                record.header.boot_id == boot_id && hands.started_ns(record.header.pid) == Some(record.header.start_ns)
            });
            // What another boot has changed is gone with it.
            let record = record.filter(|record| record.header.boot_id == boot_id);
            entries.push(Entry { path, record, alive });
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    /// Puts back what the session of the journal at `path` has changed, and removes the journal. Without
    /// a journal there is nothing to put back.
    ///
    /// # Errors
    /// When the folder cannot be read, or the journal not be removed.
    pub fn settle(&self, _lock: &Lock, hands: &dyn Hands, path: &Path) -> Result<Undone, Error> {
        let entries = self.entries(hands)?;
        let Some(mine) = entries.iter().find(|entry| entry.path == path) else { return Ok(Undone::default()) };
        // Also of the dead: whoever settles those puts the original value back, which they have inherited.
        let others = || entries.iter().filter(|entry| entry.path != path);
        let mut known: BTreeSet<Knob> = others().flat_map(Entry::changes).map(|change| change.knob.clone()).collect();
        let mut undone = undo(hands, mine.changes(), &known);
        known.extend(mine.changes().iter().map(|change| change.knob.clone()));
        let heirs: BTreeSet<&Knob> = others().flat_map(Entry::births).map(|births| &births.knob).collect();
        let births: Vec<&Change> = mine.births().iter().filter(|births| !heirs.contains(&births.knob)).collect();
        sweep(hands, &births, &known, &mut undone);
        fs::remove_file(path).map_err(|source| Error::Journal { path: path.to_owned(), source })?;
        Ok(undone)
    }

    /// Settles the journals of sessions that are dead, guardian and all.
    ///
    /// # Errors
    /// As [`Book::settle`].
    pub fn settle_dead(&self, lock: &Lock, hands: &dyn Hands) -> Result<Vec<(Entry, Undone)>, Error> {
        let mut settled = Vec::new();
        for entry in self.entries(hands)?.into_iter().filter(|entry| !entry.alive) {
            let undone = self.settle(lock, hands, &entry.path)?;
            settled.push((entry, undone));
        }
        self.forget_rights(lock)?;
        Ok(settled)
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Journal { path: self.folder.clone(), source }
    }
}
