//! Runs a test's program many times and reports the outcomes. This is a process of its own, which `cargo xtask conformance` starts directly or under
//! cox.
//!
//! One session of cox serves all numbers of threads and all repetitions of a test. The program's output is kept apart from cox's, and a run that
//! hangs is killed here, with all its descendants.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::supervise::{watch, with_default_signals};

/// What to run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The program.
    pub program: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Environment variables for the program, which otherwise runs without OMP_* and GOMP_*.
    pub variables: BTreeMap<String, String>,
    /// Values of OMP_NUM_THREADS to run with. If `variables` contains OMP_NUM_THREADS, its value is used instead.
    pub threads: Vec<u32>,
    /// Number of runs with each number of threads.
    pub times: u32,
    /// Time limit of one run, seconds.
    pub limit_s: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How the run ended.
    pub end: End,
    /// Standard output and standard error.
    pub output: [String; 2],
    /// Names of the processes that the run left behind when it ended.
    pub left: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The run exited with this code.
    Exit(i32),
    /// The run was killed by this signal.
    Signal(i32),
    /// The run did not end within the time limit.
    Hang,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Exit(code) => write!(f, "exit {code}"),
            End::Signal(signal) => write!(f, "signal {signal}"),
            End::Hang => f.write_str("hang"),
        }
    }
}

/// Runs with one number of threads that had the same outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// The number of threads.
    pub threads: u32,
    /// The outcome that these runs had in common.
    pub outcome: Outcome,
    /// Number of these runs.
    pub times: u32,
    /// Duration of the longest of these runs, seconds.
    pub seconds: f64,
}

/// Runs what the file `order` says, and writes the outcomes, a list of [`Seen`], to the file `result`. After a hang, the remaining runs with that
/// number of threads are skipped.
///
/// # Errors
/// When a program cannot be started, or a file cannot be read or written.
pub fn run(order: &Path, result: &Path) -> Result<()> {
    let order: Order = serde_json::from_slice(&fs::read(order).with_context(|| order.display().to_string())?)?;
    let outputs = [result.with_extension("stdout"), result.with_extension("stderr")];
    let mut all: Vec<Seen> = Vec::new();
    for threads in &order.threads {
        for _ in 0..order.times {
            let began = Instant::now();
            let outcome = once(&order, *threads, &outputs)?;
            let seconds = began.elapsed().as_secs_f64();
            let is_hang = outcome.end == End::Hang;
            match all.iter_mut().find(|seen| seen.threads == *threads && seen.outcome == outcome) {
                Some(seen) => {
                    seen.times += 1;
                    seen.seconds = seen.seconds.max(seconds);
                }
                None => all.push(Seen { threads: *threads, outcome, times: 1, seconds }),
            }
            if is_hang {
                break;
            }
        }
    }
    fs::write(result, serde_json::to_vec(&all)?).with_context(|| result.display().to_string())
}

fn once(order: &Order, threads: u32, outputs: &[PathBuf; 2]) -> Result<Outcome> {
    let mut command = with_default_signals(order.program.as_os_str());
    command.args(&order.arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"OMP_") || name.as_encoded_bytes().starts_with(b"GOMP_") {
            command.env_remove(name);
        }
    }
    command.env("OMP_NUM_THREADS", threads.to_string()).envs(&order.variables);
    let create = |path: &PathBuf| File::create(path).with_context(|| path.display().to_string());
    command.stdout(create(&outputs[0])?).stderr(create(&outputs[1])?);
    let watched = watch(&mut command, Duration::from_secs(order.limit_s))?;
    let end = match watched.status {
        None => End::Hang,
        Some(status) => status.signal().map_or(End::Exit(status.code().unwrap_or(-1)), End::Signal),
    };
    let text = |path: &PathBuf| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let output = [text(&outputs[0])?, text(&outputs[1])?];
    // After a hang, the program itself was killed with all its processes: they are not leftovers.
    let left = if end == End::Hang { Vec::new() } else { watched.left.into_values().collect() };
    Ok(Outcome { end, output, left })
}
