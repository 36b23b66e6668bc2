//! One run of `cox quiet` with a program, which waits until it is told to end.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use testkit::machine_state::{movable_on, threads};

use crate::machine::own;

/// A session whose program runs.
pub struct Session {
    cox: Child,
    lines: BufReader<ChildStdout>,
    errors: PathBuf,
    /// The program's CPUs.
    pub cpus: String,
    /// Its cgroup.
    pub cgroup: String,
    /// The kind of that cgroup's partition.
    pub partition: String,
}

/// How cox ended.
pub struct Ended {
    /// Its exit code; `-1` after a signal.
    pub code: i32,
    /// What it printed to standard error.
    pub printed: String,
}

impl Ended {
    /// Fails unless the exit code is 0.
    pub fn well(self) -> Result<(), Ended> {
        if self.code == 0 { Ok(()) } else { Err(self) }
    }
}

/// Starts cox with a program that reports what it has. Returns cox, its output, and the file with its errors.
pub fn start(options: &[&str]) -> (Child, BufReader<ChildStdout>, PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let errors = PathBuf::from(format!("/tmp/errors-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    let program = own(&["program"]);
    let mut command = Command::new("cox");
    command
        .args(["quiet", "--level", "tickless"])
        .args(options)
        .arg("--")
        .arg(program.get_program())
        .args(program.get_args());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(fs::File::create(&errors).unwrap());
    let mut cox = command.spawn().expect("cox is in PATH");
    let lines = BufReader::new(cox.stdout.take().unwrap());
    (cox, lines, errors)
}

impl Session {
    /// Begins a session, and waits until its program runs.
    pub fn begin(options: &[&str]) -> Result<Session, Ended> {
        let (cox, lines, errors) = start(options);
        let [cpus, cgroup, partition] = [const { String::new() }; 3];
        let mut session = Session { cox, lines, errors, cpus, cgroup, partition };
        let (mut next, lines) = ([const { String::new() }; 3], &mut session.lines);
        for line in &mut next {
            lines.read_line(line).unwrap();
        }
        if next[2].is_empty() {
            return Err(session.end());
        }
        [session.cpus, session.cgroup, session.partition] = next.map(|line| line.trim().to_owned());
        Ok(session)
    }

    /// Returns the process of cox.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.cox)
    }

    /// Ends the program, and waits for cox.
    pub fn end(mut self) -> Ended {
        drop(self.cox.stdin.take());
        let code = self.cox.wait().unwrap().code().unwrap_or(-1);
        // The program may still run, if cox was killed.
        self.lines.read_to_end(&mut Vec::new()).unwrap();
        Ended { code, printed: fs::read_to_string(&self.errors).unwrap() }
    }

    /// Returns what is wrong while the program runs: other threads that may run on its CPUs, and whether it has other CPUs or another cgroup than
    /// those that the session named in the options gets.
    pub fn wrong(&self, cpus: &str, partition: &str) -> Vec<String> {
        let mut wrong = movable_on(&threads(), cpus, &format!("0::{}", self.cgroup));
        let first = cpus.split(['-', ',']).next().unwrap_or_default();
        let now = fs::read_to_string(format!("/sys/fs/cgroup{}/cpuset.cpus.partition", self.cgroup));
        for (what, value, expected) in [
            ("CPUs", self.cpus.as_str(), cpus),
            ("cgroup", &self.cgroup, &format!("/cox-quiet-{first}")),
            ("partition at its start", &self.partition, partition),
            ("partition", now.as_deref().map_or("none", str::trim), partition),
        ] {
            if value != expected {
                wrong.push(format!("the program's {what}: {value}, not {expected}"));
            }
        }
        wrong
    }
}

/// Kills a process.
pub fn kill(pid: Pid) {
    // It may have ended.
    let _ = kill_process(pid, Signal::KILL);
}

/// Runs `cox` with these words to its end.
pub fn cox(words: &[impl AsRef<OsStr>]) -> Output {
    Command::new("cox").args(words).stdin(Stdio::null()).output().expect("cox is in PATH")
}

/// Returns what a command printed, its exit code before that.
pub fn text(output: &Output) -> String {
    let printed = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    format!("exit code {}\n{printed}", output.status.code().unwrap_or(-1))
}
