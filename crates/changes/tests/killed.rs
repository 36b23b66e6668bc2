//! A real session on this machine's threads, killed: by itself and with its whole process group.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use machine::limits::{Who, allowed_cpus};
use machine::process::Task;
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
        let park = |_| {
            let gate = Arc::clone(&gate);
            thread::Builder::new().stack_size(64 << 10).spawn(move || _ = gate.wait()).unwrap()
        };
        Parked { threads: (0..THREADS).map(park).collect(), gate: Arc::clone(&gate) }
    }

    fn end(self) {
        self.gate.wait();
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn masks() -> BTreeSet<(u32, String)> {
    let tids = Task::own(&Root::live()).threads().unwrap();
    let mask = |tid| Some((tid, allowed_cpus(&Root::live(), Who::Task(tid)).ok()?.to_string()));
    tids.into_iter().filter_map(mask).collect()
}

/// One CPU of those this process may use.
fn one_cpu() -> CpuSet {
    allowed_cpus(&Root::live(), Who::Own).unwrap().iter().take(1).collect()
}

fn hold(folder: &TempDir) -> Child {
    let mut program: PathBuf = std::env::current_exe().unwrap();
    program.pop();
    program.pop();
    Command::new(program.join("examples/hold"))
        .args([folder.path().to_str().unwrap(), &one_cpu().to_string(), &std::process::id().to_string()])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cargo builds the example")
}

fn journals(folder: &TempDir) -> usize {
    let files = fs::read_dir(folder.path()).map_or(Vec::new(), |files| files.flatten().collect());
    files.iter().filter(|file| file.path().extension().is_some_and(|ending| ending == "journal")).count()
}

/// Until the masks are `wanted` again and the journal is settled; how long that took.
fn wait_for(wanted: &BTreeSet<(u32, String)>, folder: &TempDir) -> Duration {
    let since = Instant::now();
    while journals(folder) > 0 || masks() != *wanted {
        assert!(since.elapsed() < PATIENCE, "{} journals left in {:?}", journals(folder), folder.path());
        thread::sleep(Duration::from_millis(1));
    }
    since.elapsed()
}

#[test]
fn an_ended_session_leaves_nothing() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (parked, folder) = (Parked::new(), TempDir::new().unwrap());
    let before = masks();
    let mut holder = hold(&folder);
    let mut lines = BufReader::new(holder.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, format!("holding {}\n", before.len()));
    let held = one_cpu().to_string();
    assert!(masks().iter().all(|(_, mask)| *mask == held));
    drop(holder.stdin.take());
    line.clear();
    lines.read_to_string(&mut line).unwrap();
    assert_eq!((line, holder.wait().unwrap().code()), (format!("restored {}\n", before.len()), Some(0)));
    assert_eq!((masks(), journals(&folder)), (before, 0));
    parked.end();
}

#[test]
fn a_killed_session_leaves_nothing() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (parked, folder) = (Parked::new(), TempDir::new().unwrap());
    let before = masks();
    let mut slowest = Duration::ZERO;
    // Moments from before its first change to after its last.
    for moment in 0..40u32 {
        let mut holder = hold(&folder);
        thread::sleep(Duration::from_micros(1500) * moment);
        let pid = Pid::from_child(&holder);
        if moment % 2 == 0 {
            kill_process(pid, Signal::KILL).unwrap();
        } else {
            kill_process_group(pid, Signal::KILL).unwrap();
        }
        holder.wait().unwrap();
        slowest = slowest.max(wait_for(&before, &folder));
    }
    println!("{THREADS} threads were as before {slowest:?} after the kill at the latest");
    parked.end();
}
