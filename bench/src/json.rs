//! The JSON output of experiments, and the header that all of them share.

use std::env::args_os;
use std::io::{Write, stderr};
use std::path::Path;

use anyhow::{Context, Result};
use ledger::Provenance;
use machine::{Root, topology::Topology};
use outputs::{Output, to_stdout};
use serde::Serialize;
use session::provenance;

/// Version of the JSON schema: raised when a field is removed or changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// The header: what was measured, where and when.
#[derive(Debug, Serialize)]
pub struct Header {
    schema_version: u32,
    experiment: &'static str,
    provenance: Provenance,
    kernel: String,
    cpus_online: usize,
}

impl Header {
    /// Makes the header for an experiment on this machine.
    ///
    /// # Errors
    /// When the list of CPUs cannot be read.
    pub fn new(experiment: &'static str) -> Result<Header> {
        Ok(Header {
            schema_version: SCHEMA_VERSION,
            experiment,
            provenance: Provenance {
                command: args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
                ..provenance::here("cox-bench", None)
            },
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpus_online: Topology::read(&Root::live())?.online.len(),
        })
    }
}

/// Writes a value as JSON.
///
/// # Errors
/// When the JSON cannot be written; an older file then stays unchanged.
pub fn write(output: Output, what: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(what)?;
    text.push('\n');
    output.write(text.as_bytes())
}

/// Prints text for people: to stdout, or to stderr when the JSON goes to stdout.
///
/// # Errors
/// When the text cannot be written.
pub fn print(text: &str, json: Option<&Path>) -> Result<()> {
    if json.is_some_and(|path| path == "-") {
        writeln!(stderr(), "{text}").context("cannot write to standard error")
    } else {
        to_stdout(|out| writeln!(out, "{text}"))
    }
}
