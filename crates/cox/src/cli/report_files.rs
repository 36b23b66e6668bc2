//! Where commands that run a program write their only report.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use outputs::{Output, refuse_same};

/// Where the report goes.
#[derive(Debug, Args)]
pub struct ReportFiles {
    /// Write the report as JSON to FILE ('-': stdout). %p pid, %h host, %r MPI or Slurm rank
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report to FILE instead of stderr (placeholders as for --json)
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print no report
    #[arg(short, long)]
    pub quiet: bool,
}

impl ReportFiles {
    /// Opens the outputs for the text and for the JSON, so that a bad path is refused before the program starts. `others` are further options that
    /// name files.
    ///
    /// # Errors
    /// If an output cannot be opened for writing, or two options name the same file.
    pub fn open<const N: usize>(
        &self,
        others: [(&'static str, Option<PathBuf>); N],
    ) -> Result<(Option<Output>, Option<Output>)> {
        let text = self.output.clone().filter(|_| !self.quiet);
        refuse_same([("--json", self.json.clone()), ("--output", text)].into_iter().chain(others))?;
        let json = Output::wanted(self.json.as_deref())?;
        let text = if self.quiet { None } else { Some(Output::open(self.output.as_deref())?) };
        Ok((text, json))
    }
}
