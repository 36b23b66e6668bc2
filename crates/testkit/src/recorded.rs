//! Records with perf, and runs perf and `cox report` on the recording.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use report::Document;

use crate::built::COX;
use crate::measured::{Bench, bench};
use crate::run::on_one_line;
use crate::skip::{Need, installed, skip};

/// A workload with short-lived processes, sleeps, a pipe, work, and more processes than CPUs.
pub const WORKLOAD: &str =
    "for i in 1 2 3 4; do (sleep 0.02; ls / >/dev/null; head -c 4000000 /dev/zero | md5sum >/dev/null) & done; wait";

/// Takes the measuring lock. If perf is missing, skips the test and returns `None`.
pub fn perf_bench(test: &str) -> Option<Bench> {
    if installed(test, Need::Perf, "perf") { bench(test) } else { None }
}

/// Records the workload. If perf is not permitted to record, skips the test and returns `None`.
pub fn record(test: &str, bench: &Bench, options: &str) -> Option<PathBuf> {
    let file = bench.folder().join("perf.data");
    // With the option `pipe`, perf writes to a pipe. Its own messages are on stderr.
    let command = match options {
        "pipe" => format!("perf sched record -o - -- sh -c '{WORKLOAD}' | cat >'{}'", file.display()),
        _ => format!("perf sched record {options} -o '{}' -- sh -c '{WORKLOAD}'", file.display()),
    };
    let ran = Command::new("sh").args(["-c", &command]).output().unwrap();
    if !ran.status.success() || fs::metadata(&file).map_or(0, |found| found.len()) < 10_000 {
        let why = String::from_utf8_lossy(&ran.stderr);
        skip(test, Need::Perf, format_args!("perf sched record {options}: {}", why.lines().last().unwrap_or("failed")));
        return None;
    }
    Some(file)
}

/// Runs a command on a recording.
pub fn run(program: &str, arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.args(["120", program]).args(arguments).arg(file).env("PAGER", "cat");
    command.output().unwrap()
}

/// Returns the standard output and standard error of `cox report`.
pub fn cox(arguments: &[&str], file: &Path) -> (String, String) {
    let ran = run(COX, &[&["report"], arguments].concat(), file);
    let [out, err] = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(ran.status.success(), "{arguments:?}: {err}");
    (out, err)
}

/// Returns the output of perf.
pub fn perf(arguments: &[&str], file: &Path) -> String {
    let ran = run("perf", &[arguments, &["-i"]].concat(), file);
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// Returns the JSON of `cox report`, and its standard error.
pub fn document(file: &Path, bench: &Bench) -> (Document, String) {
    let json = bench.folder().join("account.json");
    let (_, err) = cox(&["-q", "--json", json.to_str().unwrap()], file);
    (serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap(), err)
}

/// Returns the lines of `timehist`, with single spaces.
pub fn lines(text: &str) -> Vec<String> {
    let all = text.lines().filter(|line| line.contains(" [") && !line.contains("[tid/pid]"));
    all.map(on_one_line).collect()
}
