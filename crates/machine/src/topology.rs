//! CPUs, their SMT siblings, last-level caches and capacities, from /sys/devices/system/cpu.
//!
//! ```text
//!  machine
//!  ├── package 0 ─────────────────────────┐  ┌── package 1 ───────────────────────────
//!  │   NUMA node 0                        │  │   NUMA node 1
//!  │   ┌─ last-level cache, 32 MiB ─────┐ │  │   ┌─ last-level cache, 32 MiB ─────┐
//!  │   │  core 0          core 1        │ │  │   │  core 0          core 1        │
//!  │   │  ┌────┬────┐     ┌────┬────┐   │ │  │   │  ┌────┬────┐     ┌────┬────┐   │
//!  │   │  │cpu0│cpu4│     │cpu1│cpu5│   │ │  │   │  │cpu2│cpu6│     │cpu3│cpu7│   │
//!  │   │  └────┴────┘     └────┴────┘   │ │  │   │  └────┴────┘     └────┴────┘   │
//!  │   └────────────────────────────────┘ │  │   └────────────────────────────────┘
//!  └──────────────────────────────────────┘  └────────────────────────────────────────
//! ```
//!
//! A CPU is one hardware thread; the CPUs of one core are SMT siblings. Core numbers are unique only within a package,
//! and on some machines not even there. Cores are therefore identified by their sibling sets. The boxes need not nest
//! as drawn: a package may hold several nodes or last-level caches.
//!
//! Files may be missing (containers, offline CPUs, other architectures, old kernels). In that case a figure is `None`
//! and a set contains only the CPU itself. Only a machine that names no CPU at all is an error.

use crate::busy::busy_ns;
use crate::cpulist::CpuSet;
use crate::error::Error;
use crate::root::{Root, present};

const CPU_FOLDER: &str = "/sys/devices/system/cpu";

/// One hardware thread that is online.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cpu {
    /// The kernel's CPU number.
    pub id: u32,
    /// The online CPUs of the same core, this one included.
    pub smt_siblings: CpuSet,
    /// Relative speed, 1024 for the fastest CPU of the machine (`cpu_capacity`).
    pub capacity: Option<u32>,
    /// The last-level cache, identified by the lowest online CPU that shares it.
    pub last_level_cache: Option<u32>,
}

/// The machine's CPUs and what they share.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Topology {
    /// CPUs that the kernel can ever bring up. Determines the size of per-CPU arrays.
    pub possible: CpuSet,
    /// CPUs that run threads now.
    pub online: CpuSet,
    /// The online CPUs, ascending.
    pub cpus: Vec<Cpu>,
}

impl Topology {
    /// Reads the topology.
    ///
    /// # Errors
    /// When neither /sys nor /proc/stat names a CPU, or a file that exists cannot be read or understood.
    pub fn read(root: &Root) -> Result<Self, Error> {
        let online = Self::read_online(root)?;
        let possible = root.read_cpus_if_present(format!("{CPU_FOLDER}/possible"))?.unwrap_or_default().union(&online);
        let mut cpus = Vec::with_capacity(online.len());
        for id in online.iter() {
            cpus.push(Cpu {
                id,
                smt_siblings: smt_siblings(root, id, &online)?,
                capacity: present(root.read_number(format!("{CPU_FOLDER}/cpu{id}/cpu_capacity")))?,
                last_level_cache: last_level_cache(root, id, &online)?,
            });
        }
        Ok(Self { possible, online, cpus })
    }

    /// Reads only the online CPUs, from /sys. If /sys does not list them, from /proc/stat, which lists only online
    /// CPUs.
    ///
    /// # Errors
    /// When neither source names a CPU, or an existing file cannot be read or is malformed.
    pub fn read_online(root: &Root) -> Result<CpuSet, Error> {
        let online = match root.read_cpus_if_present(format!("{CPU_FOLDER}/online"))? {
            Some(online) => online,
            None => busy_ns(root)?.into_keys().collect(),
        };
        if online.is_empty() {
            let reason = "names no CPU that is online".to_owned();
            return Err(root.format_error(CPU_FOLDER, reason));
        }
        Ok(online)
    }

    /// Returns the online CPU with this number.
    #[must_use]
    pub fn cpu(&self, id: u32) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|index| &self.cpus[index])
    }

    /// Returns whether some core has more than one CPU online.
    #[must_use]
    pub fn has_smt(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.smt_siblings.len() > 1)
    }
}

fn smt_siblings(root: &Root, cpu: u32, online: &CpuSet) -> Result<CpuSet, Error> {
    // core_cpus_list is the name since Linux 5.3; thread_siblings_list is the older name.
    let mut siblings = CpuSet::new();
    for name in ["core_cpus_list", "thread_siblings_list"] {
        let path = format!("{CPU_FOLDER}/cpu{cpu}/topology/{name}");
        if let Some(list) = root.read_cpus_if_present(path)? {
            siblings = list.intersection(online);
            break;
        }
    }
    siblings.insert(cpu);
    Ok(siblings)
}

/// Returns the lowest online CPU that shares the highest-level data or unified cache of `cpu`; `None` if the kernel shows
/// no cache.
fn last_level_cache(root: &Root, cpu: u32, online: &CpuSet) -> Result<Option<u32>, Error> {
    let folder = format!("{CPU_FOLDER}/cpu{cpu}/cache");
    let mut last: Option<(u32, CpuSet)> = None;
    for index in root.list_indexed(&folder, "index")? {
        let cache = format!("{folder}/index{index}");
        let kind = present(root.read_text(format!("{cache}/type")))?;
        if kind.as_deref() == Some("Instruction") {
            continue;
        }
        let Some(level) = present(root.read_number(format!("{cache}/level")))? else {
            continue;
        };
        if last.as_ref().is_some_and(|(highest, _)| *highest >= level) {
            continue;
        }
        let mut cpus =
            root.read_cpus_if_present(format!("{cache}/shared_cpu_list"))?.unwrap_or_default().intersection(online);
        cpus.insert(cpu);
        last = Some((level, cpus));
    }
    Ok(last.and_then(|(_, cpus)| cpus.first()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().expect("temporary folder");
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("has a parent")).expect("mkdir");
            fs::write(path, text).expect("write");
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn without_sys_the_online_cpus_come_from_proc_stat() {
        let (_folder, root) = tree(&[("proc/stat", "cpu  4 0 4 4\ncpu0 1 0 1 1\ncpu3 3 0 3 3\n")]);
        let topology = Topology::read(&root).expect("a topology");
        assert_eq!(topology.online.to_string(), "0,3");
        assert_eq!(topology.possible, topology.online);
        assert!(!topology.has_smt());
        assert_eq!(topology.cpus[1].last_level_cache, None);
        assert_eq!(topology.cpu(3).expect("cpu 3").smt_siblings.to_string(), "3");
        assert_eq!(topology.cpu(1), None);
    }

    #[test]
    fn no_cpu_at_all_is_an_error_that_names_the_folder() {
        let (_folder, root) = tree(&[("sys/devices/system/cpu/online", "\n")]);
        let error = Topology::read(&root).expect_err("no CPU");
        assert!(error.to_string().contains("/sys/devices/system/cpu: names no CPU"), "{error}");
    }

    #[test]
    fn offline_siblings_do_not_count() {
        let (_folder, root) = tree(&[
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/devices/system/cpu/possible", "0-3\n"),
            ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0,2\n"),
            ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3\n"),
        ]);
        let topology = Topology::read(&root).expect("a topology");
        assert!(!topology.has_smt());
        assert_eq!(topology.possible.to_string(), "0-3");
    }

    #[test]
    fn caches_for_instructions_only_do_not_count() {
        let cache = "sys/devices/system/cpu/cpu1/cache";
        let (_folder, root) = tree(&[
            ("sys/devices/system/cpu/online", "0-1\n"),
            (&format!("{cache}/index0/level"), "1\n"),
            (&format!("{cache}/index0/type"), "Data\n"),
            (&format!("{cache}/index1/level"), "2\n"),
            (&format!("{cache}/index1/type"), "Instruction\n"),
            (&format!("{cache}/index1/shared_cpu_list"), "0-1\n"),
        ]);
        let topology = Topology::read(&root).expect("a topology");
        assert_eq!(topology.cpus[1].last_level_cache, Some(1), "the first level is not shared");
    }
}
