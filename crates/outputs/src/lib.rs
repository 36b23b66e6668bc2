//! Destinations of reports and measurements: stderr, stdout, or a file whose name may contain placeholders.
//! [`diagnostics`] writes messages about failures to stderr.
//!
//! A caller that opens its [`Output`] before the work begins learns early if the output cannot be written. An older
//! file stays intact until the new one is complete, even if the disk fills up (`file.rs` has the steps).

pub mod diagnostics;
mod file;
mod names;

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use file::Opened;
pub use names::{RANKS, numbered, of_cpu, refuse_same};

/// A destination, checked before the program starts so that a bad path is rejected early.
#[derive(Debug)]
pub enum Output {
    /// stderr of cox.
    Stderr,
    /// stdout of cox.
    Stdout,
    /// A file.
    File(Opened),
}

/// Error context: writing to stdout failed. If the reader has closed the pipe, no message is needed (see
/// [`has_no_reader`]).
#[derive(Debug)]
pub struct ToStdout;

impl fmt::Display for ToStdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("writing to stdout")
    }
}

/// Returns whether an error means that the reader of stdout has gone, as in `cox doctor | head -1`.
pub fn has_no_reader(error: &anyhow::Error) -> bool {
    let is_broken = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    error.downcast_ref::<ToStdout>().is_some() && error.chain().any(is_broken)
}

impl Output {
    /// Opens a destination: `-` is stdout, `None` is stderr.
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

    /// Opens an optional destination; `None` if `path` is `None`.
    ///
    /// # Errors
    /// Same as [`open`](Output::open).
    pub fn wanted(path: Option<&Path>) -> Result<Option<Output>> {
        path.map(|path| Output::open(Some(path))).transpose()
    }

    /// Writes `text`.
    ///
    /// # Errors
    /// When not all of the text could be written. An older file is then unchanged.
    pub fn write(self, text: &[u8]) -> Result<()> {
        self.write_with(|out| out.write_all(text))
    }

    /// Calls `write` with a writer for the destination.
    ///
    /// # Errors
    /// Errors of `write`; otherwise the same as [`write`](Output::write).
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

    /// Returns the folder of an output file. Temporary files can go there too. `None` for stdout and stderr.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Output::File(opened) => opened.folder(),
            Output::Stderr | Output::Stdout => None,
        }
    }
}

/// Writes to stdout.
///
/// # Errors
/// When writing fails; see [`has_no_reader`].
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
