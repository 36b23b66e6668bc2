//! Files of the journals' folder: which of them belong to this program, and how they are opened and removed.
//!
//! A file counts as one of cox's only if both its name and its content say so. The folder contains:
//!
//! - `lock` and `rights`, always empty: processes lock them, but never read, write or remove them;
//! - `PID-ID.journal`, whose first line repeats PID and ID ([`crate::reading`]); `PID.journal` of earlier versions;
//! - `PID-ID.damaged`, a journal that was undone as far as it could be read;
//! - `pack-PID`, always empty: used by earlier versions instead of `rights`.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::geteuid;

pub(crate) const LOCK: &str = "lock";
pub(crate) const RIGHTS: &str = "rights";
const JOURNAL: &str = "journal";
const DAMAGED: &str = "damaged";

/// The name of a journal: the session's process, and a number that distinguishes its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The session's process.
    pub pid: u32,
    /// A random number; `None` in journals of earlier versions without one.
    pub id: Option<u64>,
}

impl Name {
    /// Makes a new name for a session of process `pid`.
    pub(crate) fn new(pid: u32) -> Name {
        // The keys of the hash function are random.
        Name { pid, id: Some(RandomState::new().build_hasher().finish()) }
    }

    /// Parses a file's stem. Returns `None` unless it is written exactly as this program writes it.
    pub(crate) fn parse(stem: &str) -> Option<Name> {
        let (pid, id) = match stem.split_once('-') {
            Some((pid, id)) => (pid, Some(u64::from_str_radix(id, 16).ok()?)),
            None => (stem, None),
        };
        let name = Name { pid: pid.parse().ok()?, id };
        (name.to_string() == stem).then_some(name)
    }

    pub(crate) fn of_path(path: &Path) -> Option<Name> {
        Name::parse(path.file_stem()?.to_str()?)
    }

    pub(crate) fn journal(&self) -> String {
        format!("{self}.{JOURNAL}")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "{}-{id:016x}", self.pid),
            None => write!(f, "{}", self.pid),
        }
    }
}

/// The kind of a file, judging by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An empty file that processes lock.
    Empty,
    Journal(Name),
    SetAside(Name),
}

impl Kind {
    /// Returns the kind of a file by its name; `None` if cox gives no file such a name.
    pub(crate) fn of(path: &Path) -> Option<Kind> {
        let name = path.file_name()?.to_str()?;
        if name == LOCK || name == RIGHTS {
            return Some(Kind::Empty);
        }
        if let Some(pid) = name.strip_prefix("pack-") {
            return Name::parse(pid).filter(|name| name.id.is_none()).map(|_| Kind::Empty);
        }
        let (stem, ending) = name.rsplit_once('.')?;
        match ending {
            JOURNAL => Name::parse(stem).map(Kind::Journal),
            DAMAGED => Name::parse(stem).map(Kind::SetAside),
            _ => None,
        }
    }
}

/// Returns the path to which a damaged journal is moved.
pub(crate) fn aside(path: &Path) -> PathBuf {
    path.with_extension(DAMAGED)
}

/// Opens a file of this user. Never follows a link, opens only regular files, and never blocks.
///
/// # Errors
/// The kernel's error, or a text that says why the file was refused.
pub(crate) fn open_own(path: &Path, access: OFlags) -> io::Result<File> {
    // Opening a device may already have an effect, so the file is checked first.
    match fs::symlink_metadata(path) {
        Ok(found) => refuse_others(&found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound && access.contains(OFlags::CREATE) => {}
        Err(error) => return Err(error),
    }
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(open(path, flags, Mode::RUSR | Mode::WUSR)?);
    refuse_others(&file.metadata()?)?;
    Ok(file)
}

/// Opens an empty file of this user, and creates it if `access` says so.
///
/// # Errors
/// The same as [`open_own`]; also fails if the file is not empty, because then this program has not made it.
pub(crate) fn open_empty(path: &Path, access: OFlags) -> io::Result<File> {
    let file = open_own(path, access)?;
    match file.metadata()?.len() {
        0 => Ok(file),
        _ => Err(io::Error::other("it is not empty, but cox makes only empty files with this name")),
    }
}

fn refuse_others(found: &Metadata) -> io::Result<()> {
    let refused = match () {
        () if !found.is_file() => "it is not a regular file",
        () if found.uid() != geteuid().as_raw() && found.uid() != 0 => "it belongs to another user",
        () if found.mode() & 0o022 != 0 => "other users may write to it",
        () => return Ok(()),
    };
    Err(io::Error::other(refused))
}

/// Removes the file at `path` if it is still the opened file.
///
/// # Errors
/// The kernel's error; also fails, and removes nothing, if another file is at the path now.
pub(crate) fn remove(path: &Path, file: &File) -> io::Result<()> {
    let (opened, there) = (file.metadata()?, fs::symlink_metadata(path)?);
    if (opened.dev(), opened.ino()) != (there.dev(), there.ino()) {
        return Err(io::Error::other("another file has taken its place"));
    }
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exactly_as_they_are_written() {
        let name = Name { pid: 4711, id: Some(0xab) };
        assert_eq!(Kind::of(Path::new("/x/4711-00000000000000ab.journal")), Some(Kind::Journal(name)));
        assert_eq!(Kind::of(Path::new("4711-00000000000000ab.damaged")), Some(Kind::SetAside(name)));
        assert_eq!(Kind::of(Path::new("4711.journal")), Some(Kind::Journal(Name { pid: 4711, id: None })));
        for name in ["lock", "rights", "pack-4711"] {
            assert_eq!(Kind::of(Path::new(name)), Some(Kind::Empty));
        }
        for name in [
            "thesis.tex",
            "my.journal",
            "04711.journal",
            "+4711.journal",
            "4711-ab.journal",
            "4711-00000000000000AB.journal",
            "4711.journal.bak",
            "pack-",
            "pack-4711.c",
            "locks",
            "journal",
        ] {
            assert_eq!(Kind::of(Path::new(name)), None, "{name}");
        }
        let new = Name::new(7);
        assert_eq!(Name::parse(&new.to_string()), Some(new));
        assert_ne!(new, Name::new(7));
    }
}
