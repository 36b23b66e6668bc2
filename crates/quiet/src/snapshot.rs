//! What must be the same after a session as before it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use changes::Thread;
use machine::{CpuSet, Error, Root};

use crate::facts::Facts;
use crate::tasks::{TaskList, Tasks};

/// The settings of the checklist, the cpusets, the affinities of interrupts, and the CPUs and cpuset of each thread.
#[derive(Clone, Debug)]
pub struct Snapshot {
    files: BTreeMap<PathBuf, String>,
    interrupts: BTreeMap<String, CpuSet>,
    threads: BTreeMap<Thread, (CpuSet, Option<PathBuf>)>,
}

impl Snapshot {
    /// Reads everything.
    ///
    /// # Errors
    /// If the CPUs or the threads cannot be read.
    pub fn take(root: &Root) -> Result<Snapshot, Error> {
        let facts = Facts::read(root)?;
        let tasks = Tasks::of(root, facts.cpusets.mount())?.all()?;
        let interrupt = |one: crate::Interrupt| (format!("{} ({})", one.number, one.name), one.affinity);
        Ok(Snapshot {
            interrupts: facts.interrupts.into_iter().map(interrupt).collect(),
            files: facts.files,
            threads: tasks.into_iter().map(|task| (task.thread, (task.mask, task.cgroup))).collect(),
        })
    }

    /// Returns the value that a file had; `None` if it is not one of the checklist's or of a cpuset, or did not exist.
    #[must_use]
    pub fn file(&self, path: &Path) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Returns what is different in a later snapshot, one line each: files and interrupts, and threads that exist in
    /// both.
    #[must_use]
    pub fn differences(&self, later: &Snapshot) -> Vec<String> {
        let mut found = Vec::new();
        for path in self.files.keys().chain(later.files.keys().filter(|path| !self.files.contains_key(*path))) {
            let (before, after) = (self.files.get(path), later.files.get(path));
            if before != after {
                found.push(format!("{}: {before:?}, now {after:?}", path.display()));
            }
        }
        for (interrupt, before) in &self.interrupts {
            if let Some(after) = later.interrupts.get(interrupt).filter(|after| *after != before) {
                found.push(format!("interrupt {interrupt}: {before}, now {after}"));
            }
        }
        for (thread, before) in &self.threads {
            if let Some(after) = later.threads.get(thread).filter(|after| *after != before) {
                found.push(format!("thread {}: {before:?}, now {after:?}", thread.tid));
            }
        }
        found
    }

    /// Returns the threads that are new in a later snapshot and have not all of `cpus`, one line each: what they
    /// inherited was not restored, or their creator had it already.
    #[must_use]
    pub fn narrowed(&self, later: &Snapshot, cpus: &CpuSet) -> Vec<String> {
        let new = later.threads.iter().filter(|(thread, _)| !self.threads.contains_key(thread));
        let narrow = new.filter(|(_, (mask, _))| !cpus.is_subset(mask));
        narrow.map(|(thread, (mask, _))| format!("new thread {}: {mask}", thread.tid)).collect()
    }
}
