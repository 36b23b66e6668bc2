//! What all parts of the experiment share: programs, CPUs, and runs under taskset or `cox pack`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use machine::Root;
use machine::limits::{Who, allowed_cpus};
use tempfile::TempDir;

use super::output::{self, PackFigures};
use crate::interrupt::Interrupt;
use crate::process::{ending, first_line, run_within};
use crate::tools::{Tools, in_path};

/// Prefixes of variables by which the caller's shell would influence OpenMP and BLAS runtimes.
const RUNTIME_VARIABLES: [&str; 4] = ["OMP_", "GOMP_", "KMP_", "OPENBLAS_"];

/// How a program is confined to CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confined {
    /// `taskset -c LIST`: Linux places the threads.
    Taskset,
    /// `cox pack --cpus LIST` with these additional options.
    Packed(Vec<String>),
    /// `cox-bench pack palm --cpus LIST` with these additional options.
    Palm(Vec<String>),
}

impl Confined {
    /// Makes `Packed` from options in one string, separated by spaces.
    pub fn packed(options: &str) -> Confined {
        Confined::Packed(options.split_whitespace().map(str::to_owned).collect())
    }

    /// Makes `Palm`: the rules of the PALM paper, optionally without one part.
    pub fn palm(without: Option<&str>) -> Confined {
        Confined::Palm(without.into_iter().flat_map(|part| ["--without", part]).map(str::to_owned).collect())
    }
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What the program wrote to its standard output.
    pub output: String,
    /// Wall time of the whole command, s.
    pub wall_s: f64,
    /// CPU time of the whole command (program and cox), s.
    pub cpu_s: f64,
    /// True if the run was ended at the time limit: the wall time is then a lower bound.
    pub cut_short: bool,
    /// cox's report; `None` without cox, or if cox was ended before it could write the report.
    pub told: Option<PackFigures>,
}

/// The environment of all measurements: programs, CPUs and calibration.
pub struct Field<'a> {
    /// Tells whether Ctrl-C was pressed.
    pub interrupt: &'a Interrupt,
    /// The programs.
    pub tools: Tools,
    /// Temporary folder.
    pub scratch: TempDir,
    /// Length of runs, relative to the default.
    pub scale: f64,
    /// Iterations per us of the workloads' work loop on this machine.
    pub iterations_per_us: f64,
    cox: PathBuf,
    taskset: PathBuf,
    allowed: Vec<u32>,
    diagnostics: RefCell<BTreeSet<String>>,
}

impl<'a> Field<'a> {
    /// Finds programs and CPUs, and calibrates the work loop.
    ///
    /// # Errors
    /// When something is missing that every part needs.
    pub fn new(tools: Tools, scale: f64, interrupt: &'a Interrupt) -> Result<Field<'a>> {
        let cox = tools.cox.clone().map_err(|why| anyhow!(why))?;
        let taskset = in_path("taskset").context("taskset is not installed (Debian: util-linux)")?;
        let mut field = Field {
            interrupt,
            scratch: tempfile::Builder::new()
                .prefix("cox-bench-")
                .tempdir()
                .context("cannot make a temporary folder")?,
            scale,
            iterations_per_us: 0.0,
            cox,
            taskset,
            allowed: allowed_cpus(&Root::live(), Who::Own)?.iter().collect(),
            diagnostics: RefCell::default(),
            tools,
        };
        // Try packing before anything is measured, so that missing privileges are reported once and not for every measurement.
        field
            .run(1, &Confined::packed(""), &["true".into()], Duration::from_secs(20))
            .context("cox cannot pack here")?;
        field.iterations_per_us = field.calibrate()?;
        Ok(field)
    }

    /// Returns the speed of the work loop: the highest of several tries, because disturbances only slow a try down.
    fn calibrate(&self) -> Result<f64> {
        let program = self.program("barriers", &["--threads".into(), "1".into(), "--rounds".into(), "1".into()])?;
        let mut best = 0.0_f64;
        for _ in 0..5 {
            let run = self.run(1, &Confined::Taskset, &program, Duration::from_secs(20))?;
            best = best.max(output::iterations_per_us(&run.output)?);
        }
        Ok(best)
    }

    /// Returns the command line of a workload.
    ///
    /// # Errors
    /// When the workload has not been built.
    pub fn program(&self, name: &str, arguments: &[String]) -> Result<Vec<OsString>> {
        let mut line = vec![self.tools.workload(name)?.into_os_string()];
        line.extend(arguments.iter().map(OsString::from));
        Ok(line)
    }

    /// Returns the first `count` allowed CPUs as a list for taskset and cox.
    ///
    /// # Errors
    /// When fewer CPUs are allowed.
    pub fn cpus(&self, count: usize) -> Result<String> {
        let Some(cpus) = self.allowed.get(..count) else {
            bail!("{count} CPUs are needed, but this process may use only {}", self.allowed.len());
        };
        Ok(cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
    }

    /// Returns the path of a file in cox's folder, if the file exists.
    pub fn beside_cox(&self, name: &str) -> Option<PathBuf> {
        Some(self.cox.with_file_name(name)).filter(|file| file.is_file())
    }

    /// Returns a command of taskset or cox that confines a program to the first `cpus` allowed CPUs. The caller appends the program. cox writes its
    /// JSON report into the file `report`.
    ///
    /// # Errors
    /// When fewer than `cpus` CPUs are allowed.
    pub fn command(&self, cpus: usize, confined: &Confined, report: &Path) -> Result<Command> {
        let list = self.cpus(cpus)?;
        let mut command = match confined {
            Confined::Taskset => Command::new(&self.taskset),
            Confined::Packed(_) => Command::new(&self.cox),
            Confined::Palm(_) => Command::new(std::env::current_exe().context("cannot find the path of cox-bench")?),
        };
        match confined {
            Confined::Taskset => command.arg("-c").arg(list),
            Confined::Packed(options) => {
                command.args(["pack", "-q", "--cpus", &list, "--json"]).arg(report).args(options)
            }
            Confined::Palm(options) => {
                command.args(["pack", "palm", "--cpus", &list, "--json"]).arg(report).args(options)
            }
        };
        without_runtime_variables(&mut command);
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Returns a `cox pack` command for a running process.
    ///
    /// # Errors
    /// When fewer than `cpus` CPUs are allowed.
    pub fn attach(&self, cpus: usize, pid: u32, report: &Path) -> Result<Command> {
        let mut command = self.command(cpus, &Confined::packed(""), report)?;
        command.arg("--pid").arg(pid.to_string());
        Ok(command)
    }

    /// Returns a `taskset -a -p` command for a running process.
    ///
    /// # Errors
    /// When fewer than `cpus` CPUs are allowed.
    pub fn taskset_later(&self, cpus: usize, pid: u32) -> Result<Command> {
        let mut command = Command::new(&self.taskset);
        command.args(["-a", "-c", "-p", &self.cpus(cpus)?, &pid.to_string()]).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs a program to its end, or to the time limit.
    ///
    /// # Errors
    /// When the program fails: the first line of its messages. After Ctrl-C: "interrupted".
    pub fn run(&self, cpus: usize, confined: &Confined, program: &[OsString], limit: Duration) -> Result<Run> {
        let (said, messages) = (self.scratch.path().join("said"), self.scratch.path().join("messages"));
        let report = self.scratch.path().join("report");
        let mut command = self.command(cpus, confined, &report)?;
        if *confined != Confined::Taskset {
            command.arg("--");
        }
        command.args(program);
        command.stdout(File::create(&said).context("cannot write into the temporary folder")?);
        command.stderr(File::create(&messages).context("cannot write into the temporary folder")?);
        let ended = run_within(&mut command, limit, || self.interrupt.is_set()).context("cannot start the command")?;
        self.interrupt.check()?;
        if !ended.status.success() && !ended.cut_short {
            let words = first_line(&messages).unwrap_or_else(|| "no message".into());
            bail!("{}: {words}", ending(ended.status));
        }
        let told = match confined {
            Confined::Taskset => None,
            // If cox was ended at the time limit, it may not have written its report.
            _ if ended.cut_short => PackFigures::take(&report).ok(),
            _ => Some(PackFigures::take(&report)?),
        };
        self.diagnostics.borrow_mut().extend(told.iter().flat_map(|told| told.diagnostics.iter().cloned()));
        Ok(Run {
            output: std::fs::read_to_string(&said).context("cannot read the program's output")?,
            wall_s: ended.cost.wall_ns as f64 / 1e9,
            cpu_s: ended.cost.cpu_ns as f64 / 1e9,
            cut_short: ended.cut_short,
            told,
        })
    }

    /// Returns the problems that cox has reported since the last call.
    pub fn take_diagnostics(&self) -> Vec<String> {
        let diagnostics = std::mem::take(&mut *self.diagnostics.borrow_mut());
        diagnostics.into_iter().map(|diagnostic| format!("message of cox: {diagnostic}")).collect()
    }
}

/// Removes the variables for OpenMP and BLAS runtimes that come from the caller's shell.
pub fn without_runtime_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if RUNTIME_VARIABLES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
}
