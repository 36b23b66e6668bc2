//! What a session is about.

use std::ffi::OsString;

use machine::Root;
use machine::cgroup::Cgroup;
use machine::process::Task;

/// The target of a session.
#[derive(Clone, Debug)]
pub enum Target {
    /// A program to start: its name and arguments.
    Launch(Vec<OsString>),
    /// Something that runs already.
    Attach(Subject),
}

/// What engines take hold of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A child that waits, before its exec, for the go.
    Launched(u32),
    /// Processes that run.
    Processes(Vec<u32>),
    /// All that is in a cgroup and below it, now and later.
    Cgroup(Cgroup),
}

impl Subject {
    /// Whether nothing of it is left.
    pub fn is_gone(&self) -> bool {
        match self {
            Subject::Launched(pid) => !process_exists(*pid),
            Subject::Processes(pids) => pids.iter().all(|pid| !process_exists(*pid)),
            Subject::Cgroup(cgroup) => !cgroup.folder.exists(),
        }
    }
}

fn process_exists(pid: u32) -> bool {
    Task::process(&Root::live(), pid).exists()
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// The code a shell would see: the program's own, or 128 + the signal's number.
    pub fn shell_code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}
