//! What all parts need: the programs, the CPU, and running `cox noise`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use report::Document;
use report::noise::{ForecastReport, NoiseReport, Taken};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_getres};
use serde_json::Value;
use tempfile::TempDir;

use crate::interrupt::Interrupt;
use crate::overhead::cpus::last_allowed_cpu;
use crate::process::ending;
use crate::tools::Tools;

/// The programs and the place.
pub struct Field<'i> {
    /// The cox to measure.
    pub cox: PathBuf,
    /// The injector.
    pub inject: PathBuf,
    /// The last CPU that may be used, and the first one.
    pub cpu: usize,
    scratch: TempDir,
    interrupt: &'i Interrupt,
}

/// A program that runs during a measurement. Dropping it kills it.
pub struct CoRunner {
    name: String,
    process: Child,
}

impl Drop for CoRunner {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl CoRunner {
    /// Returns whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Result<()> {
        let status = self.process.wait().with_context(|| format!("cannot wait for {}", self.name))?;
        if status.success() { Ok(()) } else { bail!("{}: {}", self.name, ending(status)) }
    }

    /// Ends it by SIGTERM, so that it can restore what it has changed, and waits for its end.
    pub fn end(mut self) -> Result<()> {
        // It may have ended.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        self.process.wait().with_context(|| format!("cannot wait for {}", self.name))?;
        Ok(())
    }
}

impl<'i> Field<'i> {
    pub fn new(tools: Tools, interrupt: &'i Interrupt) -> Result<Field<'i>> {
        let cox = tools.cox.clone().map_err(|why| anyhow::anyhow!("{why}"))?;
        let scratch = tempfile::Builder::new().prefix("cox-bench.").tempdir().context("no temporary folder")?;
        Ok(Field { inject: tools.workload("inject")?, cox, cpu: last_allowed_cpu()?, scratch, interrupt })
    }

    /// Returns the time between two ticks of the kernel, ns. The kernel sets the coarse clock at each tick, so its resolution is their distance.
    pub fn tick_ns(&self) -> u64 {
        clock_getres(ClockId::MonotonicCoarse).tv_nsec.max(1) as u64
    }

    /// Fails once the user has ended the measurement.
    pub fn check(&self) -> Result<()> {
        self.interrupt.check()
    }

    /// Returns the path of a workload: it is beside the injector.
    pub fn workload(&self, name: &str) -> PathBuf {
        self.inject.with_file_name(name)
    }

    /// Returns the path of a temporary file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Runs `cox noise` with these options.
    pub fn noise(&self, options: &[&str]) -> Result<NoiseReport> {
        let json = self.file("noise.json");
        let mut command = Command::new(&self.cox);
        command.args(["noise", "--quiet", "--json"]).arg(&json).args(options);
        self.done(&mut command)?;
        read(&json)
    }

    /// Runs `cox run --noise` on a program.
    pub fn run(&self, program: &Path, arguments: &[&str]) -> Result<Document> {
        let json = self.file("run.json");
        let mut command = Command::new(&self.cox);
        command.args(["run", "--quiet", "--noise", "--json"]).arg(&json).arg("--").arg(program).args(arguments);
        self.done(&mut command)?;
        read(&json)
    }

    /// Forecasts from the last measurement of [`noise`](Field::noise).
    pub fn forecast(&self, options: &[&str]) -> Result<ForecastReport> {
        let json = self.file("forecast.json");
        let mut command = Command::new(&self.cox);
        command.args(["noise", "forecast", "--quiet", "--json"]).arg(&json).args(options);
        self.done(command.arg(self.file("noise.json")))?;
        read(&json)
    }

    /// Starts the injector, which writes its truth and its log.
    pub fn start(&self, options: &[&str]) -> Result<CoRunner> {
        let mut command = Command::new(&self.inject);
        command.args(options).arg("--truth").arg(self.file("truth")).arg("--log").arg(self.file("log"));
        self.spawn(&mut command)
    }

    /// Starts any other program that runs during the measurement, in the temporary folder.
    pub fn beside(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Result<CoRunner> {
        let mut command = Command::new(&program);
        self.spawn(command.args(arguments).stderr(Stdio::null()).current_dir(self.scratch.path()))
    }

    /// Starts a command that runs during the measurement. Its output is not shown, its errors are.
    pub fn spawn(&self, command: &mut Command) -> Result<CoRunner> {
        let name = command.get_program().display().to_string();
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(CoRunner { process: process.with_context(|| format!("cannot start {name}"))?, name })
    }

    /// Returns what the injector has said about itself.
    pub fn truth(&self) -> Result<Value> {
        read(&self.file("truth"))
    }

    /// Returns begin and end of each injected event, ns.
    pub fn log(&self) -> Result<Vec<(u64, u64)>> {
        let text = std::fs::read_to_string(self.file("log")).context("cannot read the injector's log")?;
        let pair = |line: &str| {
            let mut numbers = line.split(',').map(|number| number.parse().ok());
            Some((numbers.next()??, numbers.next()??))
        };
        Ok(text.lines().filter_map(pair).collect())
    }

    /// Runs a program to its end. Fails once the user has ended the measurement.
    pub fn done(&self, command: &mut Command) -> Result<String> {
        self.interrupt.check()?;
        let printed = Field::undone(command);
        self.interrupt.check()?;
        printed
    }

    /// Runs a program that undoes a change to its end, also when the user has ended the measurement.
    pub fn undone(command: &mut Command) -> Result<String> {
        let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
        if !output.status.success() {
            bail!("{command:?}: {} {}", ending(output.status), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn read<T: serde::de::DeserializeOwned>(file: &Path) -> Result<T> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{}", file.display()))
}

/// The causes of a measured CPU whose names satisfy a condition.
pub fn of_causes<'r>(report: &'r NoiseReport, wanted: impl Fn(&str) -> bool + 'r) -> impl Iterator<Item = &'r Taken> {
    let is_wanted =
        move |taken: &&Taken| report.causes.get(taken.cause as usize).is_some_and(|cause| wanted(&cause.name));
    report.cpus.iter().flat_map(|cpu| &cpu.by_cause).filter(is_wanted)
}
