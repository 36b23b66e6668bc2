//! The target of a session.

use std::ffi::OsString;

use anyhow::{Result, bail};
use machine::cgroup::Cgroup;
use machine::process::Task;
use machine::{CpuSet, Root};

/// The target of a session.
#[derive(Clone, Debug)]
pub enum Target {
    /// Programs to start at the same time. The first program gets cox's standard input, and its exit code becomes cox's
    /// exit code.
    Launch(Vec<Launch>),
    /// Processes that run already.
    Attach(Attached),
    /// No program: the machine itself.
    Machine,
}

/// A program to start.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Program name and arguments.
    pub command: Vec<OsString>,
    /// Environment variables that differ from cox's own.
    pub variables: Vec<(OsString, OsString)>,
    /// Whether standard input is empty (/dev/null), because cox's own input belongs to another program.
    pub has_no_input: bool,
    /// The CPUs that the program may use, as if taskset(1) had started it; `None` for those of cox. The program has this
    /// mask from its first instruction on, and no other mask before, so there is nothing to restore.
    pub cpus: Option<CpuSet>,
}

/// Processes that run already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attached {
    /// Processes by their ids.
    Processes(Vec<u32>),
    /// All processes in a cgroup and below it, now and later.
    Cgroup(Cgroup),
}

/// The objects that engines attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Process ids of children that wait before their exec.
    Launched(Vec<u32>),
    /// Processes that run already.
    Attached(Attached),
    /// The machine.
    Machine,
}

impl Launch {
    /// Returns the words of the command line, for display.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

impl Target {
    /// Returns the process whose CPU limits apply to the session: the first one that the session is attached to. `None`
    /// if cox's own limits apply, which a started program inherits.
    #[must_use]
    pub fn attached_to(&self) -> Option<u32> {
        match self {
            Target::Attach(Attached::Processes(pids)) => pids.first().copied(),
            _ => None,
        }
    }

    /// Returns the target as words of a command line, for display.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        match self {
            Target::Launch(launches) => launches.first().map_or_else(Vec::new, Launch::words),
            Target::Attach(Attached::Cgroup(cgroup)) => vec!["--cgroup".into(), cgroup.name().display().to_string()],
            Target::Attach(Attached::Processes(pids)) => {
                pids.iter().flat_map(|pid| ["--pid".to_owned(), pid.to_string()]).collect()
            }
            Target::Machine => Vec::new(),
        }
    }

    /// Checks that all processes exist and can be observed.
    ///
    /// # Errors
    /// The first process that does not exist or cannot be observed, with the reason.
    pub fn look_up(&self) -> Result<()> {
        let Target::Attach(Attached::Processes(pids)) = self else { return Ok(()) };
        for pid in pids {
            let Ok(status) = Task::process(&Root::live(), *pid).status() else { bail!("there is no process {pid}") };
            if status.tgid != *pid {
                bail!("{pid} is a thread of process {0}; use --pid {0}", status.tgid);
            }
            if has_ended(*pid) {
                bail!("process {pid} has ended, and its parent has not waited for it yet");
            }
        }
        Ok(())
    }
}

impl Subject {
    /// Returns the processes by which users identify the session: those that the user named or that cox started. If the
    /// target is the machine, returns the process id of cox.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        match self {
            Subject::Launched(pids) | Subject::Attached(Attached::Processes(pids)) => pids.clone(),
            Subject::Attached(Attached::Cgroup(_)) => Vec::new(),
            Subject::Machine => vec![std::process::id()],
        }
    }

    /// Returns whether all processes of the target have ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Subject::Launched(pids) | Subject::Attached(Attached::Processes(pids)) => {
                pids.iter().all(|pid| has_ended(*pid))
            }
            Subject::Attached(Attached::Cgroup(cgroup)) => !cgroup.folder.exists(),
            Subject::Machine => false,
        }
    }
}

/// Returns whether a process has ended. A zombie has ended, unless other threads of the process still run.
fn has_ended(pid: u32) -> bool {
    Task::process(&Root::live(), pid).stat().map_or(true, |stat| matches!(stat.state, 'Z' | 'X') && stat.threads <= 1)
}

/// The way a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The program exited with this code.
    Code(i32),
    /// The program was ended by this signal.
    Signal(i32),
}

impl Exit {
    /// Returns the code a shell would see: the program's own, or 128 + the signal's number.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_zombie_and_a_thread_are_no_processes_to_watch() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        let subject = Attached::Processes(vec![std::process::id(), pid]);
        let (target, subject) = (Target::Attach(subject.clone()), Subject::Attached(subject));
        while !has_ended(pid) {
            std::thread::yield_now();
        }
        assert!(target.look_up().unwrap_err().to_string().contains(&pid.to_string()));
        assert!(!subject.is_gone(), "we are still there");
        child.wait().unwrap();
        assert!(target.look_up().unwrap_err().to_string().contains("no process"));

        let thread = std::thread::spawn(|| {
            let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            Target::Attach(Attached::Processes(vec![own])).look_up().unwrap_err().to_string()
        });
        assert!(thread.join().unwrap().contains(&format!("--pid {}", std::process::id())));
    }
}
