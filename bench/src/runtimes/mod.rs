//! Compares OpenMP runtimes. The test programs themselves measure how long their tasks took.

pub mod leftovers;
pub mod network;
pub mod series;
pub mod tasks;
pub mod throttle;
pub mod trace;
pub mod umt;
pub mod wake;
pub mod way;

use std::ffi::OsString;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use network::Network;
use serde_json::Value;
use tempfile::TempDir;
use way::Way;

use crate::interrupt::Interrupt;
use crate::process::{ending, run_within};
use crate::tools::{self, Tools};

/// The environment of all runs: programs, libraries, CPUs.
pub struct Field<'a> {
    tools: Tools,
    library: PathBuf,
    libomp: Option<PathBuf>,
    cpus: Vec<usize>,
    /// Files of the programs, and their JSON results (`--truth`).
    pub scratch: TempDir,
    interrupt: &'a Interrupt,
}

/// Time limit of a run. A run that takes longer counts as hung.
const LIMIT: Duration = Duration::from_secs(120);

impl<'a> Field<'a> {
    /// Finds programs and libraries. The measured programs write into `folder`, or into the temporary folder.
    ///
    /// # Errors
    /// When the preload library or cox is missing.
    pub fn new(tools: Tools, folder: Option<&Path>, interrupt: &'a Interrupt) -> Result<Field<'a>> {
        let cox = tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?;
        let library = cox.with_file_name("libcox_preload.so");
        if !library.exists() {
            bail!("no preload library at {}; build it (make build)", library.display());
        }
        let libomp = tools::libomp();
        let prefix = leftovers::name("files-");
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix(&prefix);
        let place = folder.map_or_else(std::env::temp_dir, Path::to_path_buf);
        for name in leftovers::in_folder(&place) {
            // This fails if the folder belongs to another user, and the folder then stays.
            let _ = std::fs::remove_dir_all(place.join(name));
        }
        let scratch = builder.tempdir_in(&place).context("cannot make a temporary folder")?;
        let allowed = rustix::thread::sched_getaffinity(None).context("cannot read the allowed CPUs")?;
        let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
        Ok(Field { tools, library, libomp, cpus, scratch, interrupt })
    }

    /// Returns the number of CPUs that programs may use.
    pub fn cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// Returns the CPUs that programs may use.
    pub fn allowed(&self) -> &[usize] {
        &self.cpus
    }

    /// Returns why this runtime (with its settings) cannot be measured on this machine, or `None` if it can.
    pub fn lacks(&self, way: Way) -> Option<String> {
        match way {
            Way::Omp(_) if self.libomp.is_none() => Some("LLVM's libomp is not installed (libomp-19-dev)".into()),
            // Try to run cox with these settings: an older cox does not know them, and not every user may use them.
            Way::Leader | Way::Perf => self.refused(way),
            _ => None,
        }
    }

    fn refused(&self, way: Way) -> Option<String> {
        let mut command = Command::new(self.tools.cox.as_ref().ok()?);
        let tried = command.args(["run", "-q", &format!("--overlap={}", way.name()), "--", "true"]).output();
        match tried {
            Ok(tried) if tried.status.success() => None,
            Ok(tried) => Some(String::from_utf8_lossy(&tried.stderr).lines().next().unwrap_or("refused").to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Runs a workload once. Returns the results that its processes write.
    ///
    /// # Errors
    /// When the run fails, takes longer than the time limit, or Ctrl-C was pressed.
    pub fn run(&self, way: Way, line: &Line<'_>) -> Result<Truths> {
        self.interrupt.check()?;
        let messages = self.scratch.path().join("messages");
        let words = self.words(way, line)?;
        let mut command = Command::new(&words[0]);
        crate::pack::field::without_runtime_variables(&mut command);
        command.args(&words[1..]).env("COX_PRELOAD", &self.library).stdin(Stdio::null()).stdout(Stdio::null());
        let cpus = if line.processes.is_ranks() { 1 } else { self.cpus() };
        command.env("OMP_NUM_THREADS", (cpus * way.threads_by_cpu()).to_string());
        command.env("OMP_MAX_TASK_PRIORITY", "1");
        if way.threads_by_cpu() > 1 {
            command.env("OMP_WAIT_POLICY", "passive");
        }
        match way {
            Way::Omp(_) => {
                let libomp = self.libomp.as_ref().context("LLVM's libomp is not installed (Debian: libomp-19-dev)")?;
                command.env("LD_PRELOAD", libomp);
            }
            Way::Off => {
                command.env("LD_PRELOAD", &self.library).env("COX_OVERLAP", "off");
            }
            _ => {}
        }
        command.stderr(File::create(&messages).context("cannot write into the temporary folder")?);
        let ended = run_within(&mut command, LIMIT, || self.interrupt.is_set()).context("cannot start the command")?;
        self.interrupt.check()?;
        if ended.cut_short || !ended.status.success() {
            let said = std::fs::read_to_string(&messages).unwrap_or_default();
            bail!("{} with {}: {} {}", line.program, way.name(), ending(ended.status), said.trim());
        }
        (0..line.processes.processes()).map(|process| self.truth(process)).collect::<Result<_>>().map(Truths)
    }

    fn truth(&self, process: usize) -> Result<Value> {
        let text = std::fs::read_to_string(self.scratch.path().join(format!("truth-{process}")));
        serde_json::from_str(&text.context("cannot read the program's --truth file")?)
            .context("cannot parse the program's --truth file")
    }

    fn words(&self, way: Way, line: &Line<'_>) -> Result<Vec<OsString>> {
        let truth = self.scratch.path().join("truth");
        let mut words: Vec<OsString> = line.within.clone();
        let shell = |script: &str| -> [OsString; 4] { ["sh".into(), "-c".into(), script.into(), truth.clone().into()] };
        if matches!(line.processes, Processes::Twice) {
            words.extend(shell(TWICE));
        }
        if way.by_cox() {
            let cox = self.tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?;
            let how = format!("--overlap={}", way.name());
            words.extend([cox.into(), "run".into(), "-q".into(), how.into()]);
            line.report.iter().for_each(|file| words.extend(["--json".into(), file.into()]));
            words.push("--".into());
        }
        if let Processes::Ranks(network) = line.processes {
            let [first, second, ..] = self.cpus[..] else {
                bail!("two ranks need two CPUs; this process may use {}", self.cpus())
            };
            words.extend(shell(RANKS));
            words.push(Network::peer().into());
            let of = |rank, cpu| format!("{} taskset -c {cpu}", network.enter(rank));
            words.extend([of(0, first).into(), of(1, second).into()]);
        }
        words.push(self.tools.workload(line.program)?.into());
        words.extend(line.arguments.iter().map(OsString::from));
        match line.processes {
            Processes::Alone => words.extend(["--truth".into(), self.scratch.path().join("truth-0").into()]),
            // If the runtime does not notice blocked threads, ranks must order their messages to avoid a deadlock.
            Processes::Ranks(_) if !way.by_cox() => words.push("--ordered".into()),
            Processes::Ranks(_) | Processes::Twice => {}
        }
        Ok(words)
    }
}

/// The command line of a workload, and how to run it.
#[derive(Clone)]
pub struct Line<'a> {
    /// Name of the workload.
    pub program: &'static str,
    /// Arguments of the workload.
    pub arguments: Vec<String>,
    /// How many processes run at the same time.
    pub processes: Processes<'a>,
    /// Words of a command that runs the workload, for example in a control group; they precede the workload's name.
    pub within: Vec<OsString>,
    /// The file for cox's report.
    pub report: Option<PathBuf>,
}

impl Line<'_> {
    /// Makes a line that runs one process of a workload.
    pub fn new(program: &'static str, arguments: Vec<String>) -> Line<'static> {
        Line { program, arguments, processes: Processes::Alone, within: Vec::new(), report: None }
    }
}

/// How many processes of a workload run at the same time.
#[derive(Clone, Copy)]
pub enum Processes<'a> {
    /// One process, with all CPUs.
    Alone,
    /// Two processes that share the work and communicate by TCP, each with one CPU and a network namespace of its own.
    Ranks(&'a Network),
    /// Two independent processes, each with all CPUs.
    Twice,
}

impl Processes<'_> {
    /// Returns the number of processes.
    pub fn processes(self) -> usize {
        if matches!(self, Processes::Alone) { 1 } else { 2 }
    }

    fn is_ranks(self) -> bool {
        matches!(self, Processes::Ranks(_))
    }
}

/// Shell script that starts two ranks of "$@" and fails if either fails.
const RANKS: &str = r#"peer=$1 one=$2 other=$3
shift 3
$one "$@" --ranks 2 --rank 0 --peer $peer --truth "$0-0" & first=$!
$other "$@" --ranks 2 --rank 1 --peer $peer --truth "$0-1" & second=$!
wait $first; one=$?
wait $second; other=$?
exit $((one > other ? one : other))"#;

/// Shell script that starts "$@" twice and fails if either fails.
const TWICE: &str = r#""$@" --truth "$0-0" & first=$!
"$@" --truth "$0-1" & second=$!
wait $first; one=$?
wait $second; other=$?
exit $((one > other ? one : other))"#;

/// The results of all processes of a run.
pub struct Truths(Vec<Value>);

impl Truths {
    fn values(&self, name: &str) -> Result<Vec<f64>> {
        let of =
            |truth: &Value| truth[name].as_f64().with_context(|| format!("the program's --truth file has no {name}"));
        self.0.iter().map(of).collect()
    }

    /// Returns the sum of a number over all processes.
    ///
    /// # Errors
    /// When a process did not report the number.
    pub fn sum(&self, name: &str) -> Result<f64> {
        Ok(self.values(name)?.iter().sum())
    }

    /// Returns the largest value of a number among all processes.
    ///
    /// # Errors
    /// When a process did not report the number.
    pub fn most(&self, name: &str) -> Result<f64> {
        Ok(self.values(name)?.into_iter().fold(0.0, f64::max))
    }

    /// Returns the time from the begin of the first task to the end of the last task, over all processes, in ns on the monotonic clock.
    ///
    /// # Errors
    /// When a process did not report its times.
    pub fn window(&self) -> Result<Range<u64>> {
        let (begins, lasts) = (self.values("begin_ns")?, self.values("elapsed_ns")?);
        let begin = begins.iter().copied().fold(f64::INFINITY, f64::min);
        let end = begins.iter().zip(lasts).map(|(begin, last)| begin + last).fold(0.0, f64::max);
        Ok(begin as u64..end as u64)
    }
}
