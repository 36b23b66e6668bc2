//! One test's programs: built once, run by themselves and under cox.

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

/// Seconds that cox may take beside the runs themselves.
const GRACE_S: u64 = 120;

/// What is the same for all tests.
#[derive(Clone, Debug)]
pub struct Bench {
    /// This program.
    pub xtask: PathBuf,
    /// cox.
    pub cox: PathBuf,
    /// Folder with a folder for each test.
    pub work: PathBuf,
    /// Seconds that a run may take.
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

/// What cox's runtime did in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlap {
    /// Processes that asked for doorbells.
    pub processes: u64,
    /// Tasks that standbys ran.
    pub ran: u64,
}

impl Bench {
    /// Builds a test, unless that has been done.
    ///
    /// # Errors
    /// What the compiler says, in one line, or why there is no folder to build in.
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

    /// Whether a backend works here.
    ///
    /// # Errors
    /// Why it does not.
    pub fn probe(&self, backend: &str) -> Result<(), String> {
        let mut command = Command::new(&self.cox);
        let output = command.args(["run", "-q", &format!("--overlap={backend}"), "--", "true"]).output();
        let output = output.map_err(|error| format!("{}: {error}; first: make build", self.cox.display()))?;
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
    text.lines().find(is_error).or(text.lines().next()).unwrap_or("no word of the compiler").trim().to_owned()
}

impl Built<'_> {
    /// Runs it by itself.
    ///
    /// # Errors
    /// When it could not be run.
    pub fn plain(&self, threads: &[u32], times: u32) -> Result<Vec<Seen>> {
        self.rounds("plain", &[], threads, times)
    }

    /// Runs it under `cox run --overlap`.
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
            |name: &str| section[name].as_u64().with_context(|| format!("no '{name}' in {}", report.display()));
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

    /// A shell command that runs it as it was run.
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
