//! What all parts share: programs, CPUs, and runs under taskset or `cox pack`.

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

use super::output::{self, Told};
use crate::interrupt::Interrupt;
use crate::process::{ending, first_line, run_within};
use crate::tools::{Tools, in_path};

/// Variables by which OpenMP programs would behave as the caller's shell says.
const RUNTIME_VARIABLES: [&str; 4] = ["OMP_", "GOMP_", "KMP_", "OPENBLAS_"];

/// How a program is confined to CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confined {
    /// `taskset -c LIST`: the kernel places the threads.
    Taskset,
    /// `cox pack --cpus LIST` with these options more.
    Packed(Vec<String>),
    /// `cox-bench pack palm --cpus LIST` with these options more.
    Palm(Vec<String>),
}

impl Confined {
    /// `cox pack` with options that are words of this text.
    pub fn packed(options: &str) -> Confined {
        Confined::Packed(options.split_whitespace().map(str::to_owned).collect())
    }

    /// By the rules of the PALM paper, without some of their parts.
    pub fn palm(without: Option<&str>) -> Confined {
        Confined::Palm(without.into_iter().flat_map(|part| ["--without", part]).map(str::to_owned).collect())
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// What the program wrote to its standard output.
    pub output: String,
    /// Wall time of the whole command, s.
    pub wall_s: f64,
    /// CPU time of the whole command: program and cox, s.
    pub cpu_s: f64,
    /// The time limit came first: the wall time is a lower bound.
    pub cut_short: bool,
    /// What cox said, when it packed and lived to say it.
    pub told: Option<Told>,
}

/// Where measuring happens.
pub struct Field<'a> {
    /// Ctrl-C.
    pub interrupt: &'a Interrupt,
    /// Programs.
    pub tools: Tools,
    /// For files.
    pub scratch: TempDir,
    /// Length of runs in parts of the usual one.
    pub scale: f64,
    /// How many iterations of the workloads' work loop last for 1 us here.
    pub iterations_per_us: f64,
    cox: PathBuf,
    taskset: PathBuf,
    allowed: Vec<u32>,
    complaints: RefCell<BTreeSet<String>>,
}

impl<'a> Field<'a> {
    /// Find programs and CPUs, and calibrate.
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
            complaints: RefCell::default(),
            tools,
        };
        // Asked first: a lack of rights should not be found out line by line.
        field
            .run(1, &Confined::packed(""), &["true".into()], Duration::from_secs(20))
            .context("cox cannot pack here")?;
        field.iterations_per_us = field.calibrate()?;
        Ok(field)
    }

    /// The fastest of several tries: a disturbed one is slower.
    fn calibrate(&self) -> Result<f64> {
        let program = self.program("barriers", &["--threads".into(), "1".into(), "--rounds".into(), "1".into()])?;
        let mut best = 0.0_f64;
        for _ in 0..5 {
            let run = self.run(1, &Confined::Taskset, &program, Duration::from_secs(20))?;
            best = best.max(output::iterations_per_us(&run.output)?);
        }
        Ok(best)
    }

    /// A workload with its arguments.
    ///
    /// # Errors
    /// When it was not built.
    pub fn program(&self, name: &str, arguments: &[String]) -> Result<Vec<OsString>> {
        let mut line = vec![self.tools.workload(name)?.into_os_string()];
        line.extend(arguments.iter().map(OsString::from));
        Ok(line)
    }

    /// So many CPUs, as a list for taskset and cox: always the same ones.
    ///
    /// # Errors
    /// When not so many are allowed here.
    pub fn cpus(&self, count: usize) -> Result<String> {
        let Some(cpus) = self.allowed.get(..count) else {
            bail!("{count} CPUs are wanted, and {} may be used here", self.allowed.len());
        };
        Ok(cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
    }

    /// A file beside cox, if it is there.
    pub fn beside_cox(&self, name: &str) -> Option<PathBuf> {
        Some(self.cox.with_file_name(name)).filter(|file| file.is_file())
    }

    /// A command that runs nothing yet: taskset or cox, up to where the program goes.
    ///
    /// # Errors
    /// When not so many CPUs are allowed here.
    pub fn command(&self, cpus: usize, confined: &Confined, report: &Path) -> Result<Command> {
        let list = self.cpus(cpus)?;
        let mut command = match confined {
            Confined::Taskset => Command::new(&self.taskset),
            Confined::Packed(_) => Command::new(&self.cox),
            Confined::Palm(_) => Command::new(std::env::current_exe().context("cannot find this program's own file")?),
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

    /// `cox pack` for a process that runs.
    ///
    /// # Errors
    /// When not so many CPUs are allowed here.
    pub fn attach(&self, cpus: usize, pid: u32, report: &Path) -> Result<Command> {
        let mut command = self.command(cpus, &Confined::packed(""), report)?;
        command.arg("--pid").arg(pid.to_string());
        Ok(command)
    }

    /// `taskset -a -p` for a process that runs.
    ///
    /// # Errors
    /// When not so many CPUs are allowed here.
    pub fn taskset_later(&self, cpus: usize, pid: u32) -> Result<Command> {
        let mut command = Command::new(&self.taskset);
        command.args(["-a", "-c", "-p", &self.cpus(cpus)?, &pid.to_string()]).stdin(Stdio::null());
        Ok(command)
    }

    /// Run a program to its end, or up to the limit.
    ///
    /// # Errors
    /// When it fails, in its own words; after Ctrl-C.
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
            // Whoever was ended from outside may not have come to writing it.
            _ if ended.cut_short => Told::take(&report).ok(),
            _ => Some(Told::take(&report)?),
        };
        self.complaints.borrow_mut().extend(told.iter().flat_map(|told| told.complaints.iter().cloned()));
        Ok(Run {
            output: std::fs::read_to_string(&said).context("cannot read what the program said")?,
            wall_s: ended.cost.wall_ns as f64 / 1e9,
            cpu_s: ended.cost.cpu_ns as f64 / 1e9,
            cut_short: ended.cut_short,
            told,
        })
    }

    /// What cox could not do since this was asked last.
    pub fn take_complaints(&self) -> Vec<String> {
        let complaints = std::mem::take(&mut *self.complaints.borrow_mut());
        complaints.into_iter().map(|complaint| format!("cox says: {complaint}")).collect()
    }
}

/// Takes away what the caller's shell says to OpenMP and BLAS runtimes.
pub fn without_runtime_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if RUNTIME_VARIABLES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
}
