//! The owner's folder: the journals of all sessions of one user on this machine, and their lock.
//!
//! The module `place` chooses the folder. A folder is refused if it belongs to another user, or if other users may
//! write to it, because a journal says what will be done in the user's name. Files that this program has not made (see
//! `files`) are never opened for writing, locked or removed; no session begins in a folder with such a file.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::entry::{Entry, Problem};
use crate::error::Error;
use crate::files::{self, Kind, Name, RIGHTS};
use crate::format::Change;
use crate::knob_io::KnobIo;
use crate::lock::Lock;
use crate::place;
use crate::reading::{self, Content, LONGEST};
use crate::rights::{self, Right};
use crate::settling::{left_behind, put_back_all, settle_one};
use crate::undo::Undone;

/// How often cox tries to lock a process (to take the exclusive right to change it) while another process has the lock.
/// While a guardian is started, its process has a copy of the lock for a short time, between fork and exec.
const ASKS: usize = 10;
/// Time between two attempts to lock a process.
const ASK_AGAIN: Duration = Duration::from_millis(2);

/// A folder of journals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFolder {
    folder: PathBuf,
}

/// Returns what could not be restored of the changes of dead sessions that were `settled`, one line each.
#[must_use]
pub fn inherited(settled: &[(Entry, Undone)]) -> Vec<String> {
    let of_session = |(entry, undone): &(Entry, Undone)| {
        let whose = entry.record.as_ref().map_or_else(String::new, |record| format!(" of {}", record.header.command));
        let lines = undone.failures().map(|failure| format!("left by a session{whose} that was killed: {failure}"));
        lines.collect::<Vec<String>>()
    };
    settled.iter().flat_map(of_session).collect()
}

/// A file in the folder that this program has not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The file.
    pub path: PathBuf,
    /// Why it is not a file of this program.
    pub why: String,
}

/// The content of the folder.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The journals, sorted by name.
    pub entries: Vec<Entry>,
    /// Files that are not this program's, sorted by name.
    pub foreign: Vec<Foreign>,
}

impl JournalFolder {
    /// Returns the folder of the calling user, or the one that COX_CHANGES names.
    #[must_use]
    pub fn of_user() -> JournalFolder {
        JournalFolder::at(place::of_user())
    }

    /// Returns all folders where sessions of the calling user may have left journals; the folder of new sessions
    /// comes first.
    #[must_use]
    pub fn all_of_user() -> Vec<JournalFolder> {
        place::all().into_iter().map(JournalFolder::at).collect()
    }

    /// Uses the given folder.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> JournalFolder {
        JournalFolder { folder: folder.into() }
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a path for the journal of a new session of process `pid`. Each call returns a different path.
    #[must_use]
    pub fn journal(&self, pid: u32) -> PathBuf {
        self.folder.join(Name::new(pid).journal())
    }

    /// Waits for the lock, and creates the folder if necessary. If this takes long, the user is told which process
    /// holds the lock ([`crate::waiting::tell_by`]).
    ///
    /// # Errors
    /// Fails if the folder cannot be used.
    pub fn lock(&self) -> Result<Lock, Error> {
        self.make().map_err(|source| self.failed(source))?;
        Lock::take(&self.folder)
    }

    /// Takes the exclusive right to change process `pid`. Returns `None` while another process has this right. The
    /// right ends with the process that has it, even if that process is killed.
    ///
    /// # Errors
    /// Fails if the folder cannot be used.
    pub fn hold_alone(&self, pid: u32) -> Result<Option<Right>, Error> {
        self.make().map_err(|source| self.failed(source))?;
        self.refuse_foreign()?;
        let path = self.folder.join(RIGHTS);
        let open = || files::open_empty(&path, OFlags::RDWR | OFlags::CREATE);
        let now = || open().and_then(|file| rights::take(file, pid));
        let failed = |source| Error::Journal { path: path.clone(), source };
        for _ in 0..ASKS {
            if let Some(right) = now().map_err(failed)? {
                return Ok(Some(right));
            }
            thread::sleep(ASK_AGAIN);
        }
        now().map_err(failed)
    }

    /// Returns whether any process has the exclusive right to change process `pid`. Creates no file.
    ///
    /// # Errors
    /// Fails if the folder cannot be used.
    pub fn is_held(&self, pid: u32) -> Result<bool, Error> {
        if !self.is_there()? {
            return Ok(false);
        }
        let path = self.folder.join(RIGHTS);
        match files::open_empty(&path, OFlags::RDWR).and_then(|file| rights::is_taken(&file, pid)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            answer => answer.map_err(|source| Error::Journal { path, source }),
        }
    }

    /// Refuses a folder that contains files this program has not made.
    ///
    /// # Errors
    /// [`Error::Foreign`] with the first such file; also fails if the folder cannot be read.
    pub fn refuse_foreign(&self) -> Result<(), Error> {
        let paths = self.files()?;
        match paths.into_iter().find_map(|path| foreign(&path).map(|why| (path, why))) {
            None => Ok(()),
            Some((path, why)) => Err(Error::Foreign { path, why }),
        }
    }

    /// Creates the folder if it does not exist.
    fn make(&self) -> io::Result<()> {
        match place::make(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.check()
    }

    fn check(&self) -> io::Result<()> {
        let found = fs::symlink_metadata(&self.folder)?;
        if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
            return Err(io::Error::other("it is not a folder that only this user can write to"));
        }
        Ok(())
    }

    /// Returns whether the folder exists.
    ///
    /// # Errors
    /// Fails if the folder cannot be used.
    pub fn is_there(&self) -> Result<bool, Error> {
        match self.check() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            checked => checked.map(|()| true).map_err(|source| self.failed(source)),
        }
    }

    /// Returns the paths of all files, sorted by name; none if the folder does not exist.
    fn files(&self) -> Result<Vec<PathBuf>, Error> {
        if !self.is_there()? {
            return Ok(Vec::new());
        }
        let listed = fs::read_dir(&self.folder).map_err(|source| self.failed(source))?;
        let paths: io::Result<Vec<PathBuf>> = listed.map(|file| Ok(file?.path())).collect();
        let mut paths = paths.map_err(|source| self.failed(source))?;
        paths.sort();
        Ok(paths)
    }

    /// Returns the content of the folder.
    ///
    /// # Errors
    /// Fails if the folder cannot be read or used. A journal that cannot be read is not an error: see
    /// [`Entry::problem`].
    pub fn look(&self, knob_io: &dyn KnobIo) -> Result<Listing, Error> {
        self.look_without(knob_io, None)
    }

    /// Returns all journals except the one at `path`, which is not read because reading a long journal takes
    /// milliseconds.
    ///
    /// # Errors
    /// The same as [`JournalFolder::look`].
    pub fn others(&self, knob_io: &dyn KnobIo, path: &Path) -> Result<Vec<Entry>, Error> {
        Ok(self.look_without(knob_io, Some(path))?.entries)
    }

    fn look_without(&self, knob_io: &dyn KnobIo, without: Option<&Path>) -> Result<Listing, Error> {
        let boot_id = knob_io.boot_id()?;
        let mut listing = Listing::default();
        for path in self.files()?.into_iter().filter(|path| Some(path.as_path()) != without) {
            match one(knob_io, &boot_id, &path) {
                Ok(entry) => listing.entries.extend(entry),
                Err(why) => listing.foreign.push(Foreign { path, why }),
            }
        }
        Ok(listing)
    }

    /// Restores what the session of the journal at `path` has changed, and removes the journal. Does nothing if there
    /// is no such journal.
    ///
    /// # Errors
    /// Fails if the folder cannot be read, or the file is not a journal. Parts of the journal that cannot be read or
    /// removed are reported in [`Undone::troubles`].
    pub fn settle(&self, lock: &Lock, knob_io: &dyn KnobIo, path: &Path) -> Result<Undone, Error> {
        let listing = self.look(knob_io)?;
        if let Some(foreign) = listing.foreign.iter().find(|foreign| foreign.path == path) {
            return Err(Error::Foreign { path: path.to_owned(), why: foreign.why.clone() });
        }
        Ok(match listing.entries.iter().find(|entry| entry.path == path) {
            Some(mine) => settle_one(lock, knob_io, mine, &listing.entries),
            None => Undone::default(),
        })
    }

    /// Restores the changes of the session with this name ([`Entry::name`]), which outlast its process or were left by
    /// it. Returns `None` if there is no such session.
    ///
    /// # Errors
    /// [`Error::Running`] if the session restores its changes itself; also fails if the folder cannot be read.
    pub fn settle_named(&self, lock: &Lock, knob_io: &dyn KnobIo, name: &str) -> Result<Option<Undone>, Error> {
        let entries = self.look(knob_io)?.entries;
        let Some(mine) = entries.iter().find(|entry| entry.name() == name) else { return Ok(None) };
        match &mine.record {
            Some(record) if mine.alive && !mine.lasts() => {
                Err(Error::Running { pid: record.header.pid, command: record.header.command.clone() })
            }
            _ => Ok(Some(settle_one(lock, knob_io, mine, &entries))),
        }
    }

    /// Restores what a running session knows it has changed, and removes its journal. Works even if its journal,
    /// other journals or the folder are damaged.
    pub(crate) fn settle_own(
        &self,
        knob_io: &dyn KnobIo,
        path: &Path,
        changes: &[Change],
        births: &[Change],
    ) -> Undone {
        let (lock, others) = (self.lock(), self.others(knob_io, path));
        let mut undone = put_back_all(knob_io, changes, births, others.as_deref().unwrap_or_default());
        let removed = files::open_own(path, OFlags::RDONLY).and_then(|file| files::remove(path, &file));
        let failures = [
            lock.as_ref().err().map(ToString::to_string),
            others.err().map(|error| error.to_string()),
            removed.err().filter(is_there).map(|error| left_behind(path, &error)),
        ];
        undone.troubles.extend(failures.into_iter().flatten());
        undone
    }

    /// Restores the changes of dead sessions whose guardians have not done so, and removes their journals, one by one.
    /// A damaged journal is undone as far as it can be read, and then set aside. A journal that cannot be read at all,
    /// or that a later version has written, is left unchanged, and its [`Entry::problem`] is set.
    ///
    /// # Errors
    /// Fails if the folder cannot be read.
    pub fn settle_dead(&self, lock: &Lock, knob_io: &dyn KnobIo) -> Result<Vec<(Entry, Undone)>, Error> {
        let mut entries = self.look(knob_io)?.entries;
        let dead = |entry: &&Entry| !entry.alive && matches!(entry.problem, None | Some(Problem::Damaged(_)));
        let mut settled = Vec::new();
        while let Some(at) = entries.iter().position(|entry| dead(&entry)) {
            let undone = settle_one(lock, knob_io, &entries[at], &entries);
            settled.push((entries.remove(at), undone));
        }
        Ok(settled)
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Journal { path: self.folder.clone(), source }
    }
}

/// Returns why a file is not this program's, judging by its name, its type and its first line; `None` if it is.
fn foreign(path: &Path) -> Option<String> {
    let found = match Kind::of(path) {
        None => return Some("cox never makes a file with such a name".to_owned()),
        Some(Kind::Empty) => files::open_empty(path, OFlags::RDONLY).map(|_| None),
        Some(Kind::Journal(name) | Kind::SetAside(name)) => {
            files::open_own(path, OFlags::RDONLY).and_then(|file| reading::foreign(file, &name))
        }
    };
    match found {
        Ok(why) => why.map(str::to_owned),
        Err(error) => Some(error).filter(is_there).map(|error| error.to_string()),
    }
}

/// Returns false if the error means that the file has been removed: journals of other sessions come and go.
fn is_there(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::NotFound
}

/// Reads a file that has a journal's name. Fails if this program has not made the file.
fn content(path: &Path, name: &Name) -> io::Result<Content> {
    let file = files::open_own(path, OFlags::RDONLY)?;
    let length = file.metadata()?.len();
    match reading::read(file, name) {
        Ok(Content::Foreign(why)) => Err(io::Error::other(why)),
        Ok(Content::Record(record, None)) if length > LONGEST => {
            Ok(Content::Record(record, Some(format!("it has {length} bytes, but cox reads at most {LONGEST}"))))
        }
        Err(error) => Ok(Content::Unreadable(error.to_string())),
        content => content,
    }
}

/// Reads the file at `path`, in the folder of journals. Returns `None` if the file is one of cox's but not a journal,
/// or has been removed. Returns an error, which says why, if the file is not one of cox's.
fn one(knob_io: &dyn KnobIo, boot_id: &str, path: &Path) -> Result<Option<Entry>, String> {
    let entry = |record, alive, problem| Ok(Some(Entry { path: path.to_owned(), record, alive, problem }));
    let name = match Kind::of(path) {
        Some(Kind::Journal(name)) => name,
        kind => {
            return match (foreign(path), kind) {
                (Some(why), _) => Err(why),
                (None, Some(Kind::SetAside(_))) => entry(None, false, Some(Problem::SetAside)),
                (None, _) => Ok(None),
            };
        }
    };
    match content(path, &name) {
        // The session ended and removed its journal after the folder was listed.
        Err(error) if !is_there(&error) => Ok(None),
        Err(error) => Err(error.to_string()),
        Ok(Content::Foreign(why)) => Err(why.to_owned()),
        Ok(Content::Torn) => entry(None, false, None),
        Ok(Content::Newer(format)) => entry(None, knob_io.started_ns(name.pid).is_some(), Some(Problem::Newer(format))),
        Ok(Content::Unreadable(why)) => entry(None, false, Some(Problem::Unreadable(why))),
        Ok(Content::Record(record, damage)) => {
            let is_now = record.header.boot_id == boot_id;
            let alive =
                is_now && (record.lasts || knob_io.started_ns(record.header.pid) == Some(record.header.start_ns));
            // If the journal is from an earlier boot, the reboot has undone its changes.
            if is_now { entry(Some(record), alive, damage.map(Problem::Damaged)) } else { entry(None, false, None) }
        }
    }
}
