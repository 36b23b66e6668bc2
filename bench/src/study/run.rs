//! Runs a cell once.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use report::Document;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::cell::{Cell, Observer};
use super::command::{Files, Setup};
use super::percentages;
use super::sample::{Sample, of_truth};
use crate::process::{ending, first_line, run};

/// Runs cells in a temporary folder.
#[derive(Debug)]
pub struct Runner {
    pub setup: Setup,
    scratch: TempDir,
}

impl Runner {
    /// Makes the temporary folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(setup: Setup) -> Result<Runner> {
        let scratch = tempfile::Builder::new().prefix("cox-bench-").tempdir();
        Ok(Runner { setup, scratch: scratch.context("cannot make a temporary folder")? })
    }

    /// Runs a cell once.
    ///
    /// # Errors
    /// When a program fails or tells nothing about its run.
    pub fn run(&self, cell: &Cell) -> Result<Sample> {
        let name = format!("{cell:?}");
        self.measure(cell).with_context(|| name)
    }

    fn measure(&self, cell: &Cell) -> Result<Sample> {
        let scratch = self.scratch.path();
        let truths = (0..cell.programs.apps().len()).map(|at| scratch.join(format!("truth.{at}"))).collect();
        let files = Files { truths, observed: scratch.join("observed") };
        let mut command = self.setup.command(cell, &files)?;
        self.done(&mut command)?;
        let mut sample = Sample::default();
        for truth in &files.truths {
            sample.programs.push(of_truth(&take(truth)?)?);
        }
        match cell.observer {
            Observer::None => {}
            Observer::Cox => sample.observe(&take::<Document>(&files.observed)?)?,
            Observer::Perf => {
                let cox = self.setup.tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?;
                let output = scratch.join("percentages");
                let mut report = Command::new(cox);
                let apps: Vec<&str> = cell.programs.apps().iter().map(|app| app.name()).collect();
                report.args(["report", "--kuhn2022", "--of", &apps.join(","), "--output"]);
                report.arg(&output).arg(&files.observed);
                self.done(&mut report)?;
                let text = std::fs::read_to_string(&output).context("cannot read the report of cox")?;
                sample.percentages =
                    Some(percentages::parse(&text).context("cox's report lacks one of the study's percentages")?);
                std::fs::remove_file(&files.observed).context("cannot remove perf's recording")?;
            }
        }
        Ok(sample)
    }

    /// Runs a command that must succeed. Its error is the first line that it has printed on stderr.
    fn done(&self, command: &mut Command) -> Result<()> {
        let messages = self.scratch.path().join("messages");
        let stderr = File::create(&messages).context("cannot write into the temporary folder")?;
        let name = command.get_program().display().to_string();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let (status, _) = run(command).with_context(|| format!("cannot start {name}"))?;
        if !status.success() {
            bail!("{name}: {}: {}", ending(status), first_line(&messages).unwrap_or_else(|| "no message".into()));
        }
        Ok(())
    }
}

/// Reads a JSON file and removes it, so that no later run can read it.
fn take<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    std::fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("cannot parse {}", file.display()))
}
