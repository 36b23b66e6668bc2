//! Names of outputs: their placeholders, and the file that a name refers to.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// Environment variables that contain the rank of a process, set by process managers and launchers.
pub const RANKS: [&str; 6] =
    ["PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID", "FLUX_TASK_RANK"];

/// Replaces placeholders: `%p` is the process id of cox, `%h` the host name, `%r` the rank (0 without a launcher), `%%`
/// a per cent sign.
///
/// # Errors
/// When a per cent sign is followed by another letter or by nothing, because the user probably expects some text in
/// its place.
pub fn expand(path: &Path) -> Result<PathBuf> {
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
            other => {
                let letter = other.map_or(String::new(), |letter| char::from(letter).escape_default().to_string());
                bail!(
                    "'{}': unknown placeholder %{letter}; use %p (pid), %h (host), %r (rank), %n (run of --repeat) or %% (%)",
                    path.display()
                );
            }
        }
    }
    Ok(PathBuf::from(OsString::from_vec(name)))
}

/// Replaces each `%n` in `path` by the run's number in a series. Other placeholders are left to
/// [`Output::open`](crate::Output::open).
pub fn numbered(path: &Path, run: u32) -> PathBuf {
    replaced(path, b'n', run).0
}

/// Replaces each `%c` in `path` by the number of a CPU. Other placeholders are left to [`Output::open`](crate::Output::open). Also returns whether
/// there was one.
pub fn of_cpu(path: &Path, cpu: u32) -> (PathBuf, bool) {
    replaced(path, b'c', cpu)
}

/// Replaces a placeholder by a number. Also returns whether it occurs in the path.
fn replaced(path: &Path, letter: u8, number: u32) -> (PathBuf, bool) {
    let bytes = path.as_os_str().as_bytes();
    let mut name = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied();
    let mut occurs = false;
    while let Some(byte) = rest.next() {
        match (byte, if byte == b'%' { rest.next() } else { None }) {
            (b'%', Some(next)) if next == letter => {
                occurs = true;
                name.extend(number.to_string().bytes());
            }
            // Copy the per cent sign and the byte after it, so that the n of %%n is not taken for a placeholder.
            (byte, other) => name.extend([byte].into_iter().chain(other)),
        }
    }
    (PathBuf::from(OsString::from_vec(name)), occurs)
}

/// Refuses two options that name the same destination, because the first output would be lost or both would be mixed.
/// Each item is an option and its value. /dev/null may be named several times.
///
/// # Errors
/// When two options name the same destination; the text contains both options. Also when a name has an unknown
/// placeholder.
pub fn refuse_same<'w>(wanted: impl IntoIterator<Item = (&'w str, Option<PathBuf>)>) -> Result<()> {
    let mut taken: Vec<(&str, Place)> = Vec::new();
    for (option, path) in wanted {
        let Some(path) = path else { continue };
        let Some(place) = Place::of(&path)? else { continue };
        if let Some((other, _)) = taken.iter().find(|(_, there)| *there == place) {
            let named = if is_stdout(&path) { "stdout".to_owned() } else { format!("'{}'", expand(&path)?.display()) };
            bail!("{other} and {option} would both write to {named}; give each of them its own file");
        }
        taken.push((option, place));
    }
    Ok(())
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdout")
}

/// Identity of a destination, independent of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// An existing file: device and inode number.
    Node(u64, u64),
    /// A file that does not exist yet: its folder and name.
    New(PathBuf),
}

impl Place {
    /// Returns the identity of the destination `path`; `None` for /dev/null, which has no content that could be lost.
    fn of(path: &Path) -> Result<Option<Place>> {
        let null = fs::metadata("/dev/null").map(|null| (null.dev(), null.ino())).ok();
        let node = if is_stdout(path) {
            fs::metadata(format!("/proc/self/fd/{}", std::io::stdout().as_raw_fd()))
        } else {
            fs::metadata(expand(path)?)
        };
        match node {
            Ok(node) if Some((node.dev(), node.ino())) == null => Ok(None),
            Ok(node) => Ok(Some(Place::Node(node.dev(), node.ino()))),
            // stdout is closed.
            Err(_) if is_stdout(path) => Ok(Some(Place::New("-".into()))),
            // The output file does not exist yet.
            Err(_) => Ok(Some(Place::New(target(&expand(path)?)))),
        }
    }
}

/// Returns the file that a name refers to, which need not exist. Resolves symbolic links and canonicalizes the folder.
pub(super) fn target(path: &Path) -> PathBuf {
    let mut path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // The kernel also follows at most 40 links (MAXSYMLINKS).
    for _ in 0..40 {
        let Ok(link) = fs::read_link(&path) else { break };
        path = path.parent().map_or_else(|| link.clone(), |folder| folder.join(&link));
    }
    match (path.parent().map(fs::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn placeholders() {
        let pid = std::process::id();
        let expanded = |name: &str| expand(Path::new(name)).map(|path| path.display().to_string());
        assert_eq!(expanded("a.%p.json").unwrap(), format!("a.{pid}.json"));
        assert_eq!(expanded("100%%.x").unwrap(), "100%.x");
        assert!(!expanded("%h").unwrap().is_empty());
        for unknown in ["a.%x", "%P.json", "100%"] {
            let said = expanded(unknown).unwrap_err().to_string();
            assert!(said.contains("unknown placeholder %") && said.contains("%r (rank)"), "{said}");
        }
    }

    #[test]
    fn runs_are_numbered_and_other_placeholders_left() {
        let named = |name: &str| numbered(Path::new(name), 12).display().to_string();
        assert_eq!(named("a.%n.%p.%n.json"), "a.12.%p.12.json");
        assert_eq!((named("%%n.%"), named("plain")), ("%%n.%".to_owned(), "plain".to_owned()));
    }

    fn refusal(one: &str, other: &str) -> Option<String> {
        let wanted = [("--json", Some(one.into())), ("--trace", None), ("--html", Some(other.into()))];
        refuse_same(wanted).err().map(|error| error.to_string())
    }

    #[test]
    fn two_options_do_not_write_to_one_place() {
        let pid = std::process::id().to_string();
        for (one, other) in
            [("x", "./x"), ("a.%p", &format!("a.{pid}")), ("-", "/dev/stdout"), ("/nowhere/x", "/nowhere//x")]
        {
            let said = refusal(one, other).unwrap_or_else(|| panic!("{one} and {other}"));
            assert!(said.starts_with("--json and --html would both write to "), "{said}");
        }
        for (one, other) in [("x", "y"), ("-", "x"), ("/dev/null", "/dev/null"), ("%p", "%%p")] {
            assert_eq!(refusal(one, other), None, "{one} and {other}");
        }
    }

    #[test]
    fn one_file_by_two_names_is_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let name = |name: &str| folder.path().join(name).display().to_string();
        fs::write(name("old"), "older").unwrap();
        fs::create_dir(name("sub")).unwrap();
        symlink("old", name("link")).unwrap();
        symlink("to-come", name("ahead")).unwrap();
        fs::hard_link(name("old"), name("hard")).unwrap();
        for (one, other) in
            [("old", "link"), ("old", "hard"), ("old", "sub/../old"), ("ahead", "to-come"), ("new", "sub/../new")]
        {
            assert!(refusal(&name(one), &name(other)).is_some(), "{one} and {other}");
        }
        assert_eq!(refusal(&name("old"), &name("to-come")), None);
    }
}
