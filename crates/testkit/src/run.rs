//! Runs programs with and without cox, for tests of cases that are difficult for tools that follow programs.
//!
//! Nothing here waits forever: a process that has not ended after `PATIENCE` is killed and fails the test.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use machine::limits::{Who, allowed_cpus};
use machine::{CpuSet, Root};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tempfile::TempDir;

use crate::built::without_make;
pub use crate::built::{COX, preload_library, turn, workload};
pub use crate::skip::is_root;
use crate::skip::{Need, has};
pub use crate::user::{NOBODY, as_user};

/// Time limit, far longer than anything here takes: a test that reaches it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The results of a command.
#[derive(Debug)]
pub struct Ran {
    /// Exit code as a shell reports it: 128 + n for signal n.
    pub code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
    /// Wall time from before the start to after the end.
    pub wall: Duration,
}

impl Ran {
    /// Returns the standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Asserts that exit code and output equal those of another run.
    pub fn assert_same_as(&self, other: &Ran) {
        assert_eq!(self.code, other.code, "exit codes; stderr: {}", self.stderr);
        assert_eq!(self.text(), other.text(), "standard output");
        assert_eq!(self.stderr, other.stderr, "standard error");
    }
}

/// Runs a command to its end. Its output goes to files, so that no process blocks on a pipe.
pub fn run(command: &mut Command) -> Ran {
    let (mut stdout, mut stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
    let begin = Instant::now();
    let mut child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
    let status = end_of(&mut child);
    let wall = begin.elapsed();
    Ran { code: shell_code(status), stdout: all_of(&mut stdout), stderr: text_of(&mut stderr), wall }
}

/// Waits for a child to end.
pub fn end_of(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("process {} hangs", child.id());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the exit code as a shell reports it.
pub fn shell_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

fn all_of(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

fn text_of(file: &mut File) -> String {
    String::from_utf8_lossy(&all_of(file)).into_owned()
}

/// Returns the command `cox run OPTIONS -- PROGRAM`, or the program alone if `options` is `None`.
pub fn command<S: AsRef<OsStr>>(options: Option<&[&str]>, program: &[S]) -> Command {
    let mut words: Vec<&OsStr> = Vec::new();
    if let Some(options) = options {
        words.extend([COX, "run"].map(OsStr::new));
        words.extend(options.iter().map(OsStr::new));
        words.push(OsStr::new("--"));
    }
    words.extend(program.iter().map(AsRef::as_ref));
    let mut command = Command::new(words[0]);
    without_make(&mut command).args(&words[1..]).stdin(Stdio::null());
    command
}

/// Returns the command `WRAPPER COMMAND`, with the command's environment and working directory: `wrapper` is a program that replaces itself, such as
/// taskset, and its options.
pub fn through(wrapper: &[&str], command: &Command) -> Command {
    let mut wrapped = Command::new(wrapper[0]);
    wrapped.args(&wrapper[1..]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    command.get_current_dir().into_iter().for_each(|folder| _ = wrapped.current_dir(folder));
    wrapped
}

/// Returns a text whose lines were wrapped on one line, with one space between two words.
pub fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs a program with and without cox (with `-q` and `options`), and asserts that exit code and output are the same. Returns the run under cox.
pub fn both_ways<S: AsRef<OsStr>>(options: &[&str], program: &[S]) -> Ran {
    let plain = run(&mut command(None, program));
    let observed = run(&mut command(Some(&[&["-q"], options].concat()), program));
    observed.assert_same_as(&plain);
    observed
}

/// Polls until `what` returns a value.
pub fn wait_for<T>(subject: &str, mut what: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = what() {
            return value;
        }
        assert!(Instant::now() < deadline, "timed out waiting for: {subject}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a signal to a process.
pub fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap_or_else(|error| panic!("kill {pid}: {error}"));
}

/// Returns the state letter of a process, or `None` if it has ended or is a zombie.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next().filter(|state| !"ZX".contains(*state))
}

/// Returns the children of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Returns the process ID, as seen here, of a program that was started by the command `inside` (nothing, or a container's). The process `started`
/// runs that command, so it is the program's parent.
pub fn innermost(started: u32, inside: &[&str]) -> u32 {
    if inside.is_empty() {
        return started;
    }
    // Between fork and exec the child still has the command's name.
    let is_program =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() != inside[0]);
    wait_for("the program inside", || children(started).first().copied().filter(is_program))
}

/// Prints a line to stderr, past the test harness, which hides the output of passing tests.
pub fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Makes a temporary folder that all users can enter.
pub fn open_folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Returns the path of a file in a folder, as text.
pub fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).into_os_string().into_string().unwrap()
}

/// Returns the CPUs that this process may use. If it is not root or has fewer than two CPUs, skips the test and returns `None`.
pub fn root_with_two_cpus(test: &str) -> Option<CpuSet> {
    if !is_root(test) {
        return None;
    }
    let allowed = allowed_cpus(&Root::live(), Who::Own).unwrap();
    has(allowed.len() >= 2, test, Need::Cpus, "needs two CPUs").then_some(allowed)
}

/// The part of the JSON that these tests use.
#[derive(Debug, Deserialize)]
pub struct Account {
    /// The backend.
    pub backend: String,
    /// Number of scheduler events.
    pub events: u64,
    /// Losses.
    pub lost: Lost,
    /// The programs; one in these tests.
    pub programs: Vec<Program>,
}

/// The counters of lost threads.
#[derive(Debug, Deserialize)]
pub struct Lost {
    /// Number of threads that could not be tracked.
    pub members: u64,
    /// Number of threads whose final clocks were lost.
    pub finals: u64,
}

/// A program in the account.
#[derive(Debug, Deserialize)]
pub struct Program {
    /// Wall time of the program.
    pub wall_ns: u64,
    /// The program's processes.
    pub processes: Vec<Process>,
}

/// A process in the account.
#[derive(Debug, Deserialize)]
pub struct Process {
    /// Process ID.
    pub pid: u32,
    /// Name of the process.
    pub comm: String,
    /// The process's threads.
    pub threads: Vec<Thread>,
}

/// A thread in the account.
#[derive(Debug, Deserialize)]
pub struct Thread {
    /// Thread ID.
    pub tid: u32,
    /// Name of the thread.
    pub comm: String,
    /// True if the thread still existed at the end.
    pub alive: bool,
    /// Time from birth to end.
    pub wall_ns: u64,
    /// Time on a CPU.
    pub run_ns: u64,
    /// Time from waking to running.
    pub wake_delay_ns: u64,
    /// Time from preemption to running.
    pub preempt_wait_ns: u64,
    /// Time blocked.
    pub blocked_ns: u64,
    /// Time blocked, by cause.
    pub blocked_by: std::collections::BTreeMap<String, u64>,
    /// Time in an unknown state.
    pub unknown_ns: u64,
    /// Number of contradictory events.
    pub impossible: u64,
}

impl Account {
    /// Reads the file that `--json` wrote.
    pub fn read(file: impl AsRef<Path>) -> Account {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.as_ref().display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.as_ref().display()))
    }

    /// Returns all threads.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.programs.iter().flat_map(|program| &program.processes).flat_map(|process| &process.threads)
    }

    /// Returns the number of threads of which cox knew: those in the account and those that it reports as lost.
    pub fn threads_counted(&self) -> u64 {
        self.threads().count() as u64 + self.lost.finals + self.lost.members
    }

    /// Asserts that each thread's states add up to its wall time within 0.1 % or 1 µs, and that no event was contradictory.
    pub fn assert_sums(&self) {
        for thread in self.threads() {
            let states =
                thread.run_ns + thread.wake_delay_ns + thread.preempt_wait_ns + thread.blocked_ns + thread.unknown_ns;
            let allowed = (thread.wall_ns / 1000).max(1000);
            assert!(states.abs_diff(thread.wall_ns) <= allowed, "states sum to {states}: {thread:?}");
            assert!(thread.blocked_by.values().sum::<u64>() <= thread.blocked_ns, "{thread:?}");
            assert_eq!(thread.impossible, 0, "{thread:?}");
        }
    }
}

/// The kernel's BPF objects that a process holds: IDs of programs, links and maps.
#[derive(Debug, Default)]
pub struct BpfIds {
    programs: BTreeSet<u32>,
    links: BTreeSet<u32>,
    maps: BTreeSet<u32>,
}

impl BpfIds {
    /// Returns the objects that process `pid` holds, by its descriptors.
    pub fn held_by(pid: u32) -> BpfIds {
        let mut ids = BpfIds::default();
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return ids };
        for descriptor in descriptors.flatten() {
            let text = fs::read_to_string(descriptor.path()).unwrap_or_default();
            let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u32>().ok());
            // A link's descriptor also contains its program's ID.
            ids.links.extend(of("link_id:"));
            ids.programs.extend(of("prog_id:"));
            ids.maps.extend(of("map_id:"));
        }
        ids
    }

    /// Returns the number of objects.
    pub fn count(&self) -> usize {
        self.programs.len() + self.links.len() + self.maps.len()
    }

    /// Returns whether programs are attached.
    pub fn has_links(&self) -> bool {
        !self.links.is_empty()
    }

    /// Returns the objects that still exist in the kernel. IDs are not reused.
    pub fn left(&self) -> BpfIds {
        BpfIds {
            programs: ProgInfoIter::default().map(|p| p.id).filter(|id| self.programs.contains(id)).collect(),
            links: LinkInfoIter::default().map(|l| l.id).filter(|id| self.links.contains(id)).collect(),
            maps: MapInfoIter::default().map(|m| m.id).filter(|id| self.maps.contains(id)).collect(),
        }
    }

    /// Asserts that the kernel frees all objects. It does so shortly after their holder has ended.
    pub fn assert_dropped(&self) {
        wait_for("the kernel drops BPF programs, links and maps", || (self.left().count() == 0).then_some(()));
    }
}
