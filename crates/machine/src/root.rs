//! Where /proc, /sys and /boot are: on the live machine, or in a folder with another machine's tree.
//!
//! Everything that this crate reads goes through a [`Root`]. Tests can therefore run every reader on a hand-made tree,
//! and cox can read a tree that a user has sent.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::cpulist::CpuSet;
use crate::error::{Error, is_gone};

/// A prefix for absolute paths such as `/proc/stat`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Root {
    prefix: Option<PathBuf>,
}

impl Root {
    /// Returns the root of the running machine.
    #[must_use]
    pub fn live() -> Self {
        Self { prefix: None }
    }

    /// Returns a root below `folder`: `/proc/stat` is read from `folder/proc/stat`.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { prefix: Some(folder.into()) }
    }

    /// Returns whether this is the running machine. Only then do system calls (`sched_getaffinity`, clocks) describe
    /// the same machine as the files.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.prefix.is_none()
    }

    /// Returns the path to open for `absolute`, a path on the described machine.
    #[must_use]
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let absolute = absolute.as_ref();
        match &self.prefix {
            None => absolute.to_owned(),
            Some(prefix) => prefix.join(absolute.strip_prefix("/").unwrap_or(absolute)),
        }
    }

    /// Returns the bytes of a file.
    ///
    /// # Errors
    /// [`Error::Read`] with the path.
    pub fn read(&self, absolute: impl AsRef<Path>) -> Result<Vec<u8>, Error> {
        let path = self.path(absolute);
        fs::File::open(&path).and_then(|file| all_of(&file)).map_err(|source| Error::Read { path, source })
    }

    /// Returns the first `bytes` bytes of a file as text, converted like the text of [`Root::read_text`].
    pub(crate) fn read_begin(&self, absolute: impl AsRef<Path>, bytes: u64) -> Result<String, Error> {
        let path = self.path(absolute);
        let mut begin = Vec::new();
        let done = fs::File::open(&path).and_then(|file| file.take(bytes).read_to_end(&mut begin));
        done.map(|_| text(begin)).map_err(|source| Error::Read { path, source })
    }

    /// Returns the id of the user who owns a file.
    ///
    /// # Errors
    /// [`Error::Read`] with the path.
    pub fn owner(&self, absolute: impl AsRef<Path>) -> Result<u32, Error> {
        let path = self.path(absolute);
        fs::metadata(&path).map(|of| of.uid()).map_err(|source| Error::Read { path, source })
    }

    /// Returns the text of a file without trailing newlines. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// [`Error::Read`] with the path.
    pub fn read_text(&self, absolute: impl AsRef<Path>) -> Result<String, Error> {
        self.read(absolute).map(text)
    }

    /// Reads one number, e.g. of a sysctl.
    ///
    /// # Errors
    /// [`Error::Read`], or [`Error::Format`] if the text is not a number of type `T`.
    pub fn read_number<T: FromStr>(&self, absolute: impl AsRef<Path>) -> Result<T, Error> {
        let absolute = absolute.as_ref();
        let text = self.read_text(absolute)?;
        text.trim().parse().map_err(|_| self.format_error(absolute, format!("{text:?} is not a number in range")))
    }

    /// Reads a CPU list such as `/sys/devices/system/cpu/online`; `None` if there is no such file.
    ///
    /// # Errors
    /// [`Error::Read`] when the file exists and cannot be read, [`Error::CpuList`] when its text is not a CPU list.
    pub fn read_cpus_if_present(&self, absolute: impl AsRef<Path>) -> Result<Option<CpuSet>, Error> {
        let absolute = absolute.as_ref();
        match present(self.read_text(absolute))? {
            None => Ok(None),
            Some(list) => list.parse().map(Some).map_err(|source| Error::CpuList { path: self.path(absolute), source }),
        }
    }

    /// Returns the target of a symbolic link, e.g. `/proc/PID/exe`.
    ///
    /// # Errors
    /// [`Error::Read`] with the path.
    pub fn read_link(&self, absolute: impl AsRef<Path>) -> Result<PathBuf, Error> {
        let path = self.path(absolute);
        fs::read_link(&path).map_err(|source| Error::Read { path, source })
    }

    /// Returns the names in a folder, sorted. Bytes that are not UTF-8 become U+FFFD; the folders of /proc, /sys and
    /// cgroups that matter here have plain names.
    ///
    /// # Errors
    /// [`Error::Read`] with the path.
    pub fn list(&self, absolute: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        let path = self.path(absolute);
        let failed = |source: io::Error| Error::Read { path: path.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Returns the numbers among the names in a folder, ascending: `/proc`, `/proc/PID/task`.
    ///
    /// # Errors
    /// [`Error::Read`] with the path.
    pub fn list_numbers(&self, absolute: impl AsRef<Path>) -> Result<Vec<u32>, Error> {
        let mut numbers: Vec<u32> = self.list(absolute)?.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the numbers N of the names `{prefix}N` in a folder, ascending (`cpu7`, `node0`, `index3`); empty
    /// when there is no such folder.
    ///
    /// # Errors
    /// [`Error::Read`] when the folder exists and cannot be listed.
    pub fn list_indexed(&self, absolute: impl AsRef<Path>, prefix: &str) -> Result<Vec<u32>, Error> {
        let names = present(self.list(absolute))?.unwrap_or_default();
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns whether a path exists and this user may see it.
    #[must_use]
    pub fn exists(&self, absolute: impl AsRef<Path>) -> bool {
        self.path(absolute).exists()
    }

    /// Builds an [`Error::Format`] about a file of this root.
    pub(crate) fn format_error(&self, absolute: impl AsRef<Path>, reason: String) -> Error {
        Error::Format { path: self.path(absolute), reason }
    }
}

/// Reads a file from its present position to its end. Unlike `File::read_to_end`, it does not ask for the size, which
/// files of /proc and /sys do not report: that would cost as much as reading one of them.
fn all_of(file: &fs::File) -> io::Result<Vec<u8>> {
    /// Most files are shorter than this, so that one call reads the file and a second one finds its end.
    const TYPICAL: usize = 2048;
    let mut bytes = Vec::with_capacity(2 * TYPICAL);
    loop {
        if bytes.capacity() - bytes.len() < TYPICAL / 4 {
            bytes.reserve(TYPICAL);
        }
        match rustix::io::read(file, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => return Ok(bytes),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Turns the error for a missing file into `None`.
pub(crate) fn present<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Read { ref source, .. }) if is_gone(source) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Converts text from the kernel. Invalid UTF-8 is replaced, because a command name may contain any byte.
fn text(bytes: Vec<u8>) -> String {
    let mut text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// Decodes the octal escapes (`\040` for a blank) in mountinfo and maps.
pub(crate) fn unescape_octal(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.split_at_checked(3).and_then(|(digits, rest)| Some((u8::from_str_radix(digits, 8).ok()?, rest))) {
            Some((byte, rest)) => {
                plain.push(byte);
                plain.extend(rest.bytes());
            }
            // Not an escape.
            None => {
                plain.push(b'\\');
                plain.extend(part.bytes());
            }
        }
    }
    PathBuf::from(OsStr::from_bytes(&plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_goes_before_absolute_paths() {
        assert_eq!(Root::live().path("/proc/stat"), Path::new("/proc/stat"));
        assert_eq!(Root::at("/a/b").path("/proc/stat"), Path::new("/a/b/proc/stat"));
    }

    #[test]
    fn errors_name_the_path_that_was_opened() {
        let error = Root::at("/no/such/root").read("/proc/stat").expect_err("there is no such file");
        assert!(error.is_gone());
        assert!(error.to_string().starts_with("cannot read /no/such/root/proc/stat: "), "{error}");
    }

    #[test]
    fn absence_is_none_and_garbage_is_an_error() {
        let folder = tempfile::tempdir().expect("temporary folder");
        fs::write(folder.path().join("n"), "12x\n").expect("write");
        let root = Root::at(folder.path());
        assert_eq!(present(root.read_number::<u32>("/absent")).expect("absence is fine"), None);
        let error = present(root.read_number::<u32>("/n")).expect_err("12x is no number");
        assert!(error.to_string().contains("12x"), "{error}");
        assert!(!error.is_gone());
    }

    #[test]
    fn indexed_names_sort_by_number() {
        let folder = tempfile::tempdir().expect("temporary folder");
        for name in ["cpu10", "cpu2", "cpufreq", "cpu"] {
            fs::create_dir(folder.path().join(name)).expect("mkdir");
        }
        let root = Root::at(folder.path());
        assert_eq!(root.list_indexed("/", "cpu").expect("list"), [2, 10]);
        assert!(root.list_indexed("/absent", "cpu").expect("absent is empty").is_empty());
    }

    #[test]
    fn octal_escapes_are_undone() {
        assert_eq!(unescape_octal("/a\\040b\\134c"), Path::new("/a b\\c"));
        assert_eq!(unescape_octal("/a\\9"), Path::new("/a\\9"));
        assert_eq!(unescape_octal("\\04"), Path::new("\\04"));
    }
}
