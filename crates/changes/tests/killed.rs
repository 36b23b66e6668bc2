//! A real session that changes threads of this machine is killed: alone, and together with its process group.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use changes::{Knob, KnobIo, LiveKnobIo, Scheduling, Value};
use machine::limits::{Who, allowed_cpus};
use machine::{CpuSet, Root};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

/// The tests hold the threads of one process, this one.
static TURN: Mutex<()> = Mutex::new(());

const THREADS: usize = 1000;
const PATIENCE: Duration = Duration::from_secs(20);

/// Threads that do nothing until they are let go.
struct Parked {
    gate: Arc<Barrier>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Parked {
    fn new() -> Parked {
        let gate = Arc::new(Barrier::new(THREADS + 1));
        let for_all = Arc::clone(&gate);
        let park = move |_| {
            let gate = Arc::clone(&for_all);
            thread::Builder::new().stack_size(64 << 10).spawn(move || _ = gate.wait()).unwrap()
        };
        // From a thread in SCHED_OTHER, to be told from SCHED_IDLE, whatever the tests were started in.
        let start = move || {
            let knob_io = LiveKnobIo::new(Root::live());
            let knob =
                Knob::Scheduling(knob_io.thread(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap());
            let Value::Scheduling(now) = knob_io.read(&knob).unwrap() else { panic!("no scheduling") };
            knob_io.write(&knob, &Value::Scheduling(Scheduling { policy: 0, ..now })).unwrap();
            (0..THREADS).map(park).collect()
        };
        Parked { threads: thread::spawn(start).join().unwrap(), gate }
    }

    fn end(self) {
        self.gate.wait();
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// CPUs and scheduling class of each thread of a process.
fn states(pid: u32) -> BTreeSet<(u32, String)> {
    let knob_io = LiveKnobIo::new(Root::live());
    let state = |tid| {
        let thread = knob_io.thread(tid).ok()?;
        let cpus = knob_io.read(&Knob::Affinity(thread)).ok()?;
        let Value::Scheduling(scheduling) = knob_io.read(&Knob::Scheduling(thread)).ok()? else { return None };
        Some((tid, format!("{cpus} {}", scheduling.policy)))
    };
    knob_io.threads_of(knob_io.thread(pid).unwrap()).unwrap().into_iter().filter_map(state).collect()
}

fn own_states() -> BTreeSet<(u32, String)> {
    states(std::process::id())
}

/// One CPU of those this process may use.
fn one_cpu() -> CpuSet {
    allowed_cpus(&Root::live(), Who::Own).unwrap().iter().take(1).collect()
}

fn example(name: &str) -> Command {
    let mut program: PathBuf = std::env::current_exe().unwrap();
    program.pop();
    program.pop();
    let mut command = Command::new(program.join("examples").join(name));
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn hold(folder: &TempDir, pid: u32) -> Child {
    let arguments = [folder.path().to_str().unwrap(), &one_cpu().to_string(), &pid.to_string()];
    example("hold").args(arguments).spawn().expect("cargo builds the example")
}

fn journals(folder: &TempDir) -> usize {
    let files = fs::read_dir(folder.path()).map_or(Vec::new(), |files| files.flatten().collect());
    files.iter().filter(|file| file.path().extension().is_some_and(|ending| ending == "journal")).count()
}

/// Until the journal is settled: then nothing is left to be done. How long that took.
fn wait_for_undo(folder: &TempDir) -> Duration {
    let since = Instant::now();
    while journals(folder) > 0 {
        assert!(since.elapsed() < PATIENCE, "a journal is left in {:?}", folder.path());
        thread::sleep(Duration::from_millis(1));
    }
    since.elapsed()
}

/// By itself, or with its whole process group.
fn kill(mut holder: Child, with_group: bool) {
    let pid = Pid::from_child(&holder);
    if with_group { kill_process_group(pid, Signal::KILL) } else { kill_process(pid, Signal::KILL) }.unwrap();
    holder.wait().unwrap();
}

#[test]
fn an_ended_session_leaves_nothing() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (parked, folder) = (Parked::new(), TempDir::new().unwrap());
    let before = own_states();
    let mut holder = hold(&folder, std::process::id());
    let mut lines = BufReader::new(holder.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, format!("holding {}\n", before.len()));
    let held = Value::Cpus(one_cpu()).to_string();
    assert!(own_states().iter().all(|(_, state)| state.starts_with(&held)));
    drop(holder.stdin.take());
    line.clear();
    lines.read_to_string(&mut line).unwrap();
    assert!(line.starts_with("restored ") && line.ends_with(" left 0\n"), "{line}");
    assert_eq!(holder.wait().unwrap().code(), Some(0));
    assert_eq!((own_states(), journals(&folder)), (before, 0));
    parked.end();
}

#[test]
fn a_killed_session_leaves_nothing() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (parked, folder) = (Parked::new(), TempDir::new().unwrap());
    let before = own_states();
    let mut slowest = Duration::ZERO;
    // Moments from before its first change to after its last, and while it moves them.
    for moment in 0..40u32 {
        let holder = hold(&folder, std::process::id());
        thread::sleep(Duration::from_millis(6) * moment);
        kill(holder, moment % 2 == 1);
        slowest = slowest.max(wait_for_undo(&folder));
        assert_eq!(own_states(), before, "{moment}");
    }
    println!("{THREADS} threads were as before {slowest:?} after the kill at the latest");
    parked.end();
}

/// A program whose threads come and go.
struct Churn {
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Drop for Churn {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Churn {
    fn new() -> Churn {
        let mut process = example("churn").spawn().expect("cargo builds the example");
        let answers = BufReader::new(process.stdout.take().unwrap());
        Churn { process, answers }
    }

    /// Threads born since the last question, and those of them that were not as the program began.
    fn births(&mut self) -> (u64, u64) {
        writeln!(self.process.stdin.as_mut().unwrap()).unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let (births, strangers) = line.trim().split_once(' ').unwrap();
        (births.parse().unwrap(), strangers.parse().unwrap())
    }

    /// Until so many have been born; how many of them were not as the program began.
    fn wait_for_births(&mut self, wanted: u64) -> u64 {
        let (since, mut births, mut strangers) = (Instant::now(), 0, 0);
        while births < wanted {
            assert!(since.elapsed() < PATIENCE, "{births} were born");
            thread::sleep(Duration::from_millis(5));
            let more = self.births();
            (births, strangers) = (births + more.0, strangers + more.1);
        }
        strangers
    }
}

#[test]
fn threads_that_are_born_while_a_session_is_killed_have_nothing_of_it() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (mut churn, folder) = (Churn::new(), TempDir::new().unwrap());
    let pid = churn.process.id();
    assert_eq!(churn.wait_for_births(10), 0);
    let (_, before) = states(pid).pop_first().unwrap();
    let (mut slowest, mut inherited) = (Duration::ZERO, 0);
    for moment in 0..40u32 {
        let holder = hold(&folder, pid);
        thread::sleep(Duration::from_millis(3) * moment);
        kill(holder, moment % 2 == 1);
        slowest = slowest.max(wait_for_undo(&folder));
        let others: Vec<_> = states(pid).into_iter().filter(|(_, state)| *state != before).collect();
        assert!(others.is_empty(), "not {before}: {others:?}, {moment}");
        inherited += churn.births().1;
        assert_eq!(churn.wait_for_births(10), 0, "{moment}");
    }
    assert!(inherited > 0, "no thread was born while the program was packed");
    println!("a program with newborn threads was as before {slowest:?} after the kill at the latest");
}
