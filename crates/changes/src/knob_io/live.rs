//! Knob I/O on the real machine.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use machine::limits::{Who, allowed_cpus, possible_cpus};
use machine::process::Task;
use machine::{CpuSet, Root};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::sched_getaffinity;

use super::{KnobIo, Writer, attr, way_back};
use crate::error::Error;
use crate::kernel_value::KernelValue;
use crate::knob::{Knob, Thread, Value};
use crate::setting::Setting;

/// Writes a knob of a thread of the live machine.
struct LiveWriter {
    pid: Pid,
}

impl Writer for LiveWriter {
    fn write(&self, setting: &Setting) -> io::Result<()> {
        setting.kernel.write(self.pid)
    }

    fn is_within(&self, bounds: &Setting) -> io::Result<bool> {
        let Value::Cpus(bounds) = bounds.value() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let now = match sched_getaffinity(Some(self.pid)) {
            // The fixed-size mask is too short for a kernel with more than 1,024 CPUs, so the check is left out.
            Err(Errno::INVAL) => return Ok(true),
            now => now?,
        };
        let common = bounds.iter().filter(|cpu| now.is_set(*cpu as usize)).count();
        Ok(common == now.count() as usize)
    }
}

/// The target of a knob's reads and writes.
enum Place {
    Affinity(Pid),
    Scheduling(Pid),
    File(PathBuf),
}

/// The machine whose files are below a [`Root`]. Threads can only be changed on the live machine.
#[derive(Clone, Debug)]
pub struct LiveKnobIo {
    root: Root,
    may_set_all: OnceLock<bool>,
}

impl LiveKnobIo {
    /// Makes knob I/O for the machine whose files are below `root`.
    #[must_use]
    pub fn new(root: Root) -> LiveKnobIo {
        LiveKnobIo { root, may_set_all: OnceLock::new() }
    }

    /// Returns a living thread with its start time.
    ///
    /// # Errors
    /// Fails if no such thread exists.
    pub fn thread(&self, tid: u32) -> Result<Thread, Error> {
        let stat = self.task(tid).stat()?;
        Ok(Thread { tid, start_ns: stat.start_boottime_ns })
    }

    /// Returns the thread's own folder in /proc. The files in the folder of the process with the same id are slower to
    /// read. They have sums over all threads of the process, so the kernel must visit each thread.
    fn task(&self, tid: u32) -> Task {
        Task::thread(&self.root, tid, tid)
    }

    /// Returns the thread's id for system calls, if the id still belongs to the same thread. Between this check and
    /// the call, the kernel could give the id to another thread, but only if it used all other ids within these
    /// microseconds. Then a thread of the same user would get a wrong mask.
    fn pid_of(&self, thread: Thread, knob: &Knob) -> Result<Pid, Error> {
        let gone = || Error::Gone(Box::new(knob.clone()));
        if !self.root.is_live() {
            let source = io::Error::other("threads can only be changed on the live machine");
            return Err(Error::of(knob, source));
        }
        if self.started_ns(thread.tid) != Some(thread.start_ns) {
            return Err(gone());
        }
        i32::try_from(thread.tid).ok().and_then(Pid::from_raw).ok_or_else(gone)
    }

    fn place(&self, knob: &Knob) -> Result<Place, Error> {
        match knob {
            Knob::Affinity(thread) => Ok(Place::Affinity(self.pid_of(*thread, knob)?)),
            Knob::Scheduling(thread) => Ok(Place::Scheduling(self.pid_of(*thread, knob)?)),
            Knob::File(path) if is_setting(path) => Ok(Place::File(self.root.path(path))),
            Knob::File(_) => Err(Error::of(knob, io::Error::other("it is not a setting in /proc/sys or /sys"))),
        }
    }

    fn get(&self, knob: &Knob, place: &Place) -> Result<Value, Error> {
        let failed = |source| Error::of(knob, source);
        match place {
            Place::Affinity(pid) => {
                let allowed = allowed_cpus(&self.root, Who::Task(pid.as_raw_nonzero().get().unsigned_abs()));
                allowed.map(Value::Cpus).map_err(|error| unread(knob, error))
            }
            Place::Scheduling(pid) => attr::get(*pid).map(Value::Scheduling).map_err(failed),
            Place::File(path) => {
                let text = fs::read_to_string(path).map_err(failed)?;
                Ok(Value::Text(text.trim_end_matches('\n').to_owned()))
            }
        }
    }
}

/// Converts an error of reading /proc. "Not found" means that the thread is gone.
fn unread(knob: &Knob, error: machine::Error) -> Error {
    if error.is_gone() { Error::Gone(Box::new(knob.clone())) } else { error.into() }
}

/// Returns whether a file is one of the kernel's settings, and not an ordinary file. Only settings may be written, but
/// a journal may name any file.
fn is_setting(path: &Path) -> bool {
    let is_below = ["/proc/sys", "/sys"].iter().any(|folder| path.starts_with(folder));
    is_below && !path.components().any(|part| part == Component::ParentDir)
}

fn set(knob: &Knob, place: &Place, value: &Value) -> Result<(), Error> {
    let done = match (place, value) {
        (Place::Affinity(pid), Value::Cpus(_)) | (Place::Scheduling(pid), Value::Scheduling(_)) => {
            KernelValue::of(value).and_then(|value| value.write(*pid))
        }
        (Place::File(path), Value::Text(text)) => {
            // Written in one call, as sysfs and procfs require. The file is never created.
            let file = OpenOptions::new().write(true).truncate(true).open(path);
            file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()))
        }
        _ => Err(io::Error::other(format!("this kind of setting cannot have the value {value}"))),
    };
    done.map_err(|source| Error::of(knob, source))
}

impl KnobIo for LiveKnobIo {
    fn read(&self, knob: &Knob) -> Result<Value, Error> {
        self.get(knob, &self.place(knob)?)
    }

    fn write(&self, knob: &Knob, value: &Value) -> Result<(), Error> {
        set(knob, &self.place(knob)?, value)
    }

    fn exchange(&self, knob: &Knob, decide: &dyn Fn(&Value) -> Option<Value>) -> Result<Value, Error> {
        let place = self.place(knob)?;
        let now = self.get(knob, &place)?;
        if let Some(value) = decide(&now) {
            set(knob, &place, &value)?;
        }
        Ok(now)
    }

    fn writer(&self, knob: &Knob) -> Result<Box<dyn Writer>, Error> {
        let thread = knob.thread().ok_or_else(|| {
            Error::of(knob, io::Error::other("only settings of threads can be changed through a handle"))
        })?;
        Ok(Box::new(LiveWriter { pid: self.pid_of(thread, knob)? }))
    }

    fn way_back(&self, knob: &Knob, original: &Value, wanted: &Value) -> Result<(), Error> {
        let (Knob::Scheduling(thread), Value::Scheduling(from), Value::Scheduling(to)) = (knob, wanted, original)
        else {
            return Ok(());
        };
        if *self.may_set_all.get_or_init(|| way_back::may_set_all(&self.root)) {
            return Ok(());
        }
        let limits = attr::limits(self.pid_of(*thread, knob)?).map_err(|e| Error::of(knob, e))?;
        match way_back::missing(from, to, limits) {
            None => Ok(()),
            Some(limit) => Err(Error::OneWay { knob: Box::new(knob.clone()), wanted: Box::new(wanted.clone()), limit }),
        }
    }

    fn possible_cpus(&self, thread: Thread) -> Result<CpuSet, Error> {
        possible_cpus(&self.root, Who::Task(thread.tid)).map_err(|error| unread(&Knob::Affinity(thread), error))
    }

    fn boot_id(&self) -> Result<String, Error> {
        Ok(self.root.read_text("/proc/sys/kernel/random/boot_id")?)
    }

    fn started_ns(&self, tid: u32) -> Option<u64> {
        let stat = self.task(tid).stat().ok()?;
        (!matches!(stat.state, 'Z' | 'X')).then_some(stat.start_boottime_ns)
    }

    fn threads_of(&self, leader: Thread) -> Result<Vec<u32>, Error> {
        let process = Task::process(&self.root, leader.tid);
        // If a process's first thread (its leader) ends before the others, it stays as a zombie and keeps its start
        // time.
        match self.task(leader.tid).stat().and_then(|stat| Ok((stat, process.threads()?))) {
            Ok((stat, threads)) if stat.start_boottime_ns == leader.start_ns => Ok(threads),
            Err(error) if !error.is_gone() => Err(error.into()),
            _ => Err(Error::Gone(Box::new(Knob::Affinity(leader)))),
        }
    }
}
