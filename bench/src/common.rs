//! What every experiment is told alike: where its measurements go, and with which programs it is made.

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
    /// The cox to measure, if not the one beside this program
    #[arg(long, value_name = "FILE")]
    cox: Option<PathBuf>,
    /// Where the workloads are, if not in ../workloads
    #[arg(long, value_name = "FOLDER")]
    workloads: Option<PathBuf>,
    /// Where the JSON will go, from the moment when that was looked at: a FIFO's reader would see its end if it were opened twice.
    #[arg(skip)]
    output: RefCell<Option<Output>>,
}

impl Common {
    /// The programs. To be asked for before anything is measured.
    ///
    /// # Errors
    /// When what is given is not there, or the JSON could not be written later.
    pub fn tools(&self) -> Result<Tools> {
        *self.output.borrow_mut() = Output::wanted(self.json.as_deref())?;
        Tools::find(self.cox.as_deref(), self.workloads.as_deref())
    }

    /// Another file that an experiment writes, as `option` says. To be asked for before anything is measured.
    ///
    /// # Errors
    /// When it could not be written later, or is the place of the JSON.
    pub fn output(&self, option: &str, file: Option<&Path>) -> Result<Option<Output>> {
        refuse_same([("--json", self.json.clone()), (option, file.map(Path::to_path_buf))])?;
        Output::wanted(file)
    }

    /// Text for people: to stdout, or to stderr when the JSON goes to stdout.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn print(&self, text: &str) -> Result<()> {
        json::print(text, self.json.as_deref())
    }

    /// All measurements, to where they are wanted; once, at the end.
    ///
    /// # Errors
    /// When they cannot be written; an older file is then as it was.
    pub fn write(&self, measurements: &impl Serialize) -> Result<()> {
        self.output.take().map_or(Ok(()), |output| json::write(output, measurements))
    }
}
