//! Recording with perf, and what perf and `cox report` say of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use report::Document;

use crate::built::COX;
use crate::measured::{Bench, bench};
use crate::skip::{Need, installed, skip};

/// Short lives, sleeps, a pipe, work, and more threads than CPUs.
pub const WORKLOAD: &str =
    "for i in 1 2 3 4; do (sleep 0.02; ls / >/dev/null; head -c 4000000 /dev/zero | md5sum >/dev/null) & done; wait";

/// perf, and a lock on the machine; `None` where it is missing.
pub fn perf_bench(test: &str) -> Option<Bench> {
    if installed(test, Need::Perf, "perf") { bench(test) } else { None }
}

/// Records the workload; `None`, and a line that names the test, where perf may not.
pub fn record(test: &str, bench: &Bench, options: &str) -> Option<PathBuf> {
    let file = bench.folder().join("perf.data");
    // To a pipe if it is wanted; perf says on stderr what it does.
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

/// What cox prints, and on stderr.
pub fn cox(arguments: &[&str], file: &Path) -> (String, String) {
    let ran = run(COX, &[&["report"], arguments].concat(), file);
    let [out, err] = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(ran.status.success(), "{arguments:?}: {err}");
    (out, err)
}

/// What perf prints.
pub fn perf(arguments: &[&str], file: &Path) -> String {
    let ran = run("perf", &[arguments, &["-i"]].concat(), file);
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// The JSON of `cox report`, and what it prints on stderr.
pub fn document(file: &Path, bench: &Bench) -> (Document, String) {
    let json = bench.folder().join("account.json");
    let (_, err) = cox(&["-q", "--json", json.to_str().unwrap()], file);
    (serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap(), err)
}

/// Lines of `timehist`.
pub fn lines(text: &str) -> Vec<String> {
    let all = text.lines().filter(|line| line.contains(" [") && !line.contains("[tid/pid]"));
    all.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}
