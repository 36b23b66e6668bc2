//! Where reports go: stderr, stdout or a file whose name may hold placeholders.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Variables in which launchers tell a process its rank, by what sets them.
const RANKS: [&str; 6] =
    ["PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID", "FLUX_TASK_RANK"];

/// `%p` our process id, `%h` the host's name, `%r` the rank (0 outside a launcher), `%%` a per cent sign.
pub fn expand(path: &Path) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    let mut name = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'p') => name.extend(std::process::id().to_string().bytes()),
            Some(b'h') => name.extend(rustix::system::uname().nodename().to_bytes()),
            Some(b'r') => name.extend(RANKS.iter().find_map(env::var_os).unwrap_or_else(|| "0".into()).as_bytes()),
            Some(b'%') => name.push(b'%'),
            Some(other) => name.extend([b'%', other]),
            None => name.push(b'%'),
        }
    }
    PathBuf::from(OsString::from_vec(name))
}

/// `path` of run number `run` of a series: each `%n` is that number. Other placeholders stay for [`expand`].
pub fn numbered(path: &Path, run: u32) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    let mut name = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied();
    while let Some(byte) = rest.next() {
        match (byte, if byte == b'%' { rest.next() } else { None }) {
            (b'%', Some(b'n')) => name.extend(run.to_string().bytes()),
            // Both, so that the n of %%n stays a letter.
            (byte, other) => name.extend([byte].into_iter().chain(other)),
        }
    }
    PathBuf::from(OsString::from_vec(name))
}

/// Refuse options that name one and the same place: what is written there first would be lost, or both mixed. Each is an option and
/// what was given with it. /dev/null has room for all.
///
/// # Errors
/// When two do; names them.
pub fn refuse_same<'w>(wanted: impl IntoIterator<Item = (&'w str, Option<PathBuf>)>) -> Result<()> {
    let mut taken: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in wanted {
        let Some(place) = path.as_deref().map(place).filter(|place| place != Path::new("/dev/null")) else { continue };
        if let Some((other, _)) = taken.iter().find(|(_, there)| *there == place) {
            let named = if place == Path::new("-") { "stdout".to_owned() } else { format!("'{}'", place.display()) };
            bail!("{other} and {option} would both write to {named}; give each a place of its own");
        }
        taken.push((option, place));
    }
    Ok(())
}

/// What a name comes to, as far as names tell.
fn place(path: &Path) -> PathBuf {
    if path == Path::new("-") || path == Path::new("/dev/stdout") {
        return PathBuf::from("-");
    }
    let path = expand(path);
    std::path::absolute(&path).unwrap_or(path)
}

/// A place to write to, opened before the program starts so that a bad path is refused in time.
pub enum Output {
    /// Our own stderr.
    Stderr,
    /// Our own stdout.
    Stdout,
    /// A file.
    File(Opened),
}

/// A file that is emptied only when what it is for is ready. One that did not exist before and is never written goes again, unless
/// somebody else has written to it meanwhile or put another file in its place.
pub struct Opened {
    path: PathBuf,
    file: File,
    remnant: Remnant,
}

/// What is left behind unless it is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remnant {
    /// A report, an older file or a device: it stays.
    Kept,
    /// A file that did not exist before. Nobody would miss it while it is empty.
    New,
    /// The beginning of a report.
    Incomplete,
}

impl Opened {
    fn open(path: PathBuf) -> io::Result<Opened> {
        let mut options = OpenOptions::new();
        // Not truncated yet: if the session fails, an older report is still there.
        options.write(true).truncate(false);
        match options.clone().create_new(true).open(&path) {
            Ok(file) => Ok(Opened { path, file, remnant: Remnant::New }),
            // Also a link to nothing is found there, and its file made.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = options.create(true).open(&path)?;
                Ok(Opened { path, file, remnant: Remnant::Kept })
            }
            Err(error) => Err(error),
        }
    }

    fn is_regular(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.is_file())
    }

    /// Who made the file may have removed it again, empty as it was.
    fn make_again(&mut self) -> io::Result<()> {
        if self.file.metadata()?.nlink() == 0 {
            self.file = OpenOptions::new().write(true).truncate(false).create(true).open(&self.path)?;
        }
        Ok(())
    }

    /// Whether what is at the path now is this file's remnant.
    fn is_ours_to_remove(&self) -> bool {
        let Ok((ours, there)) = self.file.metadata().and_then(|ours| Ok((ours, fs::symlink_metadata(&self.path)?)))
        else {
            return false;
        };
        let is_it = (there.dev(), there.ino()) == (ours.dev(), ours.ino());
        match self.remnant {
            Remnant::Kept => false,
            Remnant::New => is_it && there.len() == 0,
            Remnant::Incomplete => is_it,
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.is_ours_to_remove() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A file that is emptied when the first byte comes.
struct Begun<'f> {
    out: BufWriter<&'f File>,
    /// Nothing came yet; what is in the file is older.
    to_empty: bool,
}

impl Begun<'_> {
    fn begin(&mut self) -> io::Result<()> {
        if self.to_empty {
            self.out.get_ref().set_len(0)?;
            self.to_empty = false;
        }
        Ok(())
    }
}

impl Write for Begun<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.is_empty() {
            self.begin()?;
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Output {
    /// `-` is stdout, `None` stderr.
    ///
    /// # Errors
    /// When the file cannot be created or written to.
    pub fn open(path: Option<&Path>) -> Result<Output> {
        let Some(path) = path else { return Ok(Output::Stderr) };
        if path == Path::new("-") {
            return Ok(Output::Stdout);
        }
        let path = expand(path);
        let cannot = format!("cannot write '{}'", path.display());
        Opened::open(path).map(Output::File).context(cannot)
    }

    /// What may not be asked for; as [`open`](Output::open) where it is.
    ///
    /// # Errors
    /// As `open`'s.
    pub fn wanted(path: Option<&Path>) -> Result<Option<Output>> {
        path.map(|path| Output::open(Some(path))).transpose()
    }

    /// Write everything.
    ///
    /// # Errors
    /// When not all of it could be written; an incomplete file is removed rather than left to be
    /// taken for a report.
    pub fn write(self, text: &[u8]) -> Result<()> {
        self.write_with(|out| out.write_all(text))
    }

    /// Have `write` write it, piece by piece.
    ///
    /// # Errors
    /// What `write` says; otherwise as [`write`](Output::write). A file to which nothing came is left as it was.
    pub fn write_with(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        match self {
            Output::Stderr => write(&mut io::stderr()).context("writing to stderr"),
            Output::Stdout => {
                let mut stdout = io::stdout().lock();
                write(&mut stdout).and_then(|()| stdout.flush()).context("writing to stdout")
            }
            Output::File(mut opened) => {
                let is_regular = opened.is_regular();
                if is_regular {
                    opened.make_again().with_context(|| format!("cannot write '{}'", opened.path.display()))?;
                }
                let mut begun = Begun { out: BufWriter::new(&opened.file), to_empty: is_regular };
                let written = (|| {
                    write(&mut begun)?;
                    // Nothing may be all there is to write.
                    begun.begin()?;
                    begun.flush()?;
                    // Some file systems find out at close that they are full.
                    if is_regular { opened.file.sync_all() } else { Ok(()) }
                })();
                let is_begun = !begun.to_empty;
                drop(begun);
                match &written {
                    Ok(()) => opened.remnant = Remnant::Kept,
                    Err(_) if is_regular && is_begun => opened.remnant = Remnant::Incomplete,
                    Err(_) => {}
                }
                written.with_context(|| format!("cannot write '{}'", opened.path.display()))
            }
        }
    }

    /// The folder that a file is in: there is room there for what it is made of, too.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            // A device or a pipe may be where no file can be made.
            Output::File(opened) if !opened.is_regular() => None,
            Output::File(Opened { path, .. }) => {
                path.parent().map(|at| if at.as_os_str().is_empty() { Path::new(".") } else { at })
            }
            Output::Stderr | Output::Stdout => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders() {
        let pid = std::process::id();
        assert_eq!(expand(Path::new("a.%p.json")), PathBuf::from(format!("a.{pid}.json")));
        assert_eq!(expand(Path::new("100%%.%x%")), PathBuf::from("100%.%x%"));
        assert!(!expand(Path::new("%h")).as_os_str().is_empty());
    }

    #[test]
    fn runs_are_numbered_and_other_placeholders_left() {
        let named = |name: &str| numbered(Path::new(name), 12).display().to_string();
        assert_eq!(named("a.%n.%p.%n.json"), "a.12.%p.12.json");
        assert_eq!((named("%%n.%"), named("plain")), ("%%n.%".to_owned(), "plain".to_owned()));
    }

    #[test]
    fn a_full_disk_is_an_error_and_the_device_stays() {
        let full = Output::open(Some(Path::new("/dev/full"))).unwrap();
        assert!(full.write(b"x").is_err());
        assert!(Path::new("/dev/full").exists());
    }

    #[test]
    fn what_is_never_written_leaves_no_file_behind_but_an_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&old, "older").unwrap();
        let both = [&new, &old].map(|path| Output::open(Some(path)).unwrap());
        assert!(new.exists(), "it is tried at once whether it can be written");
        drop(both);
        assert!(!new.exists() && fs::read(&old).unwrap() == b"older");
        // What was written stays, and what was begun does not.
        for (path, fails) in [(&new, false), (&old, false), (&new, true), (&old, true)] {
            let written = Output::open(Some(path)).unwrap().write_with(|out| {
                out.write_all(b"text")?;
                if fails { Err(io::Error::other("full")) } else { Ok(()) }
            });
            assert_eq!((written.is_err(), path.exists()), (fails, !fails), "{}", path.display());
        }
    }

    #[test]
    fn a_file_to_which_nothing_came_is_left_as_it_was_unless_that_is_all() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&old, "older").unwrap();
        for path in [&new, &old] {
            let written = Output::open(Some(path)).unwrap().write_with(|out| {
                out.write_all(b"")?;
                out.flush()?;
                Err(io::Error::other("nothing to read"))
            });
            assert!(written.is_err());
        }
        assert!(!new.exists() && fs::read(&old).unwrap() == b"older");
        for path in [&new, &old] {
            Output::open(Some(path)).unwrap().write(b"").unwrap();
            assert_eq!(fs::read(path).unwrap(), b"");
        }
    }

    #[test]
    fn a_file_that_another_has_written_or_put_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let open = || Output::open(Some(&path)).unwrap();
        let (first, second) = (open(), open());
        second.write(b"finished").unwrap();
        drop(first);
        assert_eq!(fs::read(&path).unwrap(), b"finished");
        // The first gives up before the second has anything to write.
        fs::remove_file(&path).unwrap();
        let (first, second) = (open(), open());
        drop(first);
        assert!(!path.exists());
        second.write(b"finished").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"finished");
        // Another file has its name, empty as it is.
        fs::remove_file(&path).unwrap();
        let first = open();
        fs::write(folder.path().join("other"), "").unwrap();
        fs::rename(folder.path().join("other"), &path).unwrap();
        drop(first);
        assert!(path.exists());
    }

    #[test]
    fn two_options_do_not_write_to_one_place() {
        let refusal = |one: &str, other: &str| {
            let wanted = [("--json", Some(one.into())), ("--trace", None), ("--html", Some(other.into()))];
            refuse_same(wanted).err().map(|error| error.to_string())
        };
        let pid = std::process::id().to_string();
        for (one, other) in
            [("x", "./x"), ("a.%p", &format!("a.{pid}")), ("-", "/dev/stdout"), ("/nowhere/x", "/nowhere//x")]
        {
            let said = refusal(one, other).unwrap_or_else(|| panic!("{one} and {other}"));
            assert!(said.starts_with("--json and --html would both write to "), "{said}");
        }
        assert!(refusal("-", "-").is_some_and(|said| said.contains("to stdout;")));
        for (one, other) in [("x", "y"), ("-", "x"), ("/dev/null", "/dev/null"), ("%p", "%%p")] {
            assert_eq!(refusal(one, other), None, "{one} and {other}");
        }
    }

    #[test]
    fn an_unwritable_path_is_refused_before_anything_starts() {
        assert!(Output::open(Some(Path::new("/nowhere/at/all"))).is_err());
        assert!(Output::wanted(Some(Path::new("/nowhere/at/all"))).is_err());
    }

    #[test]
    fn what_is_not_asked_for_is_not_stderr() {
        assert!(matches!(Output::wanted(None), Ok(None)));
        assert!(matches!(Output::wanted(Some(Path::new("-"))), Ok(Some(Output::Stdout))));
    }
}
