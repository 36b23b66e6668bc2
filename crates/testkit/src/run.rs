//! Running programs with and without cox, for tests of what trips tools that follow programs.
//!
//! Nothing here waits for ever: what has not ended after [`PATIENCE`] is killed and fails the test.

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
pub use crate::built::{COX, fast_cox, preload_library, turn, workload};
pub use crate::skip::is_root;
use crate::skip::{Need, has};
pub use crate::user::{NOBODY, as_user};

/// Far more than anything here takes; a test that hits it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a command went.
#[derive(Debug)]
pub struct Ran {
    /// Exit code as a shell has it: 128 + n for signal n.
    pub code: i32,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
    /// From before its start to after its end.
    pub wall: Duration,
}

impl Ran {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// That a program did the same in another run.
    pub fn assert_same_as(&self, other: &Ran) {
        assert_eq!(self.code, other.code, "exit codes; stderr: {}", self.stderr);
        assert_eq!(self.text(), other.text(), "standard output");
        assert_eq!(self.stderr, other.stderr, "standard error");
    }
}

/// Runs a command to its end, with its output in files so that nobody blocks on a pipe.
pub fn run(command: &mut Command) -> Ran {
    let (mut stdout, mut stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
    let begin = Instant::now();
    let mut child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
    let status = end_of(&mut child);
    let wall = begin.elapsed();
    Ran { code: shell_code(status), stdout: all_of(&mut stdout), stderr: text_of(&mut stderr), wall }
}

/// Waits for the end of a child.
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

/// Exit code as a shell has it.
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

/// `cox run OPTIONS -- PROGRAM`, or the program alone with `None`.
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

/// A program with and without cox (`-q` and `options`): everything it shows is the same. Returns
/// the run under cox.
pub fn both_ways<S: AsRef<OsStr>>(options: &[&str], program: &[S]) -> Ran {
    let plain = run(&mut command(None, program));
    let observed = run(&mut command(Some(&[&["-q"], options].concat()), program));
    observed.assert_same_as(&plain);
    observed
}

/// Looks again and again until `what` has a value.
pub fn wait_for<T>(subject: &str, mut what: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = what() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain: {subject}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a signal to a process.
pub fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap_or_else(|error| panic!("kill {pid}: {error}"));
}

/// The state letter of a process; `None` when it is gone or a zombie.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next().filter(|state| !"ZX".contains(*state))
}

/// The children of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// The process, as seen here, of a program that was started inside of what `inside` makes (nothing, or a container): the command has
/// become its parent.
pub fn innermost(started: u32, inside: &[&str]) -> u32 {
    if inside.is_empty() {
        return started;
    }
    // Between fork and exec it is still the command.
    let is_program =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() != inside[0]);
    wait_for("the program inside", || children(started).first().copied().filter(is_program))
}

/// Says something past the harness, which keeps to itself what a passing test prints.
pub fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// A folder that everybody can enter and that goes away.
pub fn open_folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A file in a folder, as text.
pub fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).into_os_string().into_string().unwrap()
}

/// The CPUs that this process may use, where it is root and they are two or more; else says that the test is
/// skipped.
pub fn root_with_two_cpus(test: &str) -> Option<CpuSet> {
    if !is_root(test) {
        return None;
    }
    let allowed = allowed_cpus(&Root::live(), Who::Own).unwrap();
    has(allowed.len() >= 2, test, Need::Cpus, "needs two CPUs").then_some(allowed)
}

/// The part of the JSON that these tests look at.
#[derive(Debug, Deserialize)]
pub struct Account {
    /// How it was observed.
    pub backend: String,
    /// Scheduler events seen.
    pub events: u64,
    /// What was lost.
    pub lost: Lost,
    /// One.
    pub programs: Vec<Program>,
}

/// The loss counters that stand for threads.
#[derive(Debug, Deserialize)]
pub struct Lost {
    /// Threads that could not be followed.
    pub members: u64,
    /// Threads whose final clocks were lost.
    pub finals: u64,
}

/// A program.
#[derive(Debug, Deserialize)]
pub struct Program {
    /// Its wall time.
    pub wall_ns: u64,
    /// Its processes.
    pub processes: Vec<Process>,
}

/// A process.
#[derive(Debug, Deserialize)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Its threads.
    pub threads: Vec<Thread>,
}

/// A thread.
#[derive(Debug, Deserialize)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// Still there at the end.
    pub alive: bool,
    /// From birth to end.
    pub wall_ns: u64,
    /// On a CPU.
    pub run_ns: u64,
    /// Woken to running.
    pub wake_delay_ns: u64,
    /// Preempted to running.
    pub preempt_wait_ns: u64,
    /// Blocked.
    pub blocked_ns: u64,
    /// The same by cause.
    pub blocked_by: std::collections::BTreeMap<String, u64>,
    /// Not known.
    pub unknown_ns: u64,
    /// Contradictions.
    pub impossible: u64,
}

impl Account {
    /// Reads what `--json` wrote.
    pub fn read(file: impl AsRef<Path>) -> Account {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.as_ref().display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.as_ref().display()))
    }

    /// All threads.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.programs.iter().flat_map(|program| &program.processes).flat_map(|process| &process.threads)
    }

    /// Threads that existed as far as cox knows: those it lists and those it says it lost.
    pub fn threads_counted(&self) -> u64 {
        self.threads().count() as u64 + self.lost.finals + self.lost.members
    }

    /// That each thread's states sum to its wall time within 0.1 % or 1 µs, and nothing contradicts.
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

/// What a process holds in the kernel's BPF: ids of programs, links and maps.
#[derive(Debug, Default)]
pub struct BpfIds {
    programs: BTreeSet<u32>,
    links: BTreeSet<u32>,
    maps: BTreeSet<u32>,
}

impl BpfIds {
    /// By the descriptors of process `pid`.
    pub fn held_by(pid: u32) -> BpfIds {
        let mut ids = BpfIds::default();
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return ids };
        for descriptor in descriptors.flatten() {
            let text = fs::read_to_string(descriptor.path()).unwrap_or_default();
            let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u32>().ok());
            // A link's descriptor names its program too.
            ids.links.extend(of("link_id:"));
            ids.programs.extend(of("prog_id:"));
            ids.maps.extend(of("map_id:"));
        }
        ids
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.programs.len() + self.links.len() + self.maps.len()
    }

    /// Whether programs have been attached.
    pub fn has_links(&self) -> bool {
        !self.links.is_empty()
    }

    /// Those that the kernel still has. Ids are not used twice.
    pub fn left(&self) -> BpfIds {
        BpfIds {
            programs: ProgInfoIter::default().map(|p| p.id).filter(|id| self.programs.contains(id)).collect(),
            links: LinkInfoIter::default().map(|l| l.id).filter(|id| self.links.contains(id)).collect(),
            maps: MapInfoIter::default().map(|m| m.id).filter(|id| self.maps.contains(id)).collect(),
        }
    }

    /// That the kernel drops all of them; it does so a little after their holder's end.
    pub fn assert_dropped(&self) {
        wait_for("the kernel drops BPF programs, links and maps", || (self.left().count() == 0).then_some(()));
    }
}
