//! Reading and writing knobs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};

use machine::limits::{Who, allowed_cpus};
use machine::process::Task;
use machine::{CpuSet, Root};
use rustix::process::Pid;
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};

use crate::error::Error;
use crate::knob::{Knob, Thread, Value};

mod attr;

/// What reads and writes knobs: the machine, or a test's idea of one.
pub trait Hands {
    /// The present value.
    ///
    /// # Errors
    /// [`Error::Gone`] when the thread has ended or the file is not there.
    fn read(&self, knob: &Knob) -> Result<Value, Error>;

    /// Set a value.
    ///
    /// # Errors
    /// [`Error::Gone`] as above, or [`Error::Knob`] with the kernel's answer.
    fn write(&self, knob: &Knob, value: &Value) -> Result<(), Error>;

    /// The kernel's random id of this boot.
    ///
    /// # Errors
    /// When /proc cannot be read.
    fn boot_id(&self) -> Result<String, Error>;

    /// When a process started; `None` when there is none, or only its zombie.
    fn started_ns(&self, pid: u32) -> Option<u64>;
}

/// The machine below a [`Root`]. Threads can only be changed on the live one.
#[derive(Clone, Debug)]
pub struct LiveHands {
    root: Root,
}

impl LiveHands {
    /// Hands on the machine whose files are below `root`.
    #[must_use]
    pub fn new(root: Root) -> LiveHands {
        LiveHands { root }
    }

    /// A living thread, with its start.
    ///
    /// # Errors
    /// When there is no such thread.
    pub fn thread(&self, tid: u32) -> Result<Thread, Error> {
        let stat = Task::process(&self.root, tid).stat()?;
        Ok(Thread { tid, start_ns: stat.start_boottime_ns })
    }

    /// The thread's id for system calls, if it is still the one that is meant. Between this look and the
    /// call the id may pass on to another thread: once in 2^22 births at the worst moment, and the price
    /// is a mask too much on a thread of the same user.
    fn pid_of(&self, thread: Thread, knob: &Knob) -> Result<Pid, Error> {
        let gone = || Error::Gone(Box::new(knob.clone()));
        if !self.root.is_live() {
            return Err(unusable(knob, io::Error::other("threads can only be changed on the live machine")));
        }
        let stat = Task::process(&self.root, thread.tid).stat().map_err(|_| gone())?;
        if stat.start_boottime_ns != thread.start_ns || matches!(stat.state, 'Z' | 'X') {
            return Err(gone());
        }
        i32::try_from(thread.tid).ok().and_then(Pid::from_raw).ok_or_else(gone)
    }
}

impl Hands for LiveHands {
    fn read(&self, knob: &Knob) -> Result<Value, Error> {
        match knob {
            Knob::Affinity(thread) => {
                self.pid_of(*thread, knob)?;
                match allowed_cpus(&self.root, Who::Task(thread.tid)) {
                    Ok(cpus) => Ok(Value::Cpus(cpus)),
                    Err(error) if error.is_gone() => Err(Error::Gone(Box::new(knob.clone()))),
                    Err(error) => Err(error.into()),
                }
            }
            Knob::Scheduling(thread) => {
                attr::get(self.pid_of(*thread, knob)?).map(Value::Scheduling).map_err(|e| answer(knob, e))
            }
            Knob::File(path) => match fs::read_to_string(self.root.path(path)) {
                Ok(text) => Ok(Value::Text(text.trim_end_matches('\n').to_owned())),
                Err(error) => Err(answer(knob, error)),
            },
        }
    }

    fn write(&self, knob: &Knob, value: &Value) -> Result<(), Error> {
        match (knob, value) {
            (Knob::Affinity(thread), Value::Cpus(cpus)) => {
                let pid = self.pid_of(*thread, knob)?;
                sched_setaffinity(Some(pid), &kernel_mask(cpus)).map_err(|e| answer(knob, e.into()))
            }
            (Knob::Scheduling(thread), Value::Scheduling(scheduling)) => {
                attr::set(self.pid_of(*thread, knob)?, scheduling).map_err(|e| answer(knob, e))
            }
            (Knob::File(path), Value::Text(text)) => {
                // In one write, as sysfs and procfs want it; never creating a file.
                let file = OpenOptions::new().write(true).truncate(true).open(self.root.path(path));
                file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes())).map_err(|e| answer(knob, e))
            }
            _ => Err(unusable(knob, io::Error::other(format!("{value} is not one of its values")))),
        }
    }

    fn boot_id(&self) -> Result<String, Error> {
        Ok(self.root.read_text("/proc/sys/kernel/random/boot_id")?)
    }

    fn started_ns(&self, pid: u32) -> Option<u64> {
        let stat = Task::process(&self.root, pid).stat().ok()?;
        (!matches!(stat.state, 'Z' | 'X')).then_some(stat.start_boottime_ns)
    }
}

fn kernel_mask(cpus: &CpuSet) -> KernelCpuSet {
    let mut mask = KernelCpuSet::new();
    for cpu in cpus.iter().map(|cpu| cpu as usize).filter(|cpu| *cpu < KernelCpuSet::MAX_CPU) {
        mask.set(cpu);
    }
    mask
}

fn unusable(knob: &Knob, source: io::Error) -> Error {
    Error::Knob { knob: Box::new(knob.clone()), source }
}

/// The kernel's answer; a thread or file that is not there is no failure of the machine.
fn answer(knob: &Knob, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ESRCH | libc::ENOENT) => Error::Gone(Box::new(knob.clone())),
        _ => unusable(knob, source),
    }
}
