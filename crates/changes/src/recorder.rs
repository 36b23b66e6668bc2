//! A machine for tests: files below a folder, and threads and cgroups as the kernel treats them. It records each access
//! of a knob, and refuses accesses as it is told.
//!
//! Files are read and written by [`LiveKnobIo`] below the folder. Threads are in memory. A new cgroup gets the files of
//! the cgroup above it, empty, as the kernel makes them; one with members cannot be removed. When a thread changes its
//! cgroup, its mask becomes the cpuset's CPUs, or, if the program has asked for a mask, the common ones (Linux 6.2);
//! what the kernel itself had set is lost.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use machine::cgroup::{Hierarchies, Hierarchy, Version};
use machine::{CpuSet, Root};

use crate::error::Error;
use crate::knob::{Knob, RUNNING, STOPPED, Thread};
use crate::knob_io::{KnobIo, LiveKnobIo, Writer};
use crate::value::{Scheduling, Value};

/// Files that cgroups below one have if its controller cpuset is on, with their first values.
const OF_CPUSET: [(&str, &str); 2] = [("cpuset.cpus", "\n"), ("cpuset.cpus.partition", "member\n")];

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
    /// Whether the kernel refuses to move it: PF_NO_SETAFFINITY.
    pub is_fixed: bool,
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
    mounted: Hierarchies,
    threads: RefCell<BTreeMap<u32, RecordedThread>>,
    log: RefCell<Vec<Access>>,
    answers: RefCell<BTreeMap<PathBuf, String>>,
    /// First threads of stopped processes.
    stopped: RefCell<BTreeSet<u32>>,
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
            mounted: Hierarchies::read(&root)?,
            files: LiveKnobIo::new(root.clone()),
            root,
            threads: RefCell::default(),
            log: RefCell::default(),
            answers: RefCell::default(),
            stopped: RefCell::default(),
            refusal: Cell::default(),
            is_stopped: Cell::default(),
        })
    }

    /// Adds a thread, or replaces the one with this id.
    pub fn add(&self, tid: u32, thread: RecordedThread) {
        thread.cgroups.values().for_each(|folder| self.list(folder, tid, true));
        self.threads.borrow_mut().insert(tid, thread);
    }

    /// Adds a thread with everything that its creator has. Does nothing if there is no such creator.
    pub fn bear(&self, tid: u32, creator: u32) {
        let of_creator = self.threads.borrow().get(&creator).cloned();
        if let Some(of_creator) = of_creator {
            self.add(tid, RecordedThread { creator: Some(creator), start_ns: of_creator.start_ns + 1, ..of_creator });
        }
    }

    /// Ends a thread.
    pub fn end(&self, tid: u32) {
        if let Some(thread) = self.threads.borrow_mut().remove(&tid) {
            thread.cgroups.values().for_each(|folder| self.list(folder, tid, false));
        }
    }

    /// The program sets its own mask.
    pub fn ask(&self, tid: u32, mask: &CpuSet) {
        if let Some(thread) = self.threads.borrow_mut().get_mut(&tid) {
            (thread.mask, thread.asked) = (mask.clone(), Some(mask.clone()));
        }
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
        let knob = match &access {
            Access::Read(knob) | Access::Write(knob, _) => knob.clone(),
        };
        self.log.borrow_mut().push(access);
        match self.refusal.get() {
            Some((at, refusal)) if number == at || (number > at && self.is_stopped.get()) => match refusal {
                Refusal::Gone => Err(Error::Gone(Box::new(knob))),
                Refusal::Errno(errno) => Err(Error::of(&knob, io::Error::from_raw_os_error(errno))),
            },
            _ => Ok(()),
        }
    }

    fn thread(&self, thread: Thread, knob: &Knob) -> Result<RecordedThread, Error> {
        let threads = self.threads.borrow();
        let found = threads.get(&thread.tid).filter(|found| found.start_ns == thread.start_ns);
        found.cloned().ok_or_else(|| Error::Gone(Box::new(knob.clone())))
    }

    /// Writes or removes a line in the list of a cgroup's threads.
    fn list(&self, folder: &Path, tid: u32, present: bool) {
        let path = self.root.path(folder.join(self.members_file(folder)));
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().filter(|line| *line != tid.to_string()).map(str::to_owned).collect();
        if present {
            lines.push(tid.to_string());
        }
        // A cgroup that was removed has no list.
        let _ = fs::write(path, lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    }

    fn hierarchy(&self, folder: &Path) -> Option<&Hierarchy> {
        self.mounted.of_folder(folder)
    }

    fn members_file(&self, folder: &Path) -> &'static str {
        let is_v2 = self.hierarchy(folder).is_some_and(|hierarchy| hierarchy.version == Version::V2);
        if is_v2 { "cgroup.threads" } else { "tasks" }
    }

    /// Returns the CPUs of a cgroup's cpuset: those of the nearest cgroup that has any.
    fn cpuset(&self, folder: &Path) -> CpuSet {
        let own = |folder: &Path| {
            let text = fs::read_to_string(self.root.path(folder.join("cpuset.cpus"))).ok()?;
            text.trim().parse::<CpuSet>().ok().filter(|cpus| !cpus.is_empty())
        };
        folder.ancestors().find_map(own).unwrap_or_default()
    }

    fn make(&self, folder: &Path, present: bool) -> io::Result<()> {
        let path = self.root.path(folder);
        if present {
            fs::create_dir(&path)?;
            for file in fs::read_dir(path.parent().unwrap_or(&path))?.flatten().filter(|file| file.path().is_file()) {
                fs::write(path.join(file.file_name()), "")?;
            }
            return Ok(());
        }
        let has_children = fs::read_dir(&path)?.flatten().any(|file| file.path().is_dir());
        let members = fs::read_to_string(path.join(self.members_file(folder)))?;
        if has_children || !members.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        fs::remove_dir_all(path)
    }

    /// Turns a controller on or off for the cgroups below one: their files come and go.
    fn turn(&self, cgroup: &Path, name: &str, on: bool) -> io::Result<()> {
        let path = self.root.path(cgroup.join("cgroup.subtree_control"));
        let text = fs::read_to_string(&path)?;
        let mut words: Vec<&str> = text.split_ascii_whitespace().filter(|word| *word != name).collect();
        words.extend(on.then_some(name));
        fs::write(path, words.join(" ") + "\n")?;
        for folder in fs::read_dir(self.root.path(cgroup))?.flatten().filter(|entry| entry.path().is_dir()) {
            for (file, text) in OF_CPUSET {
                let path = folder.path().join(file);
                if !on {
                    fs::remove_file(path)?;
                } else if !path.exists() {
                    fs::write(path, text)?;
                }
            }
        }
        Ok(())
    }

    /// Moves a thread to a cgroup of a hierarchy.
    fn put(&self, thread: Thread, hierarchy: &Path, folder: &Path) -> io::Result<()> {
        if !self.root.path(folder).is_dir() {
            return Err(io::Error::other(format!("there is no {}", folder.display())));
        }
        let mut threads = self.threads.borrow_mut();
        let Some(found) = threads.get_mut(&thread.tid) else { return Err(io::Error::from_raw_os_error(libc::ESRCH)) };
        if let Some(before) = found.cgroups.insert(hierarchy.to_owned(), folder.to_owned()) {
            self.list(&before, thread.tid, false);
        }
        self.list(folder, thread.tid, true);
        let cpus = self.cpuset(folder);
        let common = found.asked.as_ref().map(|asked| asked.intersection(&cpus)).filter(|common| !common.is_empty());
        found.mask = common.unwrap_or(cpus);
        Ok(())
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
                self.thread(*thread, knob)?;
                let is_stopped = self.stopped.borrow().contains(&thread.tid);
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
                let possible =
                    found.cgroups.values().fold(mask.clone(), |mask, folder| mask.intersection(&self.cpuset(folder)));
                if possible.is_empty() {
                    return Err(failed(io::Error::from_raw_os_error(libc::EINVAL)));
                }
                if let Some(found) = self.threads.borrow_mut().get_mut(&thread.tid) {
                    (found.mask, found.asked) = (possible, Some(mask.clone()));
                }
                Ok(())
            }
            (Knob::Membership { thread, hierarchy }, Value::Cgroup(folder)) => {
                if self.thread(*thread, knob)?.is_fixed {
                    let source = io::Error::from_raw_os_error(libc::EINVAL);
                    return Err(Error::Unmovable { knob: Box::new(knob.clone()), source });
                }
                self.put(*thread, hierarchy, folder).map_err(failed)
            }
            (Knob::Controller { cgroup, name }, Value::Present(on)) => self.turn(cgroup, name, *on).map_err(failed),
            (Knob::Running(thread), Value::Text(word)) => {
                self.thread(*thread, knob)?;
                let mut stopped = self.stopped.borrow_mut();
                _ = if word == STOPPED { stopped.insert(thread.tid) } else { stopped.remove(&thread.tid) };
                Ok(())
            }
            (Knob::Directory(folder), Value::Present(present)) => self.make(folder, *present).map_err(failed),
            _ => {
                self.files.write(knob, value)?;
                let answers = self.answers.borrow();
                match knob.file().and_then(|path| Some((path, answers.get(path)?))) {
                    Some((path, text)) => fs::write(self.root.path(path), text).map_err(failed),
                    None => Ok(()),
                }
            }
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
        Ok(found.cgroups.values().next().map_or(found.mask, |folder| self.cpuset(folder)))
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
}
