//! CPUs, cores, packages, NUMA nodes, last-level caches and capacities, from /sys/devices/system.
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

use crate::cpulist::CpuSet;
use crate::error::Error;
use crate::root::Root;

const CPU_FOLDER: &str = "/sys/devices/system/cpu";
const NODE_FOLDER: &str = "/sys/devices/system/node";

/// One hardware thread that is online.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cpu {
    /// The kernel's CPU number.
    pub id: u32,
    /// Core number, unique within a package at best; compare [`Cpu::smt_siblings`] instead.
    pub core_id: Option<u32>,
    /// Package (socket) number.
    pub package_id: Option<u32>,
    /// NUMA node.
    pub node: Option<u32>,
    /// The online CPUs of the same core, this one included.
    pub smt_siblings: CpuSet,
    /// Relative speed, 1024 for the fastest CPU of the machine (`cpu_capacity`).
    pub capacity: Option<u32>,
    /// Index into [`Topology::last_level_caches`].
    pub last_level_cache: Option<usize>,
}

/// One last-level cache: the highest-level data or unified cache of its CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastLevelCache {
    /// Level, 3 on most machines.
    pub level: u32,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// The online CPUs that share the cache.
    pub cpus: CpuSet,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The kernel's node number.
    pub id: u32,
    /// The node's online CPUs; empty for a node with memory only.
    pub cpus: CpuSet,
}

/// A kind of core on an Intel hybrid processor (`/sys/devices/cpu_core`, `cpu_atom`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreKind {
    /// The kernel's name for the kind, taken from the name of its perf event source: `core` (performance) or `atom`
    /// (efficiency).
    pub name: String,
    /// The online CPUs of that kind.
    pub cpus: CpuSet,
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
    /// Last-level caches, ordered by their lowest CPU.
    pub last_level_caches: Vec<LastLevelCache>,
    /// NUMA nodes, ascending; empty if the kernel shows none.
    pub nodes: Vec<Node>,
    /// Kinds of cores; empty if the kernel names none.
    pub core_kinds: Vec<CoreKind>,
}

impl Topology {
    /// Reads the topology.
    ///
    /// # Errors
    /// When neither /sys nor /proc/stat names a CPU, or a file that exists cannot be read or understood.
    pub fn read(root: &Root) -> Result<Self, Error> {
        let online = Self::read_online(root)?;
        let possible = root.read_cpus_if_present(format!("{CPU_FOLDER}/possible"))?.unwrap_or_default().union(&online);
        let nodes = nodes(root, &online)?;
        let mut last_level_caches: Vec<LastLevelCache> = Vec::new();
        let mut cpus = Vec::with_capacity(online.len());
        for id in online.iter() {
            let cache = last_level_cache(root, id, &online)?;
            let cache = cache.map(|cache| {
                last_level_caches.iter().position(|known| *known == cache).unwrap_or_else(|| {
                    last_level_caches.push(cache);
                    last_level_caches.len() - 1
                })
            });
            cpus.push(Cpu {
                id,
                core_id: topology_number(root, id, "core_id")?,
                package_id: topology_number(root, id, "physical_package_id")?,
                node: nodes.iter().find(|node| node.cpus.contains(id)).map(|node| node.id),
                smt_siblings: smt_siblings(root, id, &online)?,
                capacity: root.read_number_if_present(format!("{CPU_FOLDER}/cpu{id}/cpu_capacity"))?,
                last_level_cache: cache,
            });
        }
        let core_kinds = core_kinds(root, &online)?;
        Ok(Self { possible, online, cpus, last_level_caches, nodes, core_kinds })
    }

    /// Reads only the online CPUs, from /sys. If /sys does not list them, from /proc/stat, which lists only online
    /// CPUs.
    ///
    /// # Errors
    /// When neither source names a CPU, or an existing file cannot be read or is malformed.
    pub fn read_online(root: &Root) -> Result<CpuSet, Error> {
        let online = match root.read_cpus_if_present(format!("{CPU_FOLDER}/online"))? {
            Some(online) => online,
            None => crate::steal::CpuTimes::read(root)?.cpus.iter().map(|time| time.cpu).collect(),
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

    /// Returns the number of cores among `cpus`. A core is counted at the lowest of its SMT siblings in `cpus`.
    #[must_use]
    pub fn cores_in(&self, cpus: &CpuSet) -> usize {
        self.cpus
            .iter()
            .filter(|cpu| cpus.contains(cpu.id))
            .filter(|cpu| cpu.smt_siblings.intersection(cpus).first() == Some(cpu.id))
            .count()
    }

    /// Returns the number of cores with an online CPU.
    #[must_use]
    pub fn core_count(&self) -> usize {
        self.cores_in(&self.online)
    }

    /// Returns the number of packages with an online CPU; 1 if the kernel does not number packages.
    #[must_use]
    pub fn package_count(&self) -> usize {
        let mut packages: Vec<_> = self.cpus.iter().map(|cpu| cpu.package_id).collect();
        packages.sort_unstable();
        packages.dedup();
        packages.len()
    }

    /// Returns whether some core has more than one CPU online.
    #[must_use]
    pub fn has_smt(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.smt_siblings.len() > 1)
    }

    /// Returns whether cores differ in speed or kind, so that equal shares of work take different times.
    #[must_use]
    pub fn is_hybrid(&self) -> bool {
        let mut capacities = self.cpus.iter().filter_map(|cpu| cpu.capacity);
        let first = capacities.next();
        self.core_kinds.len() > 1 || capacities.any(|capacity| Some(capacity) != first)
    }

    /// Returns the total size of the machine's last-level caches, bytes; `None` if no size is known.
    #[must_use]
    pub fn last_level_cache_bytes(&self) -> Option<u64> {
        let mut sizes = self.last_level_caches.iter().filter_map(|cache| cache.size_bytes).peekable();
        sizes.peek()?;
        Some(sizes.sum())
    }
}

/// Reads a number from /sys/…/cpuN/topology; `None` for -1, which firmware gives if it does not know the number.
fn topology_number(root: &Root, cpu: u32, name: &str) -> Result<Option<u32>, Error> {
    let number: Option<i64> = root.read_number_if_present(format!("{CPU_FOLDER}/cpu{cpu}/topology/{name}"))?;
    Ok(number.and_then(|number| u32::try_from(number).ok()))
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

fn last_level_cache(root: &Root, cpu: u32, online: &CpuSet) -> Result<Option<LastLevelCache>, Error> {
    let folder = format!("{CPU_FOLDER}/cpu{cpu}/cache");
    let mut best: Option<LastLevelCache> = None;
    for index in root.list_indexed(&folder, "index")? {
        let cache = format!("{folder}/index{index}");
        let kind = root.read_text_if_present(format!("{cache}/type"))?;
        if kind.as_deref() == Some("Instruction") {
            continue;
        }
        let Some(level) = root.read_number_if_present(format!("{cache}/level"))? else {
            continue;
        };
        if best.as_ref().is_some_and(|best| best.level >= level) {
            continue;
        }
        let mut cpus =
            root.read_cpus_if_present(format!("{cache}/shared_cpu_list"))?.unwrap_or_default().intersection(online);
        cpus.insert(cpu);
        best = Some(LastLevelCache { level, size_bytes: size_bytes(root, &cache)?, cpus });
    }
    Ok(best)
}

/// Reads a cache size. The kernel prints it in KiB, e.g. `32768K`.
fn size_bytes(root: &Root, cache: &str) -> Result<Option<u64>, Error> {
    let path = format!("{cache}/size");
    let Some(text) = root.read_text_if_present(&path)? else {
        return Ok(None);
    };
    let (digits, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) if text.ends_with('K') => (digits, 1 << 10),
        Some(digits) if text.ends_with('M') => (digits, 1 << 20),
        Some(digits) => (digits, 1 << 30),
        None => (text.as_str(), 1),
    };
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(root.format_error(&path, format!("{text:?} is not a cache size"))),
    }
}

fn nodes(root: &Root, online: &CpuSet) -> Result<Vec<Node>, Error> {
    let mut nodes = Vec::new();
    for id in root.list_indexed(NODE_FOLDER, "node")? {
        let cpus = root
            .read_cpus_if_present(format!("{NODE_FOLDER}/node{id}/cpulist"))?
            .unwrap_or_default()
            .intersection(online);
        nodes.push(Node { id, cpus });
    }
    Ok(nodes)
}

fn core_kinds(root: &Root, online: &CpuSet) -> Result<Vec<CoreKind>, Error> {
    let mut kinds = Vec::new();
    for name in ["core", "atom", "lowpower"] {
        if let Some(cpus) = root.read_cpus_if_present(format!("/sys/devices/cpu_{name}/cpus"))? {
            let cpus = cpus.intersection(online);
            if !cpus.is_empty() {
                kinds.push(CoreKind { name: name.to_owned(), cpus });
            }
        }
    }
    Ok(kinds)
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
        assert_eq!(topology.core_count(), 2);
        assert_eq!(topology.package_count(), 1);
        assert_eq!(topology.last_level_cache_bytes(), None);
        assert!(!topology.has_smt() && !topology.is_hybrid());
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
    fn unknown_package_numbers_and_odd_cache_sizes() {
        let cpu = "sys/devices/system/cpu/cpu0";
        let (_folder, root) = tree(&[
            ("sys/devices/system/cpu/online", "0\n"),
            (&format!("{cpu}/topology/physical_package_id"), "-1\n"),
            (&format!("{cpu}/cache/index0/level"), "2\n"),
            (&format!("{cpu}/cache/index0/size"), "3M\n"),
        ]);
        let topology = Topology::read(&root).expect("a topology");
        assert_eq!(topology.cpus[0].package_id, None);
        assert_eq!(topology.last_level_cache_bytes(), Some(3 << 20));

        let (_folder, root) = tree(&[
            ("sys/devices/system/cpu/online", "0\n"),
            (&format!("{cpu}/cache/index0/level"), "2\n"),
            (&format!("{cpu}/cache/index0/size"), "big\n"),
        ]);
        let error = Topology::read(&root).expect_err("no size");
        assert!(error.to_string().ends_with("index0/size: \"big\" is not a cache size"), "{error}");
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
        assert_eq!(topology.core_count(), 2);
    }

    #[test]
    fn caches_for_instructions_only_do_not_count() {
        let cache = "sys/devices/system/cpu/cpu0/cache";
        let (_folder, root) = tree(&[
            ("sys/devices/system/cpu/online", "0\n"),
            (&format!("{cache}/index0/level"), "1\n"),
            (&format!("{cache}/index0/type"), "Data\n"),
            (&format!("{cache}/index1/level"), "2\n"),
            (&format!("{cache}/index1/type"), "Instruction\n"),
        ]);
        let topology = Topology::read(&root).expect("a topology");
        assert_eq!(topology.last_level_caches.len(), 1);
        assert_eq!(topology.last_level_caches[0].level, 1);
    }
}
