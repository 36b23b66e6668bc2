//! Number of CPUs that a process can really use, from its affinity mask, its cpuset and its CPU quota.

use std::io;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::sched_getaffinity;

use crate::cgroup::{CpuQuota, Hierarchies};
use crate::cpulist::CpuSet;
use crate::error::Error;
use crate::process::Task;
use crate::root::{Root, present};
use crate::topology::Topology;

/// The task whose limits are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The calling thread, whose limits its child processes inherit.
    Own,
    /// The main thread of a process, or any thread by its id.
    Task(u32),
}

impl Who {
    /// Returns the task's folder in /proc.
    #[must_use]
    pub fn task(self, root: &Root) -> Task {
        match self {
            Who::Own => Task::own(root),
            Who::Task(id) => Task::process(root, id),
        }
    }
}

/// The CPUs a process can use.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CpuLimits {
    /// CPUs that the threads may run on: online, in the cpuset, and in the affinity mask.
    pub allowed: CpuSet,
    /// The tightest CPU quota that applies to the process; `None` if there is no quota.
    pub quota: Option<CpuQuota>,
}

impl CpuLimits {
    /// Reads the allowed CPUs and the quota.
    ///
    /// # Errors
    /// When the task does not exist, or a file about it cannot be read or is malformed.
    pub fn read(root: &Root, who: Who) -> Result<Self, Error> {
        let allowed = allowed_cpus(root, who)?;
        // The task existed a moment ago. If these files are missing, the kernel has no cgroups.
        let memberships = present(who.task(root).cgroups())?.unwrap_or_default();
        let hierarchies = present(Hierarchies::read(root))?.unwrap_or_default();
        let cgroup = hierarchies.cgroup_of(&memberships, "cpu")?;
        let quota = cgroup.map(|cgroup| cgroup.cpu_quota(root)).transpose()?.flatten();
        Ok(Self { allowed, quota })
    }
}

/// Returns the CPUs that a task may run on. On the running machine they come from `sched_getaffinity`, elsewhere from
/// the task's status and the online CPUs, which gives the same result.
///
/// # Errors
/// When the task does not exist or its mask cannot be read.
pub fn allowed_cpus(root: &Root, who: Who) -> Result<CpuSet, Error> {
    if root.is_live() {
        let (pid, name) = match who {
            Who::Own => (None, "this thread".to_owned()),
            Who::Task(id) => (i32::try_from(id).ok().and_then(Pid::from_raw), format!("task {id}")),
        };
        let failed = |errno: Errno| Error::Call { call: format!("sched_getaffinity of {name}"), source: errno.into() };
        // Pid 0 and numbers beyond the kernel's range name no task. If they were passed on as `None`, the kernel would
        // return the mask of the calling thread.
        if pid.is_none() && who != Who::Own {
            return Err(failed(Errno::SRCH));
        }
        match sched_getaffinity(pid) {
            Ok(mask) => {
                let numbers = 0..u32::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(0);
                return Ok(numbers.filter(|&cpu| mask.is_set(cpu as usize)).collect());
            }
            // The fixed-size mask is too short for this kernel (more than 1,024 CPUs). So read the mask from /proc
            // below.
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    let allowed = who.task(root).status()?.allowed_cpus;
    Ok(allowed.intersection(&Topology::read_online(root)?))
}

/// Returns a task's affinity mask, with the CPUs that are offline: the task may use them as soon as they are online again.
/// `sched_getaffinity` leaves these CPUs out.
///
/// # Errors
/// When the task does not exist, or the kernel does not show its mask.
pub fn affinity(root: &Root, tid: u32) -> Result<CpuSet, Error> {
    // The thread's own folder: the one of a process sums over all its threads.
    let mask = Task::thread(root, tid, tid).status()?.allowed_cpus;
    if mask.is_empty() {
        let source = io::Error::other("its status has no Cpus_allowed_list");
        return Err(Error::Call { call: format!("reading the affinity of task {tid}"), source });
    }
    Ok(mask)
}

/// Returns the CPUs that a task can ever run on, whatever its affinity mask: the online CPUs of its cpuset. If a mask
/// contains none of these CPUs, the kernel does not keep it, and allows the task all of them instead.
///
/// # Errors
/// When the task does not exist, or a file about it cannot be read or is malformed.
pub fn possible_cpus(root: &Root, who: Who) -> Result<CpuSet, Error> {
    let online = Topology::read_online(root)?;
    let memberships = who.task(root).cgroups()?;
    let hierarchies = present(Hierarchies::read(root))?.unwrap_or_default();
    let cgroup = hierarchies.cgroup_of(&memberships, "cpuset")?;
    let cpuset = cgroup.map(|cgroup| cgroup.cpuset(root)).transpose()?.flatten();
    Ok(cpuset.map_or_else(|| online.clone(), |cpus| cpus.intersection(&online)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(allowed: &str, quota: Option<(u64, u64)>) -> CpuLimits {
        let root = tempfile::tempdir().expect("temporary folder");
        let folder = root.path().join("sys/fs/cgroup/job");
        std::fs::create_dir_all(&folder).expect("mkdir");
        std::fs::create_dir_all(root.path().join("proc/self")).expect("mkdir");
        let write = |path: &str, text: &str| {
            std::fs::write(root.path().join(path), text).expect("write");
        };
        write("proc/self/mountinfo", "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        write("proc/self/cgroup", "0::/job\n");
        write("proc/self/status", &format!("Tgid:\t7\nPid:\t7\nCpus_allowed_list:\t{allowed}\n"));
        write("proc/stat", "cpu0 1 1 1 1\ncpu1 1 1 1 1\ncpu2 1 1 1 1\ncpu3 1 1 1 1\n");
        write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io\n");
        if let Some((quota_us, period_us)) = quota {
            write("sys/fs/cgroup/job/cpu.max", &format!("{quota_us} {period_us}\n"));
        }
        CpuLimits::read(&Root::at(root.path()), Who::Own).expect("limits")
    }

    #[test]
    fn allowed_cpus_are_online_and_the_quota_is_read() {
        let free = limits("0-63", None);
        assert_eq!((free.allowed.to_string().as_str(), free.quota), ("0-3", None));
        let throttled = limits("0-2", Some((250_000, 100_000)));
        assert!((throttled.quota.expect("a quota").cpus() - 2.5).abs() < 1e-12);
    }

    #[test]
    fn possible_is_what_the_cpuset_has_of_the_online_cpus() {
        let root = tempfile::tempdir().expect("temporary folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("mkdir");
            std::fs::write(path, text).expect("write");
        };
        write("proc/7/mountinfo", "");
        write("proc/self/mountinfo", "1 2 0:3 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
        write("proc/7/cgroup", "3:cpuset:/job\n");
        write("sys/fs/cgroup/cpuset/job/cpuset.cpus", "1-2\n");
        // Its own mask says nothing about it.
        write("proc/7/status", "Tgid:\t7\nPid:\t7\nCpus_allowed_list:\t2\n");
        let possible = |online: &str| {
            write("sys/devices/system/cpu/online", online);
            possible_cpus(&Root::at(root.path()), Who::Task(7)).expect("possible CPUs").to_string()
        };
        assert_eq!((possible("0-3\n"), possible("0,2-3\n")), ("1-2".into(), "2".into()));
    }

    #[test]
    fn an_affinity_has_its_offline_cpus() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("mkdir");
            std::fs::write(path, text).expect("write");
        };
        for (tid, line) in [(7, "Cpus_allowed_list:\t0-1,3\n"), (8, "")] {
            for at in [format!("proc/{tid}/status"), format!("proc/{tid}/task/{tid}/status")] {
                write(&at, &format!("Tgid:\t{tid}\nPid:\t{tid}\n{line}"));
            }
        }
        write("sys/devices/system/cpu/online", "0-2\n");
        let root = Root::at(folder.path());
        assert_eq!(affinity(&root, 7).expect("a mask").to_string(), "0-1,3");
        assert_eq!(allowed_cpus(&root, Who::Task(7)).expect("a mask").to_string(), "0-1");
        // An empty mask could not be restored.
        assert!(affinity(&root, 8).is_err() && affinity(&root, 9).is_err_and(|error| error.is_gone()));
    }

    #[test]
    fn a_task_that_does_not_exist_is_gone() {
        for id in [0, u32::MAX, i32::MAX as u32] {
            let error = allowed_cpus(&Root::live(), Who::Task(id)).expect_err("no such task");
            assert!(error.is_gone(), "{error}");
        }
    }
}
