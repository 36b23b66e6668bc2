//! The folder of a session, in which each process of the program makes a file for its records.
//!
//! A folder, and no socket or descriptor that is passed on: a file works for each process that the program starts, costs no thread of cox, and keeps
//! what was written when its process is killed. cox removes the folder. If cox is killed, the next session of the user does: a living session holds a
//! lock in its folder.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use wire::loop_records::Contents;

/// Prefix of the names of folders.
const PREFIX: &str = "coxswain-loops-";
/// The file that the session has locked.
const LOCK: &str = "lock";
/// A folder that is younger may belong to a session that has not locked it yet.
const YOUNG: Duration = Duration::from_secs(60);
/// Files that are read: one for each process with loops.
const MOST_FILES: usize = 10_000;

/// The folder.
pub struct Folder {
    folder: tempfile::TempDir,
    _lock: File,
}

impl Folder {
    /// Makes the folder, and removes those of sessions that were killed.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make() -> io::Result<Folder> {
        let temporary = std::env::temp_dir();
        remove_stale(&temporary);
        let mode = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(mode).tempdir_in(temporary)?;
        let lock = File::create_new(folder.path().join(LOCK))?;
        // On a file system without locks, the folder stays if cox is killed.
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        Ok(Folder { folder, _lock: lock })
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns what each process has recorded.
    #[must_use]
    pub fn contents(&self) -> Vec<Contents> {
        let entries = fs::read_dir(self.path()).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.file_name() != LOCK).take(MOST_FILES);
        files.filter_map(|entry| read(&entry.path())).collect()
    }
}

/// Reads the file of a process. The program may have put anything there.
fn read(path: &Path) -> Option<Contents> {
    let is_file = fs::symlink_metadata(path).ok()?;
    if !is_file.is_file() || is_file.len() > 2 * size_of::<wire::loop_records::File>() as u64 {
        return None;
    }
    Contents::parse(&fs::read(path).ok()?)
}

/// Removes the folders of sessions that were killed. Errors are ignored: another session may be removing the same folder.
fn remove_stale(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_stale(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether no session holds the lock. A folder of another user cannot be opened, and stays.
fn is_stale(folder: &PathBuf) -> bool {
    let is_old = |file: &Path| {
        let changed = fs::symlink_metadata(file).and_then(|status| status.modified());
        changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > YOUNG))
    };
    match File::open(folder.join(LOCK)) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() && is_old(&folder.join(LOCK)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => is_old(folder),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn folders_of_killed_sessions_are_removed_and_others_stay() {
        let temporary = tempfile::tempdir().unwrap();
        let make = |name: &str, lock: bool, age: Duration| {
            let folder = temporary.path().join(name);
            fs::create_dir(&folder).unwrap();
            let file = if lock { File::create_new(folder.join(LOCK)).unwrap() } else { File::open(&folder).unwrap() };
            file.set_modified(SystemTime::now() - age).unwrap();
            file
        };
        let old = 2 * YOUNG;
        drop(make("coxswain-loops-killed", true, old));
        drop(make("coxswain-loops-unlocked", false, old));
        drop(make("coxswain-loops-young", true, Duration::ZERO));
        drop(make("coxswain-other", true, old));
        let living = make("coxswain-loops-living", true, old);
        flock(&living, FlockOperation::NonBlockingLockExclusive).unwrap();
        remove_stale(temporary.path());
        let mut left: Vec<_> =
            fs::read_dir(temporary.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["coxswain-loops-living", "coxswain-loops-young", "coxswain-other"]);
    }

    #[test]
    fn foreign_files_are_left_out() {
        let folder = Folder::make().unwrap();
        fs::write(folder.path().join("text"), "text").unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("endless")).unwrap();
        assert!(folder.contents().is_empty());
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }
}
