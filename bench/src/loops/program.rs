//! Runs `loopcost`, with the library or without it.

use std::fmt::Debug;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use super::rows::Part;
use crate::interrupt::Interrupt;
use crate::pack::field::without_runtime_variables;
use crate::process::{ending, run_within};

/// Time limit of a run. A run takes some milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Facts about the loop, for the schedules that need some: an iteration takes about 2 ns, a request 50 ns.
const INPUTS: &str = "mean_ns=2,deviation_ns=1,overhead_ns=50";

/// Who schedules the loop.
#[derive(Clone, Copy, Debug)]
pub enum Scheduler<'a> {
    /// The program's own runtime: the library is not loaded.
    Runtime,
    /// The program's own runtime: the library is loaded, and has no schedule.
    Idle,
    /// The library, with this schedule.
    Library(&'a str),
    /// Another runtime with the same functions, by its library.
    Peer(&'a Path),
}

/// The programs and the library.
pub struct Programs<'a> {
    /// `loopcost`, or the same by clang.
    pub program: PathBuf,
    /// `libcox_loops.so`.
    pub library: PathBuf,
    /// The programs' results.
    pub scratch: &'a TempDir,
    /// Ctrl-C.
    pub interrupt: &'a Interrupt,
}

/// Runs a program that writes what it has measured to `--truth FILE`. Returns its `ns_each`, nanoseconds.
///
/// # Errors
/// When it fails, or prints anything on stderr: the library says there if loops have had another schedule. `with` is named then.
pub fn ns_each(
    command: &mut Command,
    with: &dyn Debug,
    limit: Duration,
    scratch: &TempDir,
    interrupt: &Interrupt,
) -> Result<f64> {
    let file = |name: &str| scratch.path().join(name);
    let messages = File::create(file("messages")).context("cannot write into the temporary folder")?;
    command.arg("--truth").arg(file("truth")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
    let ended = run_within(command, limit, || interrupt.is_set()).context("cannot start the command")?;
    interrupt.check()?;
    let said = std::fs::read_to_string(file("messages")).unwrap_or_default();
    if ended.cut_short || !ended.status.success() || !said.is_empty() {
        let program = command.get_program().display();
        bail!("{program} with {with:?}: {} {}", ending(ended.status), said.trim());
    }
    let text = std::fs::read_to_string(file("truth")).context("cannot read the program's --truth file")?;
    let truth: Value = serde_json::from_str(&text).context("cannot parse the program's --truth file")?;
    truth["ns_each"].as_f64().context("the program's --truth file has no ns_each")
}

impl Programs<'_> {
    /// Measures a loop once. Returns nanoseconds per iteration or per instance, the median of the program's repeats.
    ///
    /// Threads are bound to their CPUs. How long they spin at barriers is the runtime's default.
    pub fn measure(&self, part: Part, threads: u32, scheduler: Scheduler<'_>) -> Result<f64> {
        self.interrupt.check()?;
        // For what the library records of each loop, as in a run of cox. A folder for each run: its file takes half a megabyte.
        let records = tempfile::tempdir_in(self.scratch.path()).context("cannot make a temporary folder")?;
        let (iterations, instances) = part.size();
        let mut command = Command::new(&self.program);
        without_runtime_variables(&mut command);
        command.args(["--loop", part.clause(), "--iterations", &iterations.to_string()]);
        command.args(["--instances", &instances.to_string()]);
        command.env("OMP_NUM_THREADS", threads.to_string()).env("OMP_PROC_BIND", "true").env("OMP_PLACES", "cores");
        match scheduler {
            Scheduler::Runtime => {}
            Scheduler::Idle => {
                command.env("LD_PRELOAD", &self.library);
            }
            Scheduler::Library(schedule) => {
                let weights = vec!["1"; threads as usize].join(":");
                command.env("LD_PRELOAD", &self.library).env("COX_SCHEDULE", format!("all:{schedule}"));
                command.env("COX_SCHEDULE_INPUTS", format!("{INPUTS},weights={weights}"));
                command.env("COX_LOOPS", records.path());
            }
            Scheduler::Peer(runtime) => {
                command.env("LD_PRELOAD", runtime);
            }
        }
        let each_ns = ns_each(&mut command, &scheduler, LIMIT, self.scratch, self.interrupt)?;
        Ok(each_ns / part.divisor())
    }
}
