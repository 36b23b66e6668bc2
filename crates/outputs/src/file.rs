//! Writes a report to a file. An older file stays intact until the new one is complete.
//!
//! 1. Before the program starts, cox checks that it can write: it creates an unnamed file (O_TMPFILE) in the folder and
//!    closes it again. Nothing changes, and a session that fails or is killed leaves nothing behind.
//! 2. The new text goes into such an unnamed file and is synchronised to the disk. If cox is killed meanwhile, the
//!    kernel frees the file. If the file system has no unnamed files (NFS), the file has a name that identifies cox
//!    ([`PREFIX`]), and a SIGKILL in this step leaves the file behind.
//! 3. The new file takes the mode and owner of the older file. It gets a temporary name, because linkat(2) does not
//!    replace files, and then replaces the older file (rename(2)). If the output is a symbolic link, the link stays and
//!    its target is replaced.
//!
//! Devices, FIFOs and descriptors (/dev/fd/N) are written to directly. A file is overwritten in place if it has several
//! names (hard links), or an owner that only root could restore. Such a file is overwritten only when the whole text is
//! known, and only if the disk has room for all of it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, fallocate, linkat};
use rustix::io::Errno;
use tempfile::TempPath;

use super::names::target;

/// Prefix of temporary names. The process id and some random letters follow.
const PREFIX: &str = ".cox-";

/// A file to write to.
#[derive(Debug)]
pub struct Opened {
    /// The path as the user gave it.
    pub path: PathBuf,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// A device, FIFO or descriptor, written to directly.
    Directly(File),
    /// Path of a regular file, which may not exist yet. It is replaced as a whole.
    Whole(PathBuf),
}

impl Opened {
    /// Checks that the file can be written.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn open(path: PathBuf) -> io::Result<Opened> {
        let is_descriptor = ["/dev/fd", "/dev/stderr", "/proc"].iter().any(|folder| path.starts_with(folder));
        // Follows symbolic links. Does not truncate.
        match OpenOptions::new().write(true).truncate(false).open(&path) {
            Ok(file) if is_descriptor || !file.metadata()?.is_file() => Ok(Opened { path, way: Way::Directly(file) }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => {
                let target = target(&path);
                drop(Making::begin(&target)?);
                Ok(Opened { path, way: Way::Whole(target) })
            }
        }
    }

    /// Returns the folder of a regular file; `None` for devices, FIFOs and descriptors.
    pub fn folder(&self) -> Option<&Path> {
        match &self.way {
            Way::Directly(_) => None,
            Way::Whole(target) => target.parent(),
        }
    }

    /// Calls `write` with a writer for the file.
    ///
    /// # Errors
    /// Errors of `write`, and failures to write. In both cases an older file is unchanged.
    pub fn write_with(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        match self.way {
            Way::Directly(file) => {
                let mut out = BufWriter::new(&file);
                write(&mut out)?;
                out.flush()
            }
            Way::Whole(target) => {
                let making = Making::begin(&target)?;
                let mut out = BufWriter::new(&making.file);
                write(&mut out)?;
                out.flush()?;
                drop(out);
                // Some file systems report a full disk only at this point.
                making.file.sync_all()?;
                making.put_in_place(&target)
            }
        }
    }
}

/// An unfinished file. Dropping it removes it, unless it has been put in place.
struct Making {
    file: File,
    /// Temporary name in the folder of the target; `None` for an unnamed file, which the kernel frees when it is
    /// closed.
    name: Option<TempPath>,
}

impl Making {
    fn begin(target: &Path) -> io::Result<Making> {
        let (Some(folder), Some(_)) = (target.parent(), target.file_name()) else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => Ok(Making { file: file.into(), name: None }),
            // The errors of file systems without O_TMPFILE (open(2)).
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Making::with_name(target),
            Err(error) => Err(error.into()),
        }
    }

    fn with_name(target: &Path) -> io::Result<Making> {
        let make = |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(path);
        let (file, name) = beside(target, make)?;
        Ok(Making { file, name: Some(name) })
    }

    fn put_in_place(mut self, target: &Path) -> io::Result<()> {
        let older = match fs::symlink_metadata(target) {
            Ok(older) if older.is_file() => older,
            // The path has become a folder, a FIFO or a link since it was opened.
            Ok(_) => return Err(io::Error::other("it has been replaced by something other than a regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.rename(target),
            Err(error) => return Err(error),
        };
        let own = self.file.metadata()?;
        let is_same_owner = (older.uid(), older.gid()) == (own.uid(), own.gid());
        if older.nlink() > 1 || !(is_same_owner || fchown(&self.file, Some(older.uid()), Some(older.gid())).is_ok()) {
            return self.overwrite(target);
        }
        self.file.set_permissions(Permissions::from_mode(older.mode() & 0o7777))?;
        self.rename(target)
    }

    fn rename(self, target: &Path) -> io::Result<()> {
        let name = match self.name {
            Some(name) => name,
            None => beside(target, |name| link(&self.file, name))?.1,
        };
        Ok(name.persist(target)?)
    }

    /// Copies the text into the existing file. Its disk blocks are allocated before any content changes.
    fn overwrite(&mut self, target: &Path) -> io::Result<()> {
        let mut there = OpenOptions::new().write(true).truncate(false).open(target)?;
        let length = self.file.metadata()?.len();
        if length > 0 {
            match fallocate(there.as_fd(), FallocateFlags::KEEP_SIZE, 0, length) {
                // Not every file system supports fallocate. Without it, this is as safe as a shell's redirection.
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.file.rewind()?;
        io::copy(&mut (&self.file).take(length), &mut there)?;
        there.set_len(length)?;
        there.sync_all()
    }
}

/// Calls `make` with an unused temporary name in the folder of `target`.
fn beside<T>(target: &Path, make: impl FnMut(&Path) -> io::Result<T>) -> io::Result<(T, TempPath)> {
    let folder = target.parent().unwrap_or(target);
    let prefix = format!("{PREFIX}{}-", std::process::id());
    Ok(tempfile::Builder::new().prefix(&prefix).make_in(folder, make)?.into_parts())
}

/// Gives a name to an unnamed file, by the method that open(2) describes at O_TMPFILE.
fn link(file: &File, name: &Path) -> io::Result<()> {
    let file = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, file.as_str(), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: &Path, text: &str) -> io::Result<()> {
        Opened::open(path.to_owned())?.write_with(|out| out.write_all(text.as_bytes()))
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_older_file_is_replaced_whole_with_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old");
        fs::write(&path, "older and longer").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        write(&path, "new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        // What fails half-way leaves it as it was, and nothing else.
        let failed = Opened::open(path.clone()).unwrap().write_with(|out| {
            out.write_all(b"half")?;
            Err(io::Error::other("full"))
        });
        assert!(failed.is_err());
        assert_eq!((fs::read(&path).unwrap().as_slice(), names(folder.path())), (&b"new"[..], vec!["old".to_owned()]));
    }

    /// Whichever way it is made: there is nothing to see before it is whole, and it has the mode that open(2) gives.
    #[test]
    fn a_new_file_is_there_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        for (name, begin) in [("without", Making::begin as fn(&Path) -> _), ("with", Making::with_name)] {
            for older in [false, true] {
                let target = folder.path().join(name);
                let mut making = begin(&target).unwrap();
                making.file.write_all(name.as_bytes()).unwrap();
                assert_eq!(target.exists(), older);
                assert_eq!(
                    making.name.is_some(),
                    name == "with",
                    "tmpfs, ext4, xfs and btrfs have files without names"
                );
                making.put_in_place(&target).unwrap();
                assert_eq!(fs::read(&target).unwrap(), name.as_bytes());
                let usual = File::create(folder.path().join("usual")).unwrap();
                assert_eq!(fs::metadata(&target).unwrap().mode(), usual.metadata().unwrap().mode());
                fs::remove_file(folder.path().join("usual")).unwrap();
            }
        }
        assert_eq!(names(folder.path()), ["with", "without"]);
        // The longest name that there is leaves no room for another before it.
        let longest = folder.path().join("n".repeat(255));
        write(&longest, "old").unwrap();
        write(&longest, "new").unwrap();
        assert_eq!(fs::read(&longest).unwrap(), b"new");
    }

    /// Process numbers come again, in containers soon: another may have left its file here, or be writing the same output.
    #[test]
    fn what_others_of_the_same_number_make_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("new");
        let left = folder.path().join(format!("{PREFIX}{}-new", std::process::id()));
        fs::write(&left, "left").unwrap();
        let others = [Making::begin(&target).unwrap(), Making::with_name(&target).unwrap()];
        for _ in 0..2 {
            write(&target, "new").unwrap();
        }
        for making in others {
            making.put_in_place(&target).unwrap();
        }
        assert_eq!(fs::read(&left).unwrap(), b"left");
        assert_eq!(names(folder.path()).len(), 2);
    }

    #[test]
    fn links_stay_and_their_targets_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("sub/old"), "older").unwrap();
        symlink("sub/old", at("link")).unwrap();
        symlink("sub/to-come", at("ahead")).unwrap();
        write(&at("link"), "new").unwrap();
        write(&at("ahead"), "made").unwrap();
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert!(fs::symlink_metadata(at("ahead")).unwrap().is_symlink());
        assert_eq!(
            (fs::read(at("sub/old")).unwrap(), fs::read(at("sub/to-come")).unwrap()),
            (b"new".into(), b"made".into())
        );
        assert_eq!(names(&at("sub")), ["old", "to-come"]);
    }

    #[test]
    fn a_file_with_two_names_keeps_both() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::write(&one, "older and longer").unwrap();
        fs::hard_link(&one, &other).unwrap();
        write(&one, "new").unwrap();
        assert_eq!((fs::read(&one).unwrap(), fs::read(&other).unwrap()), (b"new".into(), b"new".into()));
        assert_eq!(names(folder.path()), ["one", "other"]);
    }

    #[test]
    fn what_cannot_be_written_is_refused_at_once_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Opened::open(folder.path().to_owned()).is_err(), "a folder");
        assert!(Opened::open("/nowhere/at/all".into()).is_err());
        let new = folder.path().join("new");
        drop(Opened::open(new.clone()).unwrap());
        assert_eq!(names(folder.path()), [""; 0], "nothing is left of an output that is never written");
        write(Path::new("/dev/null"), "x").unwrap();
        assert!(write(Path::new("/dev/full"), "x").is_err());
        // What takes its place meanwhile is not replaced.
        let opened = Opened::open(new.clone()).unwrap();
        fs::create_dir(&new).unwrap();
        assert!(opened.write_with(|out| out.write_all(b"x")).is_err());
        assert!(new.is_dir());
    }
}
