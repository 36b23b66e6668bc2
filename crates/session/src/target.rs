//! What a session is about.

use std::ffi::OsString;

use anyhow::{Result, bail};
use machine::Root;
use machine::cgroup::Cgroup;
use machine::process::Task;

/// The target of a session.
#[derive(Clone, Debug)]
pub enum Target {
    /// Programs to start at the same time. The first is the one that cox stands for: its input, its exit code.
    Launch(Vec<Launch>),
    /// Something that runs already.
    Attach(Attached),
    /// No program: the machine itself.
    Machine,
}

/// A program to start.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Its name and arguments.
    pub command: Vec<OsString>,
    /// Variables of its environment that are not as in cox's own.
    pub variables: Vec<(OsString, OsString)>,
    /// It finds nothing to read: the terminal, or whatever cox reads, is another program's.
    pub has_no_input: bool,
}

/// Something that runs already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attached {
    /// Processes that run.
    Processes(Vec<u32>),
    /// All that is in a cgroup and below it, now and later.
    Cgroup(Cgroup),
}

/// What engines take hold of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Children that wait, before their exec, for the go.
    Launched(Vec<u32>),
    /// Something that runs.
    Attached(Attached),
    /// The machine.
    Machine,
}

impl Launch {
    /// The words of its command line, for people.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

impl Target {
    /// The process whose limits count, and what was set for it: the first that the session is attached to. `None`: cox's own count, which a
    /// program inherits that is started.
    #[must_use]
    pub fn attached_to(&self) -> Option<u32> {
        match self {
            Target::Attach(Attached::Processes(pids)) => pids.first().copied(),
            _ => None,
        }
    }

    /// What it is, for people.
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

    /// Sees that all of it is there to be watched.
    ///
    /// # Errors
    /// Naming the first process that is not, and why.
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
    /// The processes that people know the session by: those named or started; of the machine, cox's own.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        match self {
            Subject::Launched(pids) | Subject::Attached(Attached::Processes(pids)) => pids.clone(),
            Subject::Attached(Attached::Cgroup(_)) => Vec::new(),
            Subject::Machine => vec![std::process::id()],
        }
    }

    /// Whether nothing of it is left.
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

/// A zombie has ended, unless it is the leader of threads that go on without it.
fn has_ended(pid: u32) -> bool {
    Task::process(&Root::live(), pid).stat().map_or(true, |stat| matches!(stat.state, 'Z' | 'X') && stat.threads <= 1)
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
