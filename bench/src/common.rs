//! What every experiment is told alike: where its measurements go, and with which programs it is made.

use std::path::PathBuf;

use anyhow::Result;
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
}

impl Common {
    /// The programs. To be asked for before anything is measured.
    ///
    /// # Errors
    /// When what is given is not there, or the JSON could not be written later.
    pub fn tools(&self) -> Result<Tools> {
        self.json.iter().try_for_each(|path| json::check(path))?;
        Tools::find(self.cox.as_deref(), self.workloads.as_deref())
    }

    /// Text for people: to stdout, or to stderr when the JSON goes to stdout.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn print(&self, text: &str) -> Result<()> {
        json::print(text, self.json.as_deref())
    }

    /// All measurements, to where they are wanted.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, measurements: &impl Serialize) -> Result<()> {
        self.json.iter().try_for_each(|path| json::write(path, measurements))
    }
}
