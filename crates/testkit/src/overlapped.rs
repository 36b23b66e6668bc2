//! Runs test programs under `cox run --overlap`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::built::PACKAGE;
use crate::run::{COX, path, preload_library, root_with_two_cpus};

/// The options for the ways in which cox can notice blocked threads.
pub const WAYS: [&str; 4] = ["--overlap=bpf", "--overlap=perf", "--overlap=standby-idle", "--overlap=leader"];
/// Values of OMP_NUM_THREADS.
pub const THREADS: [&str; 4] = ["1", "2", "3", "8"];

/// Returns all pairs of a number of threads and an overlap option. The leader, which is for comparison, is paired with two threads only.
pub fn threads_and_ways() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = THREADS.into_iter().flat_map(|threads| WAYS.map(|way| (threads, way)));
    all.filter(|(threads, way)| *threads == "2" || *way != "--overlap=leader")
}

/// Returns [`repeated`](crate::repeated) as an argument of a program.
pub fn rounds(few: usize) -> String {
    crate::repeated(few).to_string()
}

/// The environment of an overlap test: two CPUs, root, the library and the program.
pub struct Place {
    /// Temporary folder.
    pub folder: TempDir,
    /// The preload library.
    pub library: PathBuf,
    /// The compiled program.
    pub program: PathBuf,
}

/// Compiles a program whose source is in the package's folder. If the machine cannot run the test, skips it and returns `None`.
pub fn with_program(test: &str, source: &str, flags: &[&str]) -> Option<Place> {
    root_with_two_cpus(test)?;
    let library = preload_library(test)?;
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("program");
    let source = Path::new(PACKAGE).join(source);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-pthread"]).args(flags);
    assert!(cc.arg(source).arg("-o").arg(&program).status().unwrap().success());
    Some(Place { folder, library, program })
}

impl Place {
    /// Returns a command that runs the program under cox with `threads` threads. `how` is the overlap option.
    pub fn cox(&self, how: &str, arguments: &[&str], threads: &str) -> Command {
        let mut command = self.cox_of(how, &self.program);
        command.args(arguments).env("OMP_NUM_THREADS", threads);
        command
    }

    /// Returns a command that runs another program under cox.
    pub fn cox_of(&self, how: &str, program: &Path) -> Command {
        let mut command = Command::new(COX);
        command.args(["run", "-q", "--json", &path(&self.folder, "report.json"), how, "--"]).arg(program);
        command.env("COX_PRELOAD", &self.library).stdin(Stdio::null());
        command
    }

    /// Runs the program under cox to its end.
    pub fn run(&self, how: &str, arguments: &[&str], threads: &str) -> Output {
        self.cox(how, arguments, threads).output().unwrap()
    }

    /// Returns the report's section on overlap.
    pub fn report(&self) -> Value {
        let text = fs::read_to_string(path(&self.folder, "report.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["overlap"].clone()
    }
}

/// Returns a number in the section.
pub fn number(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("{name} of {report}"))
}

/// Returns the problems in the section, as one text.
pub fn diagnostics(report: &Value) -> String {
    report["diagnostics"].to_string()
}
