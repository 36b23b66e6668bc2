//! The program of one test: built once, and run without cox (*plain*) and under cox.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::headers::Language;
use super::rounds::{Order, Seen};
use super::suite::{How, Test};

/// Time that cox may take in addition to the runs, seconds.
const GRACE_S: u64 = 120;

/// Paths and the time limit, which are the same for all tests.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Path of this program.
    pub xtask: PathBuf,
    /// Path of cox.
    pub cox: PathBuf,
    /// Folder that contains a folder for each test.
    pub work: PathBuf,
    /// Time limit of one run, seconds.
    pub limit_s: u64,
}

/// A test that has been built.
#[derive(Clone, Debug)]
pub struct Built<'a> {
    bench: &'a Bench,
    test: &'a Test,
    folder: PathBuf,
    program: PathBuf,
}

/// What cox's OpenMP runtime did in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlap {
    /// Number of processes that asked cox to wake their standby threads: additional threads that run OpenMP tasks on CPUs whose own thread is
    /// blocked.
    pub processes: u64,
    /// Number of OpenMP tasks that ran in standby threads, which cox's runtime adds to the program.
    pub ran: u64,
}

impl Bench {
    /// Builds a test, unless it has been built before.
    ///
    /// # Errors
    /// When the compiler fails: its first error message. When the build folder cannot be used: the reason.
    pub fn build<'a>(&'a self, test: &'a Test) -> Result<Built<'a>, String> {
        let folder = self.work.join(test.name.replace('/', "+"));
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(told)?;
        let program = match &test.how {
            How::Built(program) => program.clone(),
            How::Compiled { source, language, includes } => {
                let program = folder.join("program");
                let mut compiler = compiler(test, source, *language, includes);
                compiler.arg("-o").arg(&program).args(["-lm"]).current_dir(&folder).stdin(Stdio::null());
                let stamp = folder.join("built");
                let line = format!("{compiler:?}");
                if !is_newer(&stamp, source) || fs::read_to_string(&stamp).ok().as_ref() != Some(&line) {
                    let output = compiler.output().map_err(|error| format!("{line}: {error}"))?;
                    if !output.status.success() {
                        return Err(first_error(&String::from_utf8_lossy(&output.stderr)));
                    }
                    fs::write(&stamp, line).map_err(told)?;
                }
                program
            }
        };
        Ok(Built { bench: self, test, folder, program })
    }

    /// Checks that a backend works here.
    ///
    /// # Errors
    /// When it does not work: the reason.
    pub fn probe(&self, backend: &str) -> Result<(), String> {
        let mut command = Command::new(&self.cox);
        let output = command.args(["run", "-q", &format!("--overlap={backend}"), "--", "true"]).output();
        let output = output.map_err(|error| format!("{}: {error}; run make build first", self.cox.display()))?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
    }
}

fn compiler(test: &Test, source: &Path, language: Language, includes: &[PathBuf]) -> Command {
    let mut command = Command::new(match language {
        Language::C => "gcc",
        Language::Cxx => "g++",
        Language::Fortran => "gfortran",
    });
    command.args(["-fopenmp", "-w"]).args(&test.plan.options);
    for folder in includes {
        command.arg("-I").arg(folder);
    }
    if language == Language::Cxx {
        command.args(["-x", "c++"]);
    }
    command.arg(source).args(test.plan.sources.iter().map(|other| source.with_file_name(other)));
    if language == Language::Cxx {
        command.args(["-x", "none"]);
    }
    command
}

fn is_newer(stamp: &Path, source: &Path) -> bool {
    let time = |path: &Path| path.metadata().and_then(|status| status.modified()).ok();
    time(stamp) > time(source)
}

fn first_error(text: &str) -> String {
    let is_error = |line: &&str| line.contains("rror") || line.contains("undefined reference");
    text.lines()
        .find(is_error)
        .or(text.lines().next())
        .unwrap_or("the compiler failed without a message")
        .trim()
        .to_owned()
}

impl Built<'_> {
    /// Runs the program without cox.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn plain(&self, threads: &[u32], times: u32) -> Result<Vec<Seen>> {
        self.rounds("plain", &[], threads, times)
    }

    /// Runs the program under `cox run --overlap`.
    ///
    /// # Errors
    /// When cox fails, or its report cannot be read.
    pub fn under(&self, backend: &str, threads: &[u32], times: u32) -> Result<(Vec<Seen>, Overlap)> {
        let report = self.folder.join(format!("{backend}.json"));
        let mut cox: Vec<OsString> = vec![self.bench.cox.clone().into()];
        cox.extend(["run", "-q", &format!("--overlap={backend}"), "--json"].map(OsString::from));
        cox.extend([report.clone().into(), "--".into()]);
        let seen = self.rounds(backend, &cox, threads, times)?;
        let text = fs::read(&report).with_context(|| report.display().to_string())?;
        let section = &serde_json::from_slice::<Value>(&text)?["overlap"];
        let number =
            |name: &str| section[name].as_u64().with_context(|| format!("{} has no number '{name}'", report.display()));
        Ok((seen, Overlap { processes: number("processes")?, ran: number("tasks")? }))
    }

    fn rounds(&self, how: &str, before: &[OsString], threads: &[u32], times: u32) -> Result<Vec<Seen>> {
        let [order, result] = ["order", "result"].map(|kind| self.folder.join(format!("{how}-{kind}.json")));
        let plan = &self.test.plan;
        let wanted = Order {
            program: self.program.clone(),
            arguments: plan.arguments.clone(),
            variables: plan.variables.clone(),
            threads: threads.to_vec(),
            times,
            limit_s: self.bench.limit_s,
        };
        fs::write(&order, serde_json::to_vec(&wanted)?).with_context(|| order.display().to_string())?;
        let _ = fs::remove_file(&result);
        let runs = threads.len() as u64 * u64::from(times);
        let limit_s = runs * self.bench.limit_s + GRACE_S;
        let mut command = Command::new(&self.bench.xtask);
        command.args(["supervise", &limit_s.to_string()]).args(before);
        command.arg(&self.bench.xtask).arg("rounds").arg(&order).arg(&result);
        let output = command.current_dir(&self.folder).stdin(Stdio::null()).output().context("xtask supervise")?;
        if !output.status.success() {
            bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(serde_json::from_slice(&fs::read(&result).with_context(|| result.display().to_string())?)?)
    }

    /// Returns a shell command that repeats the run.
    #[must_use]
    pub fn reproduce(&self, backend: &str, threads: u32) -> String {
        let mut words: Vec<String> =
            vec![format!("cd {} &&", self.folder.display()), format!("OMP_NUM_THREADS={threads}")];
        words.extend(self.test.plan.variables.iter().map(|(name, value)| format!("{name}='{value}'")));
        words.push(format!("{} run -q --overlap={backend} -- {}", self.bench.cox.display(), self.program.display()));
        words.extend(self.test.plan.arguments.iter().cloned());
        words.join(" ")
    }
}
