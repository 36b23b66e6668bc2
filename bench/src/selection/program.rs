//! Runs a program of the study under `cox run --schedule`, and reads what its loops took.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use report::loops::LoopsReport;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::interrupt::Interrupt;
use crate::pack::field::without_runtime_variables;
use crate::process::{ending, first_line, run_within};
use crate::study::App;
use crate::tools::Tools;

/// Time limit of a run.
const LIMIT: Duration = Duration::from_secs(300);

/// Returns the options with which each loop of a program has so many instances.
fn options(app: App, instances: u32) -> Vec<String> {
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    match app {
        App::Mandelbrot => [words(&["--size", "128", "--no-verify", "--steps"]), vec![instances.to_string()]].concat(),
        App::Triad => [words(&["--bytes", "16M", "--repeats"]), vec![instances.to_string()]].concat(),
        // A step of length 0 precedes the others.
        App::Sedov => [words(&["--size", "12", "--steps"]), vec![(instances.max(2) - 1).to_string()]].concat(),
    }
}

/// What a loop took in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Took {
    /// The function that contains the loop.
    pub name: String,
    /// Instances.
    pub instances: u64,
    /// Sum of the times of all instances, nanoseconds.
    pub wall_ns: f64,
    /// The schedule of the last instance.
    pub schedule: String,
}

/// What is read of cox's report.
#[derive(Deserialize)]
struct Document {
    loops: LoopsReport,
}

/// Runs programs in a temporary folder.
pub struct Runner<'a> {
    pub tools: Tools,
    pub scratch: TempDir,
    pub interrupt: &'a Interrupt,
    pub instances: u32,
}

impl Runner<'_> {
    /// Returns a file in the temporary folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Runs a program with a schedule. With `save`, cox writes what was selected to that file. Returns the loops that were executed so often that they
    /// count: those with as many instances as the program has steps.
    ///
    /// # Errors
    /// When cox or the program fails, or a report cannot be read.
    pub fn run(&self, app: App, threads: u32, schedule: &OsStr, save: Option<&Path>) -> Result<Vec<Took>> {
        self.interrupt.check()?;
        let json = self.file("report.json");
        let cox = self.tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?;
        let mut command = Command::new(cox);
        // The cheapest observer: it takes no samples.
        command.args(["run", "--quiet", "--backend", "proc", "--json"]).arg(&json).arg("--schedule").arg(schedule);
        if let Some(save) = save {
            command.arg("--save-schedules").arg(save);
        }
        command.arg("--").arg(self.tools.workload(app.name())?).args(["--threads", &threads.to_string()]);
        command.args(options(app, self.instances));
        without_runtime_variables(&mut command);
        for name in ["COX_SCHEDULE", "COX_SCHEDULE_INPUTS", "COX_SCHEDULE_ALONE"] {
            command.env_remove(name);
        }
        command.env_remove("LD_PRELOAD");
        let messages = self.file("messages");
        let stderr = File::create(&messages).context("cannot write into the temporary folder")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let ended = run_within(&mut command, LIMIT, || self.interrupt.is_set()).context("cannot start cox")?;
        self.interrupt.check()?;
        if ended.cut_short || !ended.status.success() {
            let said = first_line(&messages).unwrap_or_else(|| "no message".to_owned());
            bail!("{} with {}: {}: {said}", app.name(), schedule.display(), ending(ended.status));
        }
        let text = std::fs::read(&json).context("cannot read the report of cox")?;
        let document: Document = serde_json::from_slice(&text).context("cannot parse the report of cox")?;
        Ok(of(&document.loops, self.instances))
    }
}

/// Returns the loops that count.
fn of(report: &LoopsReport, instances: u32) -> Vec<Took> {
    let counts = report.loops.iter().filter(|one| one.instances >= u64::from(instances));
    let mut loops: Vec<Took> = counts
        .map(|one| Took {
            name: one.function.clone().unwrap_or_else(|| format!("{:#x}", one.address)),
            instances: one.instances,
            wall_ns: one.wall_ns as f64,
            schedule: one.schedule.clone(),
        })
        .collect();
    loops.sort_by(|one, other| one.name.cmp(&other.name));
    loops
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::loops::LoopReport;

    #[test]
    fn loops_that_are_executed_once_do_not_count() {
        let one = |name: &str, instances| LoopReport {
            function: Some(name.to_owned()),
            instances,
            wall_ns: 7,
            schedule: "gss".to_owned(),
            ..LoopReport::default()
        };
        let loops = vec![one("triad", 200), one("fill", 1), one("check", 201)];
        let report = LoopsReport { loops, ..LoopsReport::default() };
        let names: Vec<String> = of(&report, 200).into_iter().map(|took| took.name).collect();
        assert_eq!(names, ["check", "triad"]);
    }

    #[test]
    fn each_loop_has_the_wanted_number_of_instances() {
        assert_eq!(options(App::Mandelbrot, 200).last().unwrap(), "200");
        assert_eq!(options(App::Triad, 200).last().unwrap(), "200");
        assert_eq!(options(App::Sedov, 200).last().unwrap(), "199");
    }
}
