//! A machine for tests: files below a folder, and threads and cgroups as the kernel treats them. It records each access
//! of a knob, and refuses accesses as it is told.
//!
//! Files are read and written by [`LiveKnobIo`] below the folder, those of cgroups by the rules of `cgroups`. Threads are
//! in memory, one for each process. When a thread changes its cgroup, or its cgroup its CPUs, the thread's mask becomes
//! these CPUs, or, if the program has asked for a mask, the common ones. What the kernel itself had set is lost. If the file
//! `osrelease` names a kernel before 6.2, what the program has asked for is lost, too.

mod cgroups;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use machine::{CpuSet, Root};

use self::cgroups::Cgroups;
use crate::error::Error;
use crate::knob::{Knob, RUNNING, STOPPED, Thread};
use crate::knob_io::{KnobIo, LiveKnobIo, Writer, refused};
use crate::unmoved::Why;
use crate::value::{Scheduling, Value};

/// A thread of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedThread {
    /// Start time, ns.
    pub start_ns: u64,
    /// The mask that the thread has.
    pub mask: CpuSet,
    /// The mask that the program has asked for; `None` if the kernel has set the mask.
    pub asked: Option<CpuSet>,
    /// The task that it comes from: the first thread of its process, or the parent of a first thread.
    pub creator: Option<u32>,
    /// Its cgroup in each hierarchy, by mount point.
    pub cgroups: BTreeMap<PathBuf, PathBuf>,
    /// Whether the kernel refuses to move it to another cgroup, as kthreadd.
    pub is_fixed: bool,
    /// Whether its process is stopped.
    pub is_stopped: bool,
}

impl RecordedThread {
    /// Gives it the CPUs of its cgroup, as far as its program wants them.
    fn confine(&mut self, cpus: CpuSet, forgets_masks: bool) {
        self.asked = self.asked.take().filter(|_| !forgets_masks);
        let common = self.asked.as_ref().map(|asked| asked.intersection(&cpus)).filter(|common| !common.is_empty());
        self.mask = common.unwrap_or(cpus);
    }
}

/// An access of a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The knob was read.
    Read(Knob),
    /// The knob was written.
    Write(Knob, Value),
}

/// What a refused access answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This error of the kernel.
    Errno(i32),
    /// The file or thread does not exist any more.
    Gone,
}

/// The machine.
#[derive(Debug)]
pub struct Recorder {
    root: Root,
    files: LiveKnobIo,
    cgroups: Cgroups,
    threads: RefCell<BTreeMap<u32, RecordedThread>>,
    log: RefCell<Vec<Access>>,
    answers: RefCell<BTreeMap<PathBuf, String>>,
    /// Names of the interrupts whose affinity the kernel does not change, with its answer.
    unmovable: RefCell<BTreeMap<String, i32>>,
    /// Threads whose affinity the kernel does not let anybody change, and why.
    fixed: RefCell<BTreeMap<u32, Why>>,
    /// Before the access with this number, the kernel binds this thread to this CPU.
    binding: Cell<Option<(usize, u32, u32)>>,
    /// Whether the kernel leaves offline CPUs out of each mask that somebody sets (before Linux 6.3).
    drops_offline: Cell<bool>,
    refusal: Cell<Option<(usize, Refusal)>>,
    /// Whether all accesses from the refused one on are refused: the process was killed there.
    is_stopped: Cell<bool>,
}

impl Recorder {
    /// Makes a machine of the files below `folder`, without threads.
    ///
    /// # Errors
    /// Fails if the folder has no /proc/self/mountinfo.
    pub fn at(folder: &Path) -> Result<Recorder, Error> {
        let root = Root::at(folder);
        Ok(Recorder {
            cgroups: Cgroups::read(&root)?,
            files: LiveKnobIo::new(root.clone()),
            root,
            threads: RefCell::default(),
            log: RefCell::default(),
            answers: RefCell::default(),
            unmovable: RefCell::default(),
            fixed: RefCell::default(),
            binding: Cell::default(),
            drops_offline: Cell::default(),
            refusal: Cell::default(),
            is_stopped: Cell::default(),
        })
    }

    /// Adds a thread, or replaces the one with this id.
    pub fn add(&self, tid: u32, thread: RecordedThread) {
        thread.cgroups.values().for_each(|folder| self.cgroups.list(folder, tid, true));
        self.threads.borrow_mut().insert(tid, thread);
    }

    /// Adds a thread with everything that its creator has. Does nothing if there is no such creator.
    pub fn bear(&self, tid: u32, creator: u32) {
        let of_creator = self.threads.borrow().get(&creator).cloned();
        if let Some(of_creator) = of_creator {
            self.add(
                tid,
                RecordedThread {
                    creator: Some(creator),
                    start_ns: of_creator.start_ns + 1,
                    is_fixed: false,
                    ..of_creator
                },
            );
        }
    }

    /// Ends a thread.
    pub fn end(&self, tid: u32) {
        self.fixed.borrow_mut().remove(&tid);
        if let Some(thread) = self.threads.borrow_mut().remove(&tid) {
            thread.cgroups.values().for_each(|folder| self.cgroups.list(folder, tid, false));
        }
    }

    /// The program sets its own mask.
    pub fn ask(&self, tid: u32, mask: &CpuSet) {
        if let Some(thread) = self.threads.borrow_mut().get_mut(&tid) {
            thread.asked = Some(mask.clone());
            thread.confine(self.kept(thread), false);
        }
    }

    /// Returns the CPUs that all cgroups of a thread have.
    fn possible(&self, thread: &RecordedThread) -> CpuSet {
        let all = thread.cgroups.values().map(|folder| self.cgroups.cpus(folder));
        all.reduce(|one, other| one.intersection(&other)).unwrap_or_else(|| thread.mask.clone())
    }

    /// Returns the CPUs that the kernel leaves in a thread's mask: in the root cpuset also those that are offline.
    fn kept(&self, thread: &RecordedThread) -> CpuSet {
        let all = thread.cgroups.values().map(|folder| self.kept_in(folder));
        all.reduce(|one, other| one.intersection(&other)).unwrap_or_else(|| thread.mask.clone())
    }

    fn kept_in(&self, folder: &Path) -> CpuSet {
        let is_root = folder.parent().is_none_or(|above| !self.cgroups.contains(above));
        let cpus = self.cgroups.cpus(folder);
        if is_root { cpus.union(&self.offline()) } else { cpus }
    }

    fn offline(&self) -> CpuSet {
        let cpus =
            |name: &str| self.root.read_cpus_if_present(format!("/sys/devices/system/cpu/{name}")).ok().flatten();
        cpus("possible").zip(cpus("online")).map(|(all, online)| all.difference(&online)).unwrap_or_default()
    }

    /// From now on the kernel leaves offline CPUs out of each mask that somebody sets, as before Linux 6.3.
    pub fn drop_offline(&self) {
        self.drops_offline.set(true);
    }

    /// From now on the kernel answers EIO when the affinity of this interrupt is written: it manages it.
    pub fn manage(&self, interrupt: &str) {
        self.unmovable.borrow_mut().insert(interrupt.to_owned(), libc::EIO);
    }

    /// From now on the kernel answers ENOSPC when the affinity of this interrupt is written: the other CPUs have no vector left.
    pub fn exhaust(&self, interrupt: &str) {
        self.unmovable.borrow_mut().insert(interrupt.to_owned(), libc::ENOSPC);
    }

    /// The kernel binds a thread to a CPU (PF_NO_SETAFFINITY).
    pub fn bind(&self, tid: u32, cpu: u32) {
        if let Some(found) = self.threads.borrow_mut().get_mut(&tid) {
            (found.mask, found.asked) = ([cpu].into_iter().collect(), None);
            self.fixed.borrow_mut().insert(tid, Why::Bound);
        }
    }

    /// The kernel binds a thread to a CPU before the access with this number, counted from now on, the first being 0.
    pub fn bind_before(&self, number: usize, tid: u32, cpu: u32) {
        self.log.borrow_mut().clear();
        self.binding.set(Some((number, tid, cpu)));
    }

    /// The program puts a thread into SCHED_DEADLINE.
    pub fn make_deadline(&self, tid: u32) {
        self.fixed.borrow_mut().insert(tid, Why::Deadline);
    }

    /// From now on the kernel answers a write of this file with this text instead of the value that was written.
    pub fn answer(&self, path: &Path, text: &str) {
        self.answers.borrow_mut().insert(path.to_owned(), text.to_owned());
    }

    /// Returns all threads by their ids.
    #[must_use]
    pub fn threads(&self) -> BTreeMap<u32, RecordedThread> {
        self.threads.borrow().clone()
    }

    /// Returns all accesses since the last call.
    #[must_use]
    pub fn take_log(&self) -> Vec<Access> {
        self.log.take()
    }

    /// Refuses the access with this number, counted from now on, the first being 0.
    pub fn refuse(&self, number: usize, refusal: Refusal) {
        self.log.borrow_mut().clear();
        self.refusal.set(Some((number, refusal)));
        self.is_stopped.set(false);
    }

    /// Refuses all accesses from this number on, as if the process were killed before it.
    pub fn stop_before(&self, number: usize) {
        self.refuse(number, Refusal::Errno(libc::EIO));
        self.is_stopped.set(true);
    }

    /// Refuses nothing any more. Returns whether anything was refused.
    pub fn refuse_nothing(&self) -> bool {
        let was_refused = self.refusal.get().is_some_and(|(number, _)| self.log.borrow().len() > number);
        self.refusal.set(None);
        was_refused
    }

    fn access(&self, access: Access) -> Result<(), Error> {
        let number = self.log.borrow().len();
        self.log.borrow_mut().push(access.clone());
        if let Some((_, tid, cpu)) = self.binding.get().filter(|(at, ..)| *at == number) {
            self.bind(tid, cpu);
        }
        let (knob, is_write) = match access {
            Access::Read(knob) => (knob, false),
            Access::Write(knob, _) => (knob, true),
        };
        let answer = match &knob {
            Knob::Interrupt { name, .. } if is_write => self.unmovable.borrow().get(name).copied(),
            Knob::Affinity(thread) if is_write => self.fixed.borrow().get(&thread.tid).map(|why| match why {
                Why::Deadline => libc::EBUSY,
                _ => libc::EINVAL,
            }),
            _ => None,
        };
        let errno = match self.refusal.get() {
            Some((at, Refusal::Gone)) if number == at => {
                knob.thread().iter().for_each(|thread| self.end(thread.tid));
                return Err(Error::Gone(Box::new(knob)));
            }
            Some((at, Refusal::Errno(errno))) if number == at || (number > at && self.is_stopped.get()) => errno,
            _ => match answer {
                Some(errno) => errno,
                None => return Ok(()),
            },
        };
        let source = io::Error::from_raw_os_error(errno);
        Err(if is_write { refused(self, &knob, source) } else { Error::of(&knob, source) })
    }

    fn thread(&self, thread: Thread, knob: &Knob) -> Result<RecordedThread, Error> {
        let threads = self.threads.borrow();
        let found = threads.get(&thread.tid).filter(|found| found.start_ns == thread.start_ns);
        found.cloned().ok_or_else(|| Error::Gone(Box::new(knob.clone())))
    }

    /// Makes a change of cgroups. Threads whose cgroup has other CPUs after it get them.
    fn changing<T>(&self, change: impl FnOnce() -> T) -> T {
        let folders: BTreeSet<PathBuf> =
            self.threads.borrow().values().flat_map(|thread| thread.cgroups.values().cloned()).collect();
        let cpus = |folder: PathBuf| (folder.clone(), self.kept_in(&folder));
        let before: BTreeMap<PathBuf, CpuSet> = folders.into_iter().map(cpus).collect();
        let changed = change();
        for (folder, before) in before {
            let cpus = self.kept_in(&folder);
            if cpus != before {
                let mut threads = self.threads.borrow_mut();
                let is_inside = |thread: &RecordedThread| thread.cgroups.values().any(|its| *its == folder);
                // Those that are bound keep their CPUs (update_tasks_cpumask in kernel/cgroup/cpuset.c).
                let is_bound = |tid: &u32| self.fixed.borrow().get(tid) == Some(&Why::Bound);
                let inside = threads.iter_mut().filter(|(tid, thread)| is_inside(thread) && !is_bound(tid));
                inside.for_each(|(_, thread)| thread.confine(cpus.clone(), self.forgets_masks()));
            }
        }
        changed
    }

    /// Moves a thread to a cgroup of a hierarchy. In version 2, its mask stays if both cgroups have the same CPUs.
    fn put(&self, thread: Thread, hierarchy: &Path, folder: &Path) -> io::Result<()> {
        if let Some(refusal) = self.cgroups.refusal(folder) {
            return Err(refusal);
        }
        let mut threads = self.threads.borrow_mut();
        let Some(found) = threads.get_mut(&thread.tid) else { return Err(io::Error::from_raw_os_error(libc::ESRCH)) };
        let before = found.cgroups.insert(hierarchy.to_owned(), folder.to_owned());
        before.iter().for_each(|before| self.cgroups.list(before, thread.tid, false));
        self.cgroups.list(folder, thread.tid, true);
        let cpus = self.kept_in(folder);
        let had_them = before.is_some_and(|before| self.kept_in(&before) == cpus);
        if !had_them || !self.cgroups.is_v2(folder) {
            found.confine(cpus, self.forgets_masks());
        }
        Ok(())
    }

    /// Writes a file as the kernel does: what it shows then may be something else.
    fn write_file(&self, knob: &Knob, value: &Value) -> Result<(), Error> {
        let failed = |source| Error::of(knob, source);
        let Some(path) = knob.file() else { return self.files.write(knob, value) };
        if let Value::Cpus(cpus) = value {
            self.cgroups.check(path, cpus).map_err(failed)?;
        }
        self.files.write(knob, value)?;
        self.cgroups.judge(path).map_err(failed)?;
        let requested = self.root.path(path.with_file_name("cpumask_requested"));
        if path.ends_with("cpumask") && requested.exists() {
            fs::copy(self.root.path(path), requested).map_err(failed)?;
        }
        let answers = self.answers.borrow();
        answers.get(path).map_or(Ok(()), |text| fs::write(self.root.path(path), text).map_err(failed))
    }
}

impl KnobIo for Recorder {
    fn read(&self, knob: &Knob) -> Result<Value, Error> {
        self.access(Access::Read(knob.clone()))?;
        match knob {
            Knob::Affinity(thread) => Ok(Value::Cpus(self.thread(*thread, knob)?.mask)),
            Knob::Scheduling(thread) => self.thread(*thread, knob).map(|_| Value::Scheduling(Scheduling::default())),
            Knob::Membership { thread, hierarchy } => {
                let cgroup = self.thread(*thread, knob)?.cgroups.get(hierarchy).cloned();
                cgroup.map(Value::Cgroup).ok_or_else(|| Error::of(knob, io::Error::other("it is in no cgroup")))
            }
            Knob::Running(thread) => {
                let is_stopped = self.thread(*thread, knob)?.is_stopped;
                Ok(Value::Text(if is_stopped { STOPPED } else { RUNNING }.to_owned()))
            }
            knob => self.files.read(knob),
        }
    }

    fn write(&self, knob: &Knob, value: &Value) -> Result<(), Error> {
        self.access(Access::Write(knob.clone(), value.clone()))?;
        let failed = |source| Error::of(knob, source);
        match (knob, value) {
            (Knob::Affinity(thread), Value::Cpus(mask)) => {
                let found = self.thread(*thread, knob)?;
                let possible = self.possible(&found).intersection(mask);
                if possible.is_empty() {
                    return Err(failed(io::Error::from_raw_os_error(libc::EINVAL)));
                }
                let kept = if self.drops_offline.get() { possible } else { self.kept(&found).intersection(mask) };
                if let Some(found) = self.threads.borrow_mut().get_mut(&thread.tid) {
                    (found.mask, found.asked) = (kept, Some(mask.clone()));
                }
                Ok(())
            }
            (Knob::Membership { thread, hierarchy }, Value::Cgroup(folder)) => {
                if self.thread(*thread, knob)?.is_fixed || self.fixed(*thread) == Some(Why::Bound) {
                    return Err(refused(self, knob, io::Error::from_raw_os_error(libc::EINVAL)));
                }
                self.put(*thread, hierarchy, folder).map_err(failed)
            }
            (Knob::Running(thread), Value::Text(word)) => {
                self.thread(*thread, knob)?;
                if let Some(found) = self.threads.borrow_mut().get_mut(&thread.tid) {
                    found.is_stopped = word == STOPPED;
                }
                Ok(())
            }
            (Knob::Controller { cgroup, name }, Value::Present(on)) => {
                self.changing(|| self.cgroups.turn(cgroup, name, *on)).map_err(failed)
            }
            (Knob::Directory(folder), Value::Present(present)) => {
                self.changing(|| self.cgroups.make(folder, *present)).map_err(failed)
            }
            _ if knob.file().is_some_and(|path| self.cgroups.contains(path)) => {
                self.changing(|| self.write_file(knob, value))
            }
            _ => self.write_file(knob, value),
        }
    }

    fn exchange(&self, knob: &Knob, decide: &dyn Fn(&Value) -> Option<Value>) -> Result<Value, Error> {
        let now = self.read(knob)?;
        decide(&now).map_or(Ok(()), |value| self.write(knob, &value))?;
        Ok(now)
    }

    fn writer(&self, knob: &Knob) -> Result<Box<dyn Writer>, Error> {
        Err(Error::of(knob, io::Error::other("this machine has no handles")))
    }

    fn way_back(&self, _knob: &Knob, _original: &Value, _wanted: &Value) -> Result<(), Error> {
        Ok(())
    }

    fn possible_cpus(&self, thread: Thread) -> Result<CpuSet, Error> {
        let found = self.thread(thread, &Knob::Affinity(thread))?;
        Ok(self.possible(&found))
    }

    fn online_cpus(&self) -> Result<CpuSet, Error> {
        self.files.online_cpus()
    }

    fn fixed(&self, thread: Thread) -> Option<Why> {
        self.fixed.borrow().get(&thread.tid).copied()
    }

    fn boot_id(&self) -> Result<String, Error> {
        self.files.boot_id()
    }

    fn started_ns(&self, tid: u32) -> Option<u64> {
        self.threads.borrow().get(&tid).map(|thread| thread.start_ns)
    }

    fn threads_of(&self, leader: Thread) -> Result<Vec<u32>, Error> {
        let knob = Knob::Affinity(leader);
        self.thread(leader, &knob).map(|_| vec![leader.tid])
    }

    fn creator_of(&self, tid: u32) -> Option<u32> {
        self.threads.borrow().get(&tid)?.creator
    }

    fn hierarchy_of(&self, cgroup: &Path) -> Result<PathBuf, Error> {
        self.files.hierarchy_of(cgroup)
    }

    fn members_of(&self, cgroup: &Path) -> Result<Vec<u32>, Error> {
        self.files.members_of(cgroup)
    }

    fn users_of(&self, cgroup: &Path, controller: &str) -> Result<Vec<PathBuf>, Error> {
        self.files.users_of(cgroup, controller)
    }

    fn nested_cpusets(&self, file: &Path) -> Result<Vec<PathBuf>, Error> {
        self.files.nested_cpusets(file)
    }

    fn all_threads(&self) -> Result<Vec<u32>, Error> {
        Ok(self.threads.borrow().keys().copied().collect())
    }

    fn forgets_masks(&self) -> bool {
        self.files.forgets_masks()
    }
}
