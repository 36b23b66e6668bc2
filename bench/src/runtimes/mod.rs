//! OpenMP runtimes side by side, on programs that say themselves how long their tasks took.

pub mod tasks;
pub mod throttle;
pub mod umt;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::interrupt::Interrupt;
use crate::process::{ending, run_within};
use crate::tools::Tools;

/// Who runs the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// GCC's runtime with so many threads for each CPU; with more than one they sleep while they wait.
    Gomp(u32),
    /// LLVM's, the same.
    Omp(u32),
    /// Ours; blocked threads go unnoticed.
    Off,
    /// Ours, with doorbells rung by BPF.
    Bpf,
    /// Ours, with idle CPUs noticed by threads of the idle class.
    StandbyIdle,
}

impl Way {
    /// As a column is headed.
    pub fn name(self) -> String {
        match self {
            Way::Gomp(1) => "libgomp".into(),
            Way::Omp(1) => "libomp".into(),
            Way::Gomp(times) => format!("libgomp {times}x"),
            Way::Omp(times) => format!("libomp {times}x"),
            Way::Off => "off".into(),
            Way::Bpf => "bpf".into(),
            Way::StandbyIdle => "standby-idle".into(),
        }
    }

    fn threads_by_cpu(self) -> u32 {
        match self {
            Way::Gomp(times) | Way::Omp(times) => times,
            Way::Off | Way::Bpf | Way::StandbyIdle => 1,
        }
    }
}

/// Where all is run.
pub struct Field<'a> {
    tools: Tools,
    library: PathBuf,
    libomp: Option<PathBuf>,
    cpus: u32,
    /// Files of programs, and their truths.
    pub scratch: TempDir,
    interrupt: &'a Interrupt,
}

/// A run that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);
/// Versions of LLVM whose libomp is looked for, the newest first (Debian's places).
const LLVM: std::ops::RangeInclusive<u32> = 14..=22;

impl<'a> Field<'a> {
    /// Finds what is needed; `folder`: where programs write.
    ///
    /// # Errors
    /// When the preload library or cox is not there.
    pub fn new(tools: Tools, folder: Option<&Path>, interrupt: &'a Interrupt) -> Result<Field<'a>> {
        let cox = tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?;
        let library = cox.with_file_name("libcox_preload.so");
        if !library.exists() {
            bail!("no library at {}; build it (make build)", library.display());
        }
        let paths = LLVM.rev().map(|version| PathBuf::from(format!("/usr/lib/llvm-{version}/lib/libomp.so.5")));
        let libomp = paths.into_iter().find(|path| path.exists());
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("cox-bench-");
        let scratch = folder.map_or_else(|| builder.tempdir(), |folder| builder.tempdir_in(folder));
        let scratch = scratch.context("cannot make a temporary folder")?;
        let cpus = rustix::thread::sched_getaffinity(None).context("reading which CPUs are allowed")?.count();
        Ok(Field { tools, library, libomp, cpus, scratch, interrupt })
    }

    /// CPUs that programs may use.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Whether there is what this way needs.
    pub fn has(&self, way: Way) -> bool {
        !matches!(way, Way::Omp(_)) || self.libomp.is_some()
    }

    /// Runs a workload once; what it says about itself. `threads`: if not one or more for each CPU. `within`: words before
    /// the command.
    ///
    /// # Errors
    /// When it fails, hangs, or Ctrl-C came.
    pub fn run(&self, way: Way, within: &[OsString], line: &Line) -> Result<Value> {
        self.interrupt.check()?;
        let truth = self.scratch.path().join("truth.json");
        let messages = self.scratch.path().join("messages");
        let mut words: Vec<OsString> = within.to_vec();
        if matches!(way, Way::Bpf | Way::StandbyIdle) {
            let cox = self.tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?;
            let how = format!("--overlap={}", way.name());
            words.extend([cox.into(), "run".into(), "-q".into(), how.into(), "--".into()]);
        }
        if line.ranks {
            words.extend(["sh".into(), "-c".into(), RANKS.into(), truth.clone().into()]);
        }
        words.push(self.tools.workload(line.program)?.into());
        words.extend(line.arguments.iter().map(OsString::from));
        if line.ranks {
            // Those with a runtime that does not notice blocked threads keep an order, or they are a deadlock.
            let ordered = !matches!(way, Way::Bpf | Way::StandbyIdle);
            words.extend(ordered.then(|| "--ordered".into()));
        } else {
            words.extend(["--truth".into(), truth.clone().into()]);
        }
        let mut command = Command::new(&words[0]);
        crate::pack::field::without_runtime_variables(&mut command);
        command.args(&words[1..]).env("COX_PRELOAD", &self.library).stdin(Stdio::null()).stdout(Stdio::null());
        let cpus = if line.ranks { 1 } else { self.cpus };
        command.env("OMP_NUM_THREADS", (cpus * way.threads_by_cpu()).to_string());
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
            Way::Gomp(_) | Way::Bpf | Way::StandbyIdle => {}
        }
        command.stderr(File::create(&messages).context("cannot write into the temporary folder")?);
        let ended = run_within(&mut command, LIMIT, || self.interrupt.is_set()).context("cannot start the command")?;
        self.interrupt.check()?;
        if ended.cut_short || !ended.status.success() {
            let said = std::fs::read_to_string(&messages).unwrap_or_default();
            bail!("{} with {}: {} {}", line.program, way.name(), ending(ended.status), said.trim());
        }
        let text = std::fs::read_to_string(&truth).context("the program wrote no truth")?;
        serde_json::from_str(&text).context("the program's truth")
    }
}

/// A workload and its arguments.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Two of it share the work, each on a CPU of its own, and talk by TCP.
    pub ranks: bool,
}

/// Starts two ranks of "$@"; the first one's truth goes to $0. Both must end well.
const RANKS: &str = r#"port=$((20000 + $$ % 20000))
taskset -c 0 "$@" --ranks 2 --rank 0 --peer 127.0.0.1:$port --truth "$0" & first=$!
taskset -c 1 "$@" --ranks 2 --rank 1 --peer 127.0.0.1:$port & second=$!
wait $first; one=$?
wait $second; other=$?
exit $((one > other ? one : other))"#;

/// A number that a program says.
pub fn number(truth: &Value, name: &str) -> Result<f64> {
    truth[name].as_f64().with_context(|| format!("the program does not say {name}"))
}
