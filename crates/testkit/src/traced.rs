//! Runs with all traces, and the sums that readers of each trace compute.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ledger::account::Thread;
use report::Document;
use serde_json::Value;

pub use crate::built::COX;
use crate::built::{PACKAGE, TARGET};
use crate::measured::{Bench, assert_none};
use crate::skip::{Need, skip};

/// A thread's times by state, and its blocked time by cause.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Run, wake delay, preempt wait, blocked; ns.
    pub states: [u64; 4],
    /// Blocked, by cause; ns.
    pub blocked_by: BTreeMap<String, u64>,
}

/// The output of a run.
pub struct Traced {
    /// The parsed JSON.
    pub document: Document,
    /// The report on stderr.
    pub report: String,
    /// Path of the trace for Perfetto.
    pub perfetto: PathBuf,
    /// Path of Paraver's files, without their extensions.
    pub paraver: PathBuf,
}

/// Runs a program with all traces.
pub fn trace(bench: &Bench, options: &[&str], program: &[&str]) -> Traced {
    let at = |name: &str| bench.folder().join(name);
    let mut command = Command::new("timeout");
    command.args(["--foreground", "120", COX, "run", "--json"]).arg(at("cox.json"));
    command.arg("--trace").arg(at("cox.pftrace")).arg("--paraver").arg(at("cox"));
    command.args(options).arg("--").args(program).current_dir(bench.folder());
    let output = succeeded(&mut command);
    let document = serde_json::from_slice(&fs::read(at("cox.json")).expect("the account")).expect("a document");
    Traced { document, report: report_in(&output.stderr), perfetto: at("cox.pftrace"), paraver: at("cox") }
}

/// Runs a command, and asserts that it succeeds.
pub fn succeeded(command: &mut Command) -> Output {
    let output = command.output().expect("start");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    output
}

/// Returns the text from the beginning of the report on.
pub fn report_in(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).into_owned();
    text.find("cox: ").map(|at| text[at..].to_owned()).expect("a report")
}

/// Returns the path of a workload.
pub fn workload(name: &str) -> String {
    Path::new(TARGET).join("workloads").join(name).display().to_string()
}

impl Traced {
    /// Returns all threads.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        ledger::summary::threads(&self.document.account)
    }

    /// Returns the sums of the account, by thread ID. IDs that were reused within the run are omitted.
    pub fn account(&self) -> BTreeMap<u32, Sums> {
        let mut all: BTreeMap<u32, Vec<Sums>> = BTreeMap::new();
        for thread in self.threads() {
            let states = [thread.run_ns, thread.wake_delay_ns, thread.preempt_wait_ns, thread.blocked_ns];
            let blocked_by = thread.blocked_by.some().map(|(cause, ns)| (cause.name().to_owned(), ns)).collect();
            all.entry(thread.tid).or_default().push(Sums { states, blocked_by });
        }
        all.into_iter()
            .filter_map(|(tid, mut lives)| lives.pop().filter(|_| lives.is_empty()).map(|one| (tid, one)))
            .collect()
    }
}

/// Returns where two sources differ by more than a thousandth of a thread's time.
pub fn differences(source: &str, account: &BTreeMap<u32, Sums>, told: &BTreeMap<u32, Sums>) -> Vec<String> {
    let mut faults = Vec::new();
    for (tid, expected) in account {
        let Some(told) = told.get(tid) else {
            faults.push(format!("{source}: no thread {tid}"));
            continue;
        };
        let limit = expected.states.iter().sum::<u64>() / 1000;
        let states = expected.states.iter().zip(told.states).map(|(a, b)| a.abs_diff(b)).max();
        let causes =
            expected.blocked_by.iter().map(|(cause, ns)| told.blocked_by.get(cause).unwrap_or(&0).abs_diff(*ns)).max();
        if states.max(causes).unwrap_or(0) > limit {
            faults.push(format!("{source}: {tid}: {expected:?}, told {told:?}"));
        }
    }
    faults
}

/// Computes the sums with Perfetto's classes. If they are not installed, skips the test and returns `None`.
pub fn by_perfetto(test: &str, trace: &Path) -> Option<(BTreeMap<u32, Sums>, Value)> {
    let classes = Path::new(TARGET).join("python");
    if !classes.join("perfetto").is_dir() {
        skip(test, Need::Python, "needs Perfetto's protobuf classes (make python-packages)");
        return None;
    }
    let reader = Path::new(PACKAGE).join("tests/programs/perfetto_sums.py");
    let output = succeeded(Command::new("python3").env("PYTHONPATH", &classes).arg(reader).arg(trace));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let number = |of: &Value, key: &str| of[key].as_u64().unwrap_or(0);
    let threads = told["threads"].as_object().expect("threads").iter().map(|(tid, sums)| {
        let states = ["run", "wake_delay", "preempt_wait", "blocked"].map(|state| number(sums, state));
        let causes = sums.as_object().expect("sums").iter();
        let causes = causes.filter_map(|(key, ns)| Some((key.strip_prefix("blocked ")?.to_owned(), ns.as_u64()?)));
        (tid.parse().expect("a thread id"), Sums { states, blocked_by: causes.collect() })
    });
    let threads = threads.collect();
    Some((threads, told))
}

/// Returns the same sums, computed from the slices on the threads' tracks.
pub fn by_slices(told: &Value) -> BTreeMap<u32, Sums> {
    let threads = told["slices"].as_object().expect("slices").iter().map(|(tid, slices)| {
        let mut sums = Sums::default();
        for (name, ns) in slices.as_object().expect("names") {
            let ns = ns.as_u64().expect("a length");
            match name.as_str() {
                "running" => sums.states[0] += ns,
                "runnable (woken)" => sums.states[1] += ns,
                "runnable (preempted)" | "runnable (yielded)" => sums.states[2] += ns,
                "unknown" => {}
                spinning if spinning.starts_with("spinning (sampled): ") => {}
                blocked => {
                    let cause = blocked.strip_prefix("blocked (").and_then(|cause| cause.strip_suffix(')'));
                    sums.states[3] += ns;
                    *sums.blocked_by.entry(cause.unwrap_or_else(|| panic!("{blocked}")).to_owned()).or_default() += ns;
                }
            }
        }
        (tid.parse().expect("a thread id"), sums)
    });
    threads.collect()
}

/// Calls `take` for each state in Paraver's files, with the thread id, the state's name and its length in ns. Parses the files as the format's manual
/// specifies.
fn states_by_paraver(prefix: &Path, mut take: impl FnMut(u32, &str, u64)) {
    let read = |ending: &str| fs::read_to_string(prefix.with_extension(ending)).expect("read");
    let (prv, pcf, row) = (read("prv"), read("pcf"), read("row"));
    let header = prv.lines().next().expect("a header");
    // Number of threads of each task.
    let tasks = header.rsplit_once('(').expect("tasks").1.trim_end_matches(')');
    let tasks: Vec<usize> =
        tasks.split(',').map(|task| task.split_once(':').expect("a node").0.parse().expect("threads")).collect();
    let names: Vec<&str> =
        row.split("LEVEL THREAD SIZE").nth(1).expect("threads").lines().skip(1).take(tasks.iter().sum()).collect();
    let tid_of = |task: usize, thread: usize| -> u32 {
        let at = tasks[..task - 1].iter().sum::<usize>() + thread - 1;
        names[at].split(' ').next().expect("an id").parse().expect("a thread id")
    };
    let meaning: BTreeMap<u32, &str> = pcf
        .split("STATES\n")
        .nth(1)
        .expect("states")
        .lines()
        .map_while(|line| line.split_once("    "))
        .map(|(number, name)| (number.parse().expect("a state"), name))
        .collect();
    let mut last = 0;
    let metadata = prv.lines().skip(1).take_while(|line| line.starts_with('#')).count();
    for line in prv.lines().skip(1 + metadata) {
        let fields: Vec<u64> = line.split(':').map(|field| field.parse().expect("a number")).collect();
        assert!(fields[5] >= last, "records are in order of time: {line}");
        last = fields[5];
        if fields[0] == 1 {
            let tid = tid_of(fields[3] as usize, fields[4] as usize);
            take(tid, meaning[&(fields[7] as u32)], fields[6] - fields[5]);
        }
    }
}

/// Computes the sums from Paraver's files.
pub fn by_paraver(prefix: &Path) -> BTreeMap<u32, Sums> {
    let mut sums: BTreeMap<u32, Sums> = BTreeMap::new();
    states_by_paraver(prefix, |tid, state, length| {
        let sums = sums.entry(tid).or_default();
        match state {
            "Run" => sums.states[0] += length,
            "Wake delay" => sums.states[1] += length,
            "Preempted" | "Yielded" => sums.states[2] += length,
            "Unknown" => {}
            blocked => {
                sums.states[3] += length;
                *sums.blocked_by.entry(blocked.strip_prefix("Blocked: ").expect("a cause").to_owned()).or_default() +=
                    length;
            }
        }
    });
    sums
}

/// Lengths of wake delays, preempt waits, blocks and time slices, in this order, in ns.
#[derive(Clone, Debug, Default)]
pub struct Intervals(pub [Vec<u64>; 4]);

impl Intervals {
    /// Adds the intervals of another thread.
    pub fn extend(&mut self, other: &Intervals) {
        self.0.iter_mut().zip(&other.0).for_each(|(all, one)| all.extend(one));
    }
}

/// Returns the intervals in Paraver's files by thread id. The files do not contain intervals of 0 ns.
pub fn intervals_by_paraver(prefix: &Path) -> BTreeMap<u32, Intervals> {
    let mut all: BTreeMap<u32, Intervals> = BTreeMap::new();
    states_by_paraver(prefix, |tid, state, length| {
        let kind = match state {
            "Wake delay" => 0,
            "Preempted" | "Yielded" => 1,
            "Run" => 3,
            "Unknown" => return,
            _ => 2,
        };
        all.entry(tid).or_default().0[kind].push(length);
    });
    all
}

/// Asserts that all sources agree and no event was lost.
pub fn agree(test: &str, traced: &Traced) {
    let account = traced.account();
    assert!(!account.is_empty());
    assert_eq!(traced.document.lost_events, 0, "{:?}", traced.document.account.lost);
    let mut faults = differences("Paraver", &account, &by_paraver(&traced.paraver));
    if let Some((perfetto, told)) = by_perfetto(test, &traced.perfetto) {
        faults.extend(differences("Perfetto", &account, &perfetto));
        faults.extend(differences("slices", &account, &by_slices(&told)));
        let lines = told["lines"].as_object().expect("lines");
        assert_eq!(lines.len(), 3);
        for (name, unit) in lines {
            let unit = unit.as_str().expect("a unit");
            assert!(["CPUs", "threads"].contains(&unit) && name.ends_with(&format!("({unit})")), "{name}: {unit}");
        }
        assert_eq!(told["bundles with losses"], 0);
        assert!(told["points of counters"].as_u64() > Some(0));
    }
    assert_none(&faults);
}
