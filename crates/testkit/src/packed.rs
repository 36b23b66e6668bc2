//! Starts `cox pack` on programs, and reads their affinity masks.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use machine::limits::{Who, allowed_cpus};
use machine::process::Task;
use machine::{CpuSet, Root};
use serde_json::Value;
use tempfile::TempDir;

use crate::run::{COX, Ran, innermost, path, root_with_two_cpus, run, wait_for, workload};

/// A folder for the journals of one test, so that tests do not see each other's journals.
pub struct Place(pub TempDir);

impl Place {
    /// Makes a new folder.
    #[allow(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Place {
        Place(TempDir::new().unwrap())
    }

    /// Returns the folder of the journals.
    pub fn folder(&self) -> PathBuf {
        self.0.path().join("changes")
    }

    /// Returns the command `cox VERB ARGUMENTS`.
    pub fn verb(&self, verb: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(COX);
        command.arg(verb).args(arguments).env("COX_CHANGES", self.folder()).stdin(Stdio::null());
        command
    }

    /// Returns the command `cox pack ARGUMENTS`.
    pub fn cox(&self, arguments: &[&str]) -> Command {
        self.verb("pack", arguments)
    }

    /// Runs `cox pack ARGUMENTS` to its end.
    pub fn pack(&self, arguments: &[&str]) -> Ran {
        run(&mut self.cox(arguments))
    }

    /// Runs `cox pack ARGUMENTS` to its end. Also returns its report.
    pub fn packed(&self, arguments: &[&str]) -> (Ran, Value) {
        let json = path(&self.0, "report.json");
        let all: Vec<&str> = ["-q", "--json", &json].iter().chain(arguments).copied().collect();
        let ran = self.pack(&all);
        let report = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        (ran, report)
    }

    /// Returns the number of journals.
    pub fn journals(&self) -> usize {
        let Ok(files) = fs::read_dir(self.folder()) else { return 0 };
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "journal")).count()
    }
}

/// A running program, which is killed when the value is dropped, and its process ID.
pub struct Runs(pub Child, u32);

impl Runs {
    /// Starts any program.
    pub fn start(arguments: &[&str]) -> Runs {
        let child = Command::new(arguments[0]).args(&arguments[1..]).stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        Runs(child, pid)
    }

    /// Starts three threads that spin while they wait for each other.
    pub fn spinning(rounds: &str) -> Runs {
        Runs::spinning_inside(&[], rounds)
    }

    /// Same as [`Runs::spinning`], but the command `inside` starts the program.
    pub fn spinning_inside(inside: &[&str], rounds: &str) -> Runs {
        let program = workload("barriers");
        let fixed = ["--threads", "3", "--work-us", "300", "--wait", "spin", "--iterations-per-us", "300", "--rounds"];
        let mut runs = Runs::start(&[inside, &[program.as_str()], &fixed, &[rounds]].concat());
        runs.1 = innermost(runs.0.id(), inside);
        runs.wait_for_threads(3);
        runs
    }

    /// Waits until the program has `count` threads.
    pub fn wait_for_threads(&self, count: usize) {
        wait_for("all threads", || (self.masks().len() == count).then_some(()));
    }

    /// Returns the process ID as an argument.
    pub fn pid(&self) -> String {
        self.1.to_string()
    }

    /// Returns the affinity mask of each thread.
    pub fn masks(&self) -> BTreeMap<u32, CpuSet> {
        let root = Root::live();
        let threads = Task::process(&root, self.1).threads().unwrap_or_default();
        threads.into_iter().filter_map(|tid| Some((tid, allowed_cpus(&root, Who::Task(tid)).ok()?))).collect()
    }

    /// Returns whether all masks equal those from before.
    pub fn is_as(&self, before: &BTreeMap<u32, CpuSet>) -> bool {
        self.masks() == *before
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the CPUs that this process may use, and two of them as a list. If the machine cannot run the test, skips it and returns `None`.
pub fn two_cpus(test: &str) -> Option<(CpuSet, String)> {
    let allowed = root_with_two_cpus(test)?;
    let two: CpuSet = allowed.iter().take(2).collect();
    let list = two.to_string();
    Some((allowed, list))
}
