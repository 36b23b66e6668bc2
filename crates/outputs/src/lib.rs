//! Where reports and measurements go: stderr, stdout or a file whose name may hold placeholders. And what cox says on stderr when it cannot do its
//! work: [`diagnostics`].
//!
//! Whoever asks for an [`Output`] before the work begins learns in time that it cannot be written. An older file stays whole until the new one is
//! (`file.rs` has the steps), after a full disk too.

pub mod diagnostics;
mod file;
mod names;

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use file::Opened;
pub use names::{RANKS, numbered, refuse_same};

/// A place to write to, looked at before the program starts so that a bad path is refused in time.
#[derive(Debug)]
pub enum Output {
    /// Our own stderr.
    Stderr,
    /// Our own stdout.
    Stdout,
    /// A file.
    File(Opened),
}

/// What could not be written to: our own stdout. Nobody needs to be told that whoever read there has gone (see [`has_no_reader`]).
#[derive(Debug)]
pub struct ToStdout;

impl fmt::Display for ToStdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("writing to stdout")
    }
}

/// Whether an error is that nobody reads our stdout any more, as in `cox doctor | head -1`.
pub fn has_no_reader(error: &anyhow::Error) -> bool {
    let is_broken = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    error.downcast_ref::<ToStdout>().is_some() && error.chain().any(is_broken)
}

impl Output {
    /// `-` is stdout, `None` stderr.
    ///
    /// # Errors
    /// When the file cannot be created or written to, or its name has an unknown placeholder.
    pub fn open(path: Option<&Path>) -> Result<Output> {
        let Some(path) = path else { return Ok(Output::Stderr) };
        if path == Path::new("-") {
            return Ok(Output::Stdout);
        }
        let path = names::expand(path)?;
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
    /// When not all of it could be written; an older file is then as it was.
    pub fn write(self, text: &[u8]) -> Result<()> {
        self.write_with(|out| out.write_all(text))
    }

    /// Have `write` write it, piece by piece.
    ///
    /// # Errors
    /// What `write` says; otherwise as [`write`](Output::write).
    pub fn write_with(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        match self {
            Output::Stderr => write(&mut io::stderr()).context("writing to stderr"),
            Output::Stdout => to_stdout(write),
            Output::File(opened) => {
                let cannot = format!("cannot write '{}'", opened.path.display());
                opened.write_with(write).context(cannot)
            }
        }
    }

    /// The folder that a file is in: there is room there for what it is made of, too.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Output::File(opened) => opened.folder(),
            Output::Stderr | Output::Stdout => None,
        }
    }
}

/// Writes to our own stdout.
///
/// # Errors
/// When that fails; see [`has_no_reader`].
pub fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut stdout = io::stdout().lock();
    write(&mut stdout).and_then(|()| stdout.flush()).context(ToStdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwritable_path_is_refused_before_anything_starts() {
        assert!(Output::open(Some(Path::new("/nowhere/at/all"))).is_err());
        assert!(Output::wanted(Some(Path::new("/nowhere/at/all"))).is_err());
        assert!(Output::open(Some(Path::new("report.%x"))).is_err());
    }

    #[test]
    fn what_is_not_asked_for_is_not_stderr() {
        assert!(matches!(Output::wanted(None), Ok(None)));
        assert!(matches!(Output::wanted(Some(Path::new("-"))), Ok(Some(Output::Stdout))));
    }

    #[test]
    fn only_a_reader_of_stdout_that_has_gone_needs_no_word() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let failed = |error: io::Error| Err::<(), _>(error);
        assert!(has_no_reader(&failed(broken()).context(ToStdout).unwrap_err()));
        assert!(!has_no_reader(&failed(broken()).context("cannot write 'fifo'").unwrap_err()));
        assert!(!has_no_reader(&failed(io::Error::other("full")).context(ToStdout).unwrap_err()));
    }
}
