//! Knob I/O on the real machine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use machine::cgroup::{Hierarchies, Hierarchy};
use machine::features::Release;
use machine::limits::{Who, affinity as mask_of, possible_cpus};
use machine::process::Task;
use machine::topology::Topology;
use machine::{CpuSet, Root};
use rustix::process::{Pid, Signal, kill_process};

use super::kernel_file::{Form, is_setting};
use super::{KnobIo, Writer, affinity, attr, cgroups, interrupts, refused, way_back};
use crate::error::Error;
use crate::kernel_value::KernelValue;
use crate::knob::{Knob, RUNNING, STOPPED, Thread};
use crate::setting::Setting;
use crate::unmoved::Why;
use crate::value::{Scheduling, Value};

/// How often a process is looked at until it has stopped, and the time in between: a second in all.
const STOP_LOOKS: usize = 1000;
const STOP_WAIT: Duration = Duration::from_millis(1);

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
        affinity::is_within(self.pid, bounds)
    }
}

/// The target of a knob's reads and writes.
enum Place {
    Affinity(Pid),
    Scheduling(Pid),
    File(Form, PathBuf),
    Interrupt(PathBuf),
    Directory(PathBuf),
    Membership(u32, Hierarchy),
    Controller(PathBuf, String),
    Running(Pid),
}

/// The machine whose files are below a [`Root`]. Threads can only be changed on the live machine.
#[derive(Clone, Debug)]
pub struct LiveKnobIo {
    root: Root,
    may_set_all: OnceLock<bool>,
    /// Read once: each access of a cgroup needs the mounts, and reading them takes longer than the access.
    mounted: OnceLock<Hierarchies>,
}

impl LiveKnobIo {
    /// Makes knob I/O for the machine whose files are below `root`.
    #[must_use]
    pub fn new(root: Root) -> LiveKnobIo {
        LiveKnobIo { root, may_set_all: OnceLock::new(), mounted: OnceLock::new() }
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
        let failed = |source| Error::of(knob, source);
        match knob {
            Knob::Affinity(thread) => Ok(Place::Affinity(self.pid_of(*thread, knob)?)),
            Knob::Scheduling(thread) => Ok(Place::Scheduling(self.pid_of(*thread, knob)?)),
            Knob::Interrupt { name, ordinal } => {
                let file = interrupts::affinity_file(&self.root, name, *ordinal).map_err(failed)?;
                Ok(Place::Interrupt(self.root.path(file)))
            }
            Knob::Membership { thread, hierarchy } => {
                self.pid_of(*thread, knob)?;
                let of_folder = cgroups::hierarchy_of(self.mounted()?, hierarchy).map_err(failed)?;
                Ok(Place::Membership(thread.tid, of_folder.clone()))
            }
            Knob::Controller { cgroup, name } => {
                cgroups::hierarchy_of(self.mounted()?, cgroup).map_err(failed)?;
                Ok(Place::Controller(cgroup.clone(), name.clone()))
            }
            Knob::Running(thread) => Ok(Place::Running(self.pid_of(*thread, knob)?)),
            Knob::Directory(path) => {
                let hierarchy = cgroups::hierarchy_of(self.mounted()?, path).map_err(failed)?;
                if hierarchy.mount_point == *path {
                    return Err(failed(io::Error::other("it is the root of its hierarchy")));
                }
                Ok(Place::Directory(path.clone()))
            }
            Knob::File(path) | Knob::CpuMask(path) | Knob::CpuList(path) | Knob::Choice(path) => {
                if !self.is_setting(path) {
                    return Err(failed(io::Error::other(
                        "it is not a setting in /proc/sys, /proc/irq, /sys or a cgroup",
                    )));
                }
                let form = Form::of(knob).unwrap_or(Form::Text);
                Ok(Place::File(form, self.root.path(path)))
            }
        }
    }

    fn is_setting(&self, path: &Path) -> bool {
        // Without the mounts, only the other folders have settings.
        let mounted = self.mounted().map(|mounted| mounted.mounted.as_slice()).unwrap_or_default();
        is_setting(path, mounted.iter().map(|hierarchy| &hierarchy.mount_point))
    }

    fn mounted(&self) -> Result<&Hierarchies, Error> {
        if let Some(mounted) = self.mounted.get() {
            return Ok(mounted);
        }
        let mounted = Hierarchies::read(&self.root)?;
        Ok(self.mounted.get_or_init(|| mounted))
    }

    fn get(&self, knob: &Knob, place: &Place) -> Result<Value, Error> {
        let failed = |source| Error::of(knob, source);
        match place {
            Place::Affinity(pid) => {
                let mask = mask_of(&self.root, pid.as_raw_nonzero().get().unsigned_abs());
                mask.map(Value::Cpus).map_err(|error| unread(knob, error))
            }
            Place::Scheduling(pid) => attr::get(*pid).map(Value::Scheduling).map_err(failed),
            Place::File(form, path) => form.read(path).map_err(failed),
            Place::Interrupt(path) => Form::List.read(path).map_err(failed),
            Place::Directory(path) => cgroups::exists(&self.root, path).map(Value::Present).map_err(failed),
            Place::Membership(tid, hierarchy) => {
                cgroups::cgroup_of(&self.task(*tid), hierarchy).map(Value::Cgroup).map_err(failed)
            }
            Place::Controller(cgroup, name) => {
                cgroups::is_on(&self.root, cgroup, name).map(Value::Present).map_err(failed)
            }
            Place::Running(pid) => {
                let tid = pid.as_raw_nonzero().get().unsigned_abs();
                let stat = Task::process(&self.root, tid).stat().map_err(|error| unread(knob, error))?;
                Ok(Value::Text(if stat.state == 'T' { STOPPED } else { RUNNING }.to_owned()))
            }
        }
    }

    fn set(&self, knob: &Knob, place: &Place, value: &Value) -> Result<(), Error> {
        let done = match (place, value) {
            (Place::Affinity(pid), Value::Cpus(_)) | (Place::Scheduling(pid), Value::Scheduling(_)) => {
                KernelValue::of(value).and_then(|value| value.write(*pid))
            }
            (Place::File(form, path), value) => form.write(path, value),
            (Place::Interrupt(path), value) => Form::List.write(path, value),
            (Place::Directory(path), Value::Present(present)) => cgroups::make(&self.root, path, *present),
            (Place::Controller(cgroup, name), Value::Present(on)) => cgroups::turn(&self.root, cgroup, name, *on),
            (Place::Running(pid), Value::Text(word)) if word == STOPPED => stop(*pid, || self.get(knob, place)),
            (Place::Running(pid), Value::Text(word)) if word == RUNNING => {
                kill_process(*pid, Signal::CONT).map_err(io::Error::from)
            }
            (Place::Membership(tid, hierarchy), Value::Cgroup(folder)) => {
                cgroups::put(&self.root, hierarchy, folder, *tid)
            }
            _ => Err(io::Error::other(format!("this kind of setting cannot have the value {value}"))),
        };
        done.map_err(|source| refused(self, knob, source))
    }
}

/// Stops a process, and waits until it has stopped: all its threads have to be scheduled for that.
fn stop(pid: Pid, now: impl Fn() -> Result<Value, Error>) -> io::Result<()> {
    kill_process(pid, Signal::STOP)?;
    let is_stopped = || matches!(now(), Ok(Value::Text(word)) if word == STOPPED);
    for _ in 0..STOP_LOOKS {
        if is_stopped() {
            break;
        }
        thread::sleep(STOP_WAIT);
    }
    Ok(())
}

/// Converts an error of reading /proc. "Not found" means that the thread is gone.
fn unread(knob: &Knob, error: machine::Error) -> Error {
    if error.is_gone() { Error::Gone(Box::new(knob.clone())) } else { error.into() }
}

impl KnobIo for LiveKnobIo {
    fn read(&self, knob: &Knob) -> Result<Value, Error> {
        self.get(knob, &self.place(knob)?)
    }

    fn write(&self, knob: &Knob, value: &Value) -> Result<(), Error> {
        self.set(knob, &self.place(knob)?, value)
    }

    fn exchange(&self, knob: &Knob, decide: &dyn Fn(&Value) -> Option<Value>) -> Result<Value, Error> {
        let place = self.place(knob)?;
        let now = self.get(knob, &place)?;
        if let Some(value) = decide(&now) {
            self.set(knob, &place, &value)?;
        }
        Ok(now)
    }

    fn writer(&self, knob: &Knob) -> Result<Box<dyn Writer>, Error> {
        let (Knob::Affinity(thread) | Knob::Scheduling(thread)) = knob else {
            let source = io::Error::other("only affinities and schedulings can be changed through a handle");
            return Err(Error::of(knob, source));
        };
        Ok(Box::new(LiveWriter { pid: self.pid_of(*thread, knob)? }))
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

    fn online_cpus(&self) -> Result<CpuSet, Error> {
        Ok(Topology::read_online(&self.root)?)
    }

    fn fixed(&self, thread: Thread) -> Option<Why> {
        let pid = self.pid_of(thread, &Knob::Affinity(thread)).ok()?;
        if self.task(thread.tid).stat().ok()?.is_bound() {
            return Some(Why::Bound);
        }
        attr::get(pid).is_ok_and(|now| now.policy == Scheduling::DEADLINE).then_some(Why::Deadline)
    }

    fn boot_id(&self) -> Result<String, Error> {
        Ok(self.root.read_text("/proc/sys/kernel/random/boot_id")?)
    }

    fn started_ns(&self, tid: u32) -> Option<u64> {
        let stat = self.task(tid).stat().ok()?;
        let has_ended = matches!(stat.state, 'Z' | 'X') || stat.is_exiting();
        (!has_ended).then_some(stat.start_boottime_ns)
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

    fn creator_of(&self, tid: u32) -> Option<u32> {
        let leader = Task::process(&self.root, tid).status().ok()?.tgid;
        if leader != tid {
            return Some(leader);
        }
        let stat = self.task(tid).stat().ok()?;
        (stat.parent != 0 && !stat.is_of_kernel()).then_some(stat.parent)
    }

    fn hierarchy_of(&self, cgroup: &Path) -> Result<PathBuf, Error> {
        let failed = |source| Error::of(&Knob::Directory(cgroup.to_owned()), source);
        Ok(cgroups::hierarchy_of(self.mounted()?, cgroup).map_err(failed)?.mount_point.clone())
    }

    fn members_of(&self, cgroup: &Path) -> Result<Vec<u32>, Error> {
        let failed = |source| Error::of(&Knob::Directory(cgroup.to_owned()), source);
        let hierarchy = cgroups::hierarchy_of(self.mounted()?, cgroup).map_err(failed)?;
        cgroups::threads_in(&self.root, hierarchy, cgroup).map_err(failed)
    }

    fn users_of(&self, cgroup: &Path, controller: &str) -> Result<Vec<PathBuf>, Error> {
        let failed = |source| Error::of(&Knob::Directory(cgroup.to_owned()), source);
        cgroups::users_of(&self.root, cgroup, controller).map_err(failed)
    }

    fn nested_cpusets(&self, file: &Path) -> Result<Vec<PathBuf>, Error> {
        let failed = |source| Error::of(&Knob::CpuList(file.to_owned()), source);
        cgroups::nested_cpusets(&self.root, self.mounted()?, file).map_err(failed)
    }

    fn all_threads(&self) -> Result<Vec<u32>, Error> {
        let threads = |pid: u32| Task::process(&self.root, pid).threads().unwrap_or_default();
        Ok(self.root.list_numbers("/proc")?.into_iter().flat_map(threads).collect())
    }

    fn forgets_masks(&self) -> bool {
        let release = self.root.read_text("/proc/sys/kernel/osrelease").ok();
        release.and_then(|text| Release::parse(text.trim())).is_some_and(|release| !release.is_at_least(6, 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Restored without it, the thread could not use this CPU when it is online again.
    #[test]
    fn an_affinity_has_its_offline_cpus() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for at in ["proc/77/status", "proc/77/task/77/status"] {
            write(at, "Tgid:\t77\nPid:\t77\nCpus_allowed_list:\t0-3\n");
        }
        write("sys/devices/system/cpu/online", "0-1,3\n");
        let knob_io = LiveKnobIo::new(Root::at(folder.path()));
        let knob = Knob::Affinity(Thread { tid: 77, start_ns: 0 });
        let mask = knob_io.get(&knob, &Place::Affinity(Pid::from_raw(77).unwrap())).unwrap();
        assert_eq!(mask, Value::Cpus("0-3".parse().unwrap()));
    }
}
