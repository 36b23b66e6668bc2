//! The commands that start a program (alone, with cox, with perf), and a function that runs one of them once.

use std::fs::File;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use super::parts::Laps;
use crate::overhead::case::Bench;
use crate::process::{ending, first_line, run};

/// User ID of `nobody`: an ordinary user, for perf without root's rights.
const NOBODY: u32 = 65534;

/// The tool that starts the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    None,
    Cox,
    Perf,
}

/// A way to start a program: alone, or with certain options of cox or perf.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Printed name.
    pub name: &'static str,
    tool: Tool,
    arguments: &'static [&'static str],
    /// True if an ordinary user runs the command.
    unprivileged: bool,
}

impl Way {
    /// The program without an observer.
    pub const PLAIN: Way = Way { name: "plain", tool: Tool::None, arguments: &[], unprivileged: false };

    const fn cox(name: &'static str, arguments: &'static [&'static str]) -> Way {
        Way { name, tool: Tool::Cox, arguments, unprivileged: false }
    }

    const fn perf(name: &'static str, arguments: &'static [&'static str], unprivileged: bool) -> Way {
        Way { name, tool: Tool::Perf, arguments, unprivileged }
    }
}

/// `cox run` with each backend: it observes by BPF programs, by perf events, or by reading /proc. The caller appends the path of the report.
pub const RUN: [Way; 3] = [
    Way::cox("cox run (bpf)", &["run", "--backend", "bpf", "--output"]),
    Way::cox("cox run (perf)", &["run", "--backend", "perf", "--output"]),
    Way::cox("cox run (proc)", &["run", "--backend", "proc", "--output"]),
];

/// `cox pack` onto one CPU.
pub const PACK: [Way; 2] = [
    Way::cox("cox pack (bpf)", &["pack", "--ncpus", "1", "--backend", "bpf", "--output"]),
    Way::cox("cox pack (proc)", &["pack", "--ncpus", "1", "--backend", "proc", "--output"]),
];

/// `perf record` in three ways: with its defaults; with minimal options, which leave out everything that costs time; with minimal options, run by an
/// ordinary user.
pub const PERF: [Way; 3] = [
    Way::perf("perf record", &["record", "-q", "-o"], false),
    Way::perf("perf, minimal", &["record", "-q", "-B", "-N", "--no-bpf-event", "-e", "cpu-clock", "-o"], false),
    Way::perf("perf, minimal, user", &["record", "-q", "-B", "-N", "--no-bpf-event", "-e", "cpu-clock:u", "-o"], true),
];

/// Runs the command once. Returns its wall time in ns. If `laps` is given, cox's stopwatch is on, and the times of the run's parts are appended to
/// `laps`.
pub fn once(bench: &Bench<'_>, way: &Way, program: &[&str], laps: Option<&mut Vec<Laps>>) -> Result<f64> {
    // Each run has a folder of its own, because perf would keep the file of the previous run under another name. The folder is not in the
    // experiment's folder, which other users cannot enter.
    let folder = tempfile::Builder::new().prefix("cox-bench-").tempdir().context("cannot make a temporary folder")?;
    let by_nobody = way.unprivileged && rustix::process::geteuid().is_root();
    if by_nobody {
        chown(folder.path(), Some(NOBODY), Some(NOBODY))
            .context("cannot make an ordinary user the owner of the folder")?;
    }
    let (output, times, messages) =
        (folder.path().join("output"), folder.path().join("times"), folder.path().join("messages"));
    let tool = match way.tool {
        Tool::None => None,
        Tool::Cox => Some(bench.tools.cox.as_ref()),
        Tool::Perf => Some(bench.tools.perf.as_ref()),
    };
    let mut command = match tool {
        None => Command::new(program[0]),
        Some(tool) => {
            let mut command = Command::new(tool.map_err(|why| anyhow!("{why}"))?);
            command.args(way.arguments).arg(&output).arg("--").arg(program[0]);
            command
        }
    };
    command.args(&program[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::create(&messages).context("cannot write into the temporary folder")?);
    if by_nobody {
        command.uid(NOBODY).gid(NOBODY);
    }
    if laps.is_some() {
        command.env(arch::laps::VARIABLE, &times);
    }
    let begin_ns = arch::monotonic_ns();
    let (status, cost) = run(&mut command).context("cannot start the command")?;
    if !status.success() {
        let words = first_line(&messages).unwrap_or_else(|| "no message".into());
        bail!("{}: {words}", ending(status));
    }
    if way.tool != Tool::None && output.metadata().map_or(0, |info| info.len()) == 0 {
        bail!("its output file is missing or empty");
    }
    if let Some(laps) = laps {
        let text = std::fs::read_to_string(&times).context("cannot read cox's file with the times of its parts")?;
        laps.push(Laps::read(&text, begin_ns, begin_ns + cost.wall_ns)?);
    }
    Ok(cost.wall_ns as f64)
}
