//! The JSON that experiments write: where to, and what every one begins with.

use std::io::{Write, stderr};
use std::path::Path;

use anyhow::{Context, Result};
use machine::{Root, topology::Topology};
use outputs::{Output, to_stdout};
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

/// Write something as JSON.
///
/// # Errors
/// When it cannot be written; an older file is then as it was.
pub fn write(output: Output, what: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(what)?;
    text.push('\n');
    output.write(text.as_bytes())
}

/// Text for people: to stdout, or to stderr when the JSON goes to stdout.
///
/// # Errors
/// When it cannot be written.
pub fn print(text: &str, json: Option<&Path>) -> Result<()> {
    if json.is_some_and(|path| path == "-") {
        writeln!(stderr(), "{text}").context("cannot write to the standard error output")
    } else {
        to_stdout(|out| writeln!(out, "{text}"))
    }
}
