//! What all experiments share: the options for the JSON output and for the programs under test.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::Result;
use outputs::{Output, refuse_same};
use serde::Serialize;

use crate::json;
use crate::tools::Tools;

/// Options of every experiment.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// Write all measurements as JSON to FILE ('-': stdout, tables then go to stderr)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The cox to measure (default: the one in this program's folder)
    #[arg(long, value_name = "FILE")]
    cox: Option<PathBuf>,
    /// Folder of the workloads (default: ../workloads, relative to this program's folder)
    #[arg(long, value_name = "FOLDER")]
    workloads: Option<PathBuf>,
    /// The JSON output. `tools` opens it before anything is measured, and it stays open, because the reader of a FIFO sees an end of file when it is
    /// closed.
    #[arg(skip)]
    output: RefCell<Option<Output>>,
}

impl Common {
    /// Finds the programs, and checks that the JSON can be written. Call it before anything is measured.
    ///
    /// # Errors
    /// When a given program or folder does not exist, or the JSON file cannot be written.
    pub fn tools(&self) -> Result<Tools> {
        *self.output.borrow_mut() = Output::wanted(self.json.as_deref())?;
        Tools::find(self.cox.as_deref(), self.workloads.as_deref())
    }

    /// Prepares an additional output file, which the user names with `option`. Call it before anything is measured.
    ///
    /// # Errors
    /// When the file cannot be written, or is also the JSON file.
    pub fn output(&self, option: &str, file: Option<&Path>) -> Result<Option<Output>> {
        refuse_same([("--json", self.json.clone()), (option, file.map(Path::to_path_buf))])?;
        Output::wanted(file)
    }

    /// Prints text for people: to stdout, or to stderr when the JSON goes to stdout.
    ///
    /// # Errors
    /// When the text cannot be written.
    pub fn print(&self, text: &str) -> Result<()> {
        json::print(text, self.json.as_deref())
    }

    /// Writes all measurements as JSON, if `--json` was given. Call it once, at the end.
    ///
    /// # Errors
    /// When the JSON cannot be written; an older file then stays unchanged.
    pub fn write(&self, measurements: &impl Serialize) -> Result<()> {
        self.output.take().map_or(Ok(()), |output| json::write(output, measurements))
    }
}
