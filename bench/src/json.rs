//! The JSON that experiments write: where to, and what every one begins with.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use machine::{Root, topology::Topology};
use serde::Serialize;

/// Version of the JSON: raised when a field changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

/// What was measured, and where.
#[derive(Debug, Serialize)]
pub struct Header {
    schema_version: u32,
    experiment: &'static str,
    kernel: String,
    cpus_online: usize,
}

impl Header {
    /// For an experiment on this machine.
    ///
    /// # Errors
    /// When the machine does not say which CPUs it has.
    pub fn new(experiment: &'static str) -> Result<Header> {
        Ok(Header {
            schema_version: SCHEMA_VERSION,
            experiment,
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpus_online: Topology::read(&Root::live())?.online.len(),
        })
    }
}

/// Can JSON be written there? To be asked before anything is measured.
///
/// # Errors
/// When it cannot.
pub fn check(path: &Path) -> Result<()> {
    if path != Path::new("-") {
        let is_new = !path.exists();
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
        opened.with_context(|| format!("cannot write {}", path.display()))?;
        if is_new {
            // What is never measured leaves no empty file.
            let _ = std::fs::remove_file(path);
        }
    }
    Ok(())
}

/// Write something as JSON; `-` is the standard output.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, what: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(what)?;
    text.push('\n');
    if path == Path::new("-") {
        return std::io::stdout().write_all(text.as_bytes()).context("cannot write to the standard output");
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Text for people: to stdout, or to stderr when the JSON goes to stdout.
///
/// # Errors
/// When it cannot be written.
pub fn print(text: &str, json: Option<&Path>) -> Result<()> {
    if json.is_some_and(|path| path == "-") {
        writeln!(std::io::stderr(), "{text}").context("cannot write to the standard error output")
    } else {
        writeln!(std::io::stdout(), "{text}").context("cannot write to the standard output")
    }
}
