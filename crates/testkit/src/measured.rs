//! Running a program under `cox run`, for tests that compare its account with what else is known.
//!
//! Measuring tests take turns, also across test binaries: each holds a lock while it runs.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use ledger::account::Thread;
use report::Document;
use serde_json::Value;
use tempfile::TempDir;

use crate::built::{COX, TARGET, temporary, turn, without_make, workload};
use crate::skip::is_root;

/// Variables of a test program that runs once more for another user: a folder of theirs, with workloads in it, and the words that start their cox,
/// one on a line.
pub const FOLDER: &str = "COX_TEST_FOLDER";
/// See [`FOLDER`].
pub const COMMAND: &str = "COX_TEST_COMMAND";

/// On how many CPUs the kernel's run delay means what cox calls waiting for a CPU. On more,
///
/// - a thread woken on another, idle CPU is put on a run queue there, when that CPU has come out of
///   idleness and taken the interrupt: 20 to 60 us in a virtual machine, which are waiting to cox and
///   nothing to the kernel;
/// - since Linux 6.12 a thread that blocks may stay on its run queue for a while (delayed dequeue), and
///   when the load balancer moves it, all its sleep from there on is run delay to the kernel.
pub const ONE_CPU: usize = 1;

/// The machine to oneself, as far as other tests of this kind go, and a folder that goes away.
pub struct Bench {
    folder: TempDir,
    _turn: File,
}

/// What `cox run` said about a program that exited with 0.
pub struct Seen {
    /// The JSON, as it came.
    pub json: Value,
    /// The same, read.
    pub document: Document,
    /// The report on stderr.
    pub report: String,
    /// The program's own output.
    pub stdout: String,
}

/// Waits for its turn; `None`, and a line that names the test, where the machine cannot run it.
pub fn bench(test: &str) -> Option<Bench> {
    if !is_root(test) {
        return None;
    }
    let turn = turn();
    // Builds all of them.
    let _ = workload("");
    let folder = match std::env::var_os(FOLDER) {
        None => TempDir::new_in(temporary()),
        Some(place) => tempfile::Builder::new().permissions(Permissions::from_mode(0o777)).tempdir_in(place),
    };
    let folder = folder.expect("create a folder");
    if std::env::var_os(FOLDER).is_some() {
        // The umask had a word in it.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("chmod");
    }
    Some(Bench { folder, _turn: turn })
}

impl Bench {
    /// The test's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a program under cox. `within`: a command line that starts cox, for what cox and the program
    /// shall both be in; may be empty.
    pub fn watch<S: AsRef<OsStr>>(&self, within: &[String], program: &[S]) -> Seen {
        let json = self.folder().join("cox.json");
        let cox = std::env::var(COMMAND).unwrap_or_else(|_| COX.to_owned());
        // What hangs shall fail: cox hands the signal down.
        let mut command = Command::new("timeout");
        command.args(["--foreground", "120"]).args(within).args(cox.split('\n'));
        command.args(["run", "--backend", "bpf", "--json"]).arg(&json).arg("--").args(program);
        command.current_dir(self.folder());
        let output = without_make(&mut command).output().expect("start cox");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
        let report = stderr.find("cox: ").map(|at| stderr[at..].to_owned()).expect("a report on stderr");
        let text = fs::read_to_string(&json).expect("read the account");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let document = serde_json::from_str(&text).expect("a document");
        Seen { json, document, report, stdout }
    }

    /// Runs a workload under cox and returns the truth it wrote.
    pub fn watch_workload(&self, within: &[String], name: &str, arguments: &[&str]) -> (Seen, Value) {
        self.watch_workload_in(within, &[], name, arguments)
    }

    /// … `inside` of what another command makes, which cox starts.
    pub fn watch_workload_in(
        &self,
        within: &[String],
        inside: &[&str],
        name: &str,
        arguments: &[&str],
    ) -> (Seen, Value) {
        let truth = self.folder().join("truth.json");
        let mut program: Vec<OsString> = inside.iter().map(OsString::from).collect();
        let workloads = std::env::var_os(FOLDER).unwrap_or_else(|| format!("{TARGET}/workloads").into());
        program.push(Path::new(&workloads).join(name).into_os_string());
        program.extend(arguments.iter().map(OsString::from));
        program.extend(["--truth".into(), truth.clone().into_os_string()]);
        let seen = self.watch(within, &program);
        (seen, serde_json::from_slice(&fs::read(&truth).expect("read the truth")).expect("JSON"))
    }
}

/// A command line that starts another one on the first `count` CPUs; empty where there are no more.
pub fn on_cpus(count: usize) -> Vec<String> {
    let allowed = rustix::thread::sched_getaffinity(None).expect("sched_getaffinity");
    let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let cpus: Vec<String> = cpus.take(count + 1).map(|cpu| cpu.to_string()).collect();
    if cpus.len() <= count { Vec::new() } else { vec!["taskset".into(), "-c".into(), cpus[..count].join(",")] }
}

impl Seen {
    /// All threads of all processes.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.document.account.programs.iter().flat_map(|p| &p.processes).flat_map(|p| &p.threads)
    }

    /// The thread with this tid, as it knows it itself.
    pub fn thread(&self, tid: u64) -> &Thread {
        let own = |thread: &&Thread| u64::from(thread.inner_tid.unwrap_or(thread.tid)) == tid;
        self.threads().find(own).unwrap_or_else(|| panic!("no thread {tid}"))
    }

    /// What must hold after every run: nothing lost, and no thread's time unknown. Every thread was born
    /// under cox, so 0.1 % of its wall is the most that may be.
    pub fn faults(&self) -> Vec<String> {
        let account = &self.document.account;
        let mut faults = Vec::new();
        if self.document.lost_events > 0 {
            faults.push(format!("lost: {:?}", account.lost));
        }
        for thread in self.threads() {
            if thread.unknown_ns * 1000 > thread.wall_ns {
                let Thread { tid, comm, unknown_ns, wall_ns, .. } = thread;
                faults.push(format!("{tid} {comm}: {unknown_ns} ns of {wall_ns} ns unknown"));
            }
            if thread.impossible > 0 {
                faults.push(format!("{} {}: {} impossible events", thread.tid, thread.comm, thread.impossible));
            }
        }
        faults
    }
}

/// A number of a truth.
pub fn number(truth: &Value, key: &str) -> u64 {
    truth[key].as_u64().unwrap_or_else(|| panic!("no {key} in {truth}"))
}

/// The thread objects of a truth.
pub fn threads_of(truth: &Value) -> &[Value] {
    truth["threads"].as_array().expect("threads in the truth")
}

/// Fails when `attempt` finds faults. Where the hypervisor takes a CPU away, clocks that are read one after
/// another disagree, and an attempt with faults is repeated, after a pause in which its other guests may calm down; on a
/// machine that is left alone the first counts.
pub fn assert_undisturbed(mut attempt: impl FnMut() -> Vec<String>) {
    for _ in 0..8 {
        let before = stolen_ticks();
        let faults = attempt();
        let stolen = stolen_ticks() - before;
        if faults.is_empty() || stolen == 0 {
            return assert_none(&faults);
        }
        println!("again: the hypervisor took {stolen} ticks: {}", faults.join("\n"));
        sleep(Duration::from_secs(1));
    }
    assert_none(&attempt());
}

/// Ticks in which the hypervisor ran something else, over all CPUs: proc_stat(5), the eighth number.
fn stolen_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("read /proc/stat");
    let ticks = stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok());
    ticks.expect("a number in /proc/stat")
}

/// For how long the hypervisor has run something else, over all CPUs.
pub fn stolen() -> Duration {
    Duration::from_secs(stolen_ticks()) / rustix::param::clock_ticks_per_second() as u32
}

/// Fails with all faults at once.
pub fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
