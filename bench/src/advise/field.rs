//! What the experiments share: the options, the ways to run a program, and running cox and programs on the chosen CPUs.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::kernels::{self, Kernel};
use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::process::{ending, run};
use crate::tools::Tools;

/// Options of `cox-bench advise`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Kernels (default: all twelve)
    #[arg(value_name = "KERNEL", value_parser = kernels::named)]
    pub(super) kernels: Vec<&'static Kernel>,
    /// Rounds; each runs the kernel once in every way
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) runs: u16,
    /// Judge `cox advise --runs 3`, which tries the ways, instead of the forecasts
    #[arg(long)]
    pub(super) tried: bool,
    /// Only one round, as a check that everything works
    #[arg(long)]
    pub(super) quick: bool,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(super) threads: u16,
    /// Number of CPUs; the first allowed ones are used
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) ncpus: u16,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Ways to run a program, as `cox advise` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Way {
    OneThread,
    FewerThreads,
    Passive,
    Active,
    Taskset,
    Packing,
}

/// What both experiments share: options, programs, the CPUs, and a folder for outputs.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) interrupt: &'a Interrupt,
    pub(super) tools: Tools,
    pub(super) cpus: String,
    pub(super) scratch: TempDir,
}

impl<'a> Bench<'a> {
    /// Prepares the experiments. This process and its children stay on the chosen CPUs.
    pub(super) fn new(options: &'a Options, interrupt: &'a Interrupt) -> Result<Bench<'a>> {
        let tools = options.common.tools()?;
        let cpus = stay_on(usize::from(options.ncpus))?;
        let scratch =
            tempfile::Builder::new().prefix("cox-bench-").tempdir().context("cannot make a temporary folder")?;
        Ok(Bench { options, interrupt, tools, cpus, scratch })
    }

    /// Runs a command of `cox pack` that writes its report to `json`. Returns the wall time of the program in ns. It is not that of the command,
    /// because cox loads eBPF before the program starts.
    pub(super) fn packed(&self, command: &mut Command, json: &Path) -> Result<f64> {
        self.finish(command)?;
        let report: serde_json::Value = self.read(json)?;
        report["wall_ns"].as_f64().context("the JSON of cox pack has no wall_ns")
    }

    pub(super) fn cox(&self, verb: &str, json: &Path) -> Result<Command> {
        let mut command = Command::new(self.tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?);
        command.args([verb, "-q", "--cpus", &self.cpus, "--json"]).arg(json);
        Ok(command)
    }

    /// Runs a command to its end. Returns its wall time in ns.
    pub(super) fn finish(&self, command: &mut Command) -> Result<f64> {
        let messages = self.scratch.path().join("messages");
        let file = std::fs::File::create(&messages).context("cannot write into the temporary folder")?;
        let (status, cost) =
            run(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file)).context("cannot start the command")?;
        if !status.success() {
            let said = std::fs::read_to_string(&messages).unwrap_or_default();
            bail!("{}: {}", ending(status), said.lines().next().unwrap_or("no message"));
        }
        Ok(cost.wall_ns as f64)
    }

    pub(super) fn read<T: for<'de> Deserialize<'de>>(&self, json: &Path) -> Result<T> {
        let messages = || std::fs::read_to_string(self.scratch.path().join("messages")).unwrap_or_default();
        let text = std::fs::read_to_string(json)?;
        // If cox cannot give an answer, it prints the reason and leaves the file empty.
        if text.is_empty() {
            bail!("{}", messages().lines().next().unwrap_or("cox wrote neither JSON nor a message"));
        }
        std::fs::remove_file(json).context("cannot remove cox's JSON file")?;
        serde_json::from_str(&text).context("cannot parse cox's JSON file")
    }
}

/// Restricts this process and its children to the first `count` allowed CPUs. Returns their list.
fn stay_on(count: usize) -> Result<String> {
    let allowed = sched_getaffinity(None).context("cannot read the allowed CPUs")?;
    let chosen: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).take(count).collect();
    if chosen.len() < count {
        bail!("--ncpus {count}: only {} CPUs are allowed", chosen.len());
    }
    let mut set = CpuSet::new();
    chosen.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set).context("cannot set the affinity mask")?;
    Ok(chosen.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
}

impl Way {
    /// Returns the value of OMP_WAIT_POLICY, if this way sets it.
    pub(super) fn policy(self) -> Option<&'static str> {
        match self {
            Way::Passive => Some("passive"),
            Way::Active => Some("active"),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::OneThread => "one thread",
            Way::FewerThreads => "fewer threads",
            Way::Passive => "passive",
            Way::Active => "active",
            Way::Taskset => "taskset",
            Way::Packing => "packing",
        }
    }
}
