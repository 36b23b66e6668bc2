//! The threads of the machine, as far as it matters which of them can be kept away from the quiet CPUs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use changes::Thread;
use machine::cgroup::{Hierarchies, Hierarchy, Version};
use machine::limits::{Who, allowed_cpus};
use machine::process;
use machine::{CpuSet, Error, Root};

/// A thread of a program or of the kernel. Threads that the kernel lets nobody move are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The thread.
    pub thread: Thread,
    /// The process.
    pub process: u32,
    /// Whether it is a thread of the kernel.
    pub is_of_kernel: bool,
    /// The CPUs that it may use.
    pub mask: CpuSet,
    /// Folder of its cgroup. `None` if it has none in the part of the hierarchy that is mounted here, and for kthreadd,
    /// which never leaves the root (cgroup_init_kthreadd in include/linux/cgroup.h).
    pub cgroup: Option<PathBuf>,
}

/// Lists threads: those of this machine, or in tests those of a made-up one.
pub trait TaskList {
    /// Returns all threads that can be moved. Threads that end meanwhile are left out.
    ///
    /// # Errors
    /// If the processes cannot be listed.
    fn all(&self) -> Result<Vec<Task>, Error>;

    /// Returns the ids of all threads in the root of the hierarchy of cpusets, those included that nobody can move.
    ///
    /// # Errors
    /// If they cannot be listed.
    fn ids_in_root(&self) -> Result<Vec<u32>, Error>;

    /// Returns the ids of the threads in a cpuset, by its folder; none if it is gone.
    fn ids_in(&self, folder: &Path) -> Vec<u32>;

    /// Returns all cpusets below the root of the hierarchy, by their folders, with their CPUs; none in version 2, where new ones
    /// have the CPUs of the one around them, which partitions are not among.
    ///
    /// # Errors
    /// If they cannot be listed.
    fn cpusets(&self) -> Result<BTreeMap<PathBuf, CpuSet>, Error>;

    /// Returns the thread with this id; `None` if it has ended or cannot be moved.
    fn one(&self, tid: u32) -> Option<Task>;

    /// Returns the CPUs that the thread with this id may use now; `None` if it has ended. Takes far less than reading the
    /// thread.
    fn mask(&self, tid: u32) -> Option<CpuSet>;
}

/// The threads below a [`Root`].
#[derive(Debug)]
pub struct Tasks {
    root: Root,
    hierarchy: Option<Hierarchy>,
}

impl Tasks {
    /// Prepares to read threads and their cgroups in the hierarchy with this mount point, if there is one.
    ///
    /// # Errors
    /// If the mounts cannot be read.
    pub fn of(root: &Root, hierarchy: Option<&Path>) -> Result<Tasks, Error> {
        let mounted = hierarchy.map(|_| Hierarchies::read(root)).transpose()?;
        let hierarchy = mounted.zip(hierarchy).and_then(|(all, mount)| all.of_folder(mount).cloned());
        Ok(Tasks { root: root.clone(), hierarchy })
    }

    fn listed_in(&self, hierarchy: &Hierarchy, folder: &Path) -> Result<Vec<u32>, Error> {
        let list = match hierarchy.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        };
        let text = self.root.read_text(folder.join(list))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    fn read(&self, process: u32, tid: u32) -> Option<Task> {
        let task = process::Task::thread(&self.root, process, tid);
        let stat = task.stat().ok().filter(|stat| !stat.is_bound() && !matches!(stat.state, 'Z' | 'X'))?;
        let is_kthreadd = stat.is_of_kernel() && stat.parent == 0;
        let hierarchy = self.hierarchy.as_ref().filter(|_| !is_kthreadd);
        let cgroup = hierarchy.and_then(|hierarchy| Some(hierarchy.cgroup_of(&task.cgroups().ok()?)?.folder));
        Some(Task {
            thread: Thread { tid, start_ns: stat.start_boottime_ns },
            process,
            is_of_kernel: stat.is_of_kernel(),
            mask: self.mask(tid)?,
            cgroup,
        })
    }
}

/// Returns the cpusets of version 1 below the root of their hierarchy, by their folders, with their CPUs. One that is removed
/// meanwhile is left out.
///
/// # Errors
/// If the root cannot be listed.
pub fn cpusets_below(root: &Root, mount: &Path) -> Result<BTreeMap<PathBuf, CpuSet>, Error> {
    let file = if root.exists(mount.join("cpuset.cpus")) { "cpuset.cpus" } else { "cpus" };
    let mut cpusets = BTreeMap::new();
    let mut folders = vec![mount.to_owned()];
    while let Some(folder) = folders.pop() {
        let path = root.path(&folder);
        // A folder has a link for each one in it, its own and its name's. One without folders need not be read: each cpuset has
        // twenty files.
        if fs::metadata(&path).is_ok_and(|found| found.nlink() == 2) {
            continue;
        }
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries.filter_map(Result::ok),
            Err(source) if folder == mount => return Err(Error::Read { path, source }),
            Err(_) => continue,
        };
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let inner = folder.join(entry.file_name());
            if let Ok(text) = root.read_text(inner.join(file)) {
                cpusets.insert(inner.clone(), text.trim().parse().unwrap_or_default());
                folders.push(inner);
            }
        }
    }
    Ok(cpusets)
}

impl TaskList for Tasks {
    fn all(&self) -> Result<Vec<Task>, Error> {
        let mut tasks = Vec::new();
        for pid in self.root.list_numbers("/proc")? {
            let threads = process::Task::process(&self.root, pid).threads().unwrap_or_default();
            tasks.extend(threads.into_iter().filter_map(|tid| self.read(pid, tid)));
        }
        Ok(tasks)
    }

    fn ids_in_root(&self) -> Result<Vec<u32>, Error> {
        let Some(hierarchy) = &self.hierarchy else { return Ok(Vec::new()) };
        self.listed_in(hierarchy, &hierarchy.mount_point)
    }

    fn ids_in(&self, folder: &Path) -> Vec<u32> {
        let hierarchy = self.hierarchy.as_ref();
        hierarchy.and_then(|hierarchy| self.listed_in(hierarchy, folder).ok()).unwrap_or_default()
    }

    fn cpusets(&self) -> Result<BTreeMap<PathBuf, CpuSet>, Error> {
        match &self.hierarchy {
            Some(hierarchy) if hierarchy.version == Version::V1 => cpusets_below(&self.root, &hierarchy.mount_point),
            _ => Ok(BTreeMap::new()),
        }
    }

    fn one(&self, tid: u32) -> Option<Task> {
        // The folder of a process exists under the id of each of its threads.
        let status = process::Task::process(&self.root, tid).status().ok()?;
        self.read(status.tgid, tid)
    }

    fn mask(&self, tid: u32) -> Option<CpuSet> {
        allowed_cpus(&self.root, Who::Task(tid)).ok()
    }
}
