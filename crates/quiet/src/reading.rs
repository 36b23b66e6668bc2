//! Reads the facts from /proc and /sys.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use changes::Thread;
use machine::cgroup::{Hierarchies, Hierarchy, Version};
use machine::features::Release;
use machine::interrupts::interrupts;
use machine::limits::{Who, possible_cpus};
use machine::process::Task;
use machine::topology::Topology;
use machine::{CpuSet, Error, Root, namespace};

use crate::checklist::ROWS;
use crate::cpusets::is_quiet_folder;
use crate::facts::{Cpusets, Facts, Interrupt};

const CPUS: &str = "/sys/devices/system/cpu";
/// Depth to which cpusets are searched for. The kernel allows more, but no system has them.
const DEEPEST: usize = 64;

impl Facts {
    /// Reads the facts.
    ///
    /// # Errors
    /// If the CPUs cannot be read. Everything else may be missing.
    pub fn read(root: &Root) -> Result<Facts, Error> {
        let topology = Topology::read(root)?;
        let allowed = possible_cpus(root, Who::Own).unwrap_or_else(|_| topology.online.clone());
        let set = |name: &str| root.read_cpus_if_present(format!("{CPUS}/{name}")).ok().flatten();
        let cpusets = cpusets(root);
        let mut files = BTreeMap::new();
        for row in ROWS {
            for path in row.paths(&topology.online) {
                expand(root, Path::new("/"), &path, &mut files);
            }
        }
        let (mut partitions, mut quieted) = (BTreeMap::new(), BTreeMap::new());
        match &cpusets {
            Cpusets::V1 { mount, prefix } => {
                for file in ["sched_load_balance", "mems"] {
                    keep(root, &mount.join(format!("{prefix}{file}")), &mut files);
                }
                walk(root, mount, DEEPEST, &mut |folder| {
                    let file = folder.join(format!("{prefix}cpus"));
                    keep(root, &file, &mut files);
                    if is_quiet_folder(folder, mount) {
                        quieted.insert(folder.to_owned(), cpus_of(root, &file));
                    }
                    // The kernel refuses cpusets beside an exclusive one that have its CPUs. Those of sessions are beside the
                    // first ones below the root.
                    let exclusive = folder.join(format!("{prefix}cpu_exclusive"));
                    if folder.parent() == Some(mount) && root.read_text(exclusive).is_ok_and(|text| text.trim() == "1")
                    {
                        partitions.insert(folder.to_owned(), cpus_of(root, &file));
                    }
                });
            }
            Cpusets::V2 { mount, .. } => {
                keep(root, &mount.join("cgroup.subtree_control"), &mut files);
                walk(root, mount, DEEPEST, &mut |folder| {
                    if folder.parent() == Some(mount) {
                        keep(root, &folder.join("cpuset.cpus"), &mut files);
                    }
                    if is_quiet_folder(folder, mount) {
                        quieted.insert(folder.to_owned(), cpus_of(root, &folder.join("cpuset.cpus")));
                        return;
                    }
                    let kind = root.read_text(folder.join("cpuset.cpus.partition")).unwrap_or_default();
                    if matches!(kind.trim(), "root" | "isolated") {
                        partitions.insert(folder.to_owned(), cpus_of(root, &folder.join("cpuset.cpus.effective")));
                    }
                });
            }
            Cpusets::V2Harmful { .. } | Cpusets::Foreign { .. } | Cpusets::None => {}
        }
        Ok(Facts {
            topology,
            allowed,
            isolated: set("isolated").unwrap_or_default(),
            nohz_full: nohz_full(root),
            partitions,
            quieted,
            interrupts: devices(root),
            files,
            cpusets,
            irqbalance: irqbalance(root),
            shows_managed: release(root).is_some_and(|release| release.is_at_least(6, 13)),
            fair_server_stays: release(root).is_some_and(|release| release.is_at_least(6, 18)),
            forgets_masks: release(root).is_some_and(|release| !release.is_at_least(6, 2)),
        })
    }
}

/// The file exists if the kernel can stop the tick. It has "(null)" or an empty line if the kernel was not asked to.
fn nohz_full(root: &Root) -> Option<CpuSet> {
    let text = root.read_text(format!("{CPUS}/nohz_full")).ok()?;
    Some(text.trim().parse().unwrap_or_default())
}

fn devices(root: &Root) -> Vec<Interrupt> {
    let rows = interrupts(root).unwrap_or_default();
    let device = |row: &machine::interrupts::Row| {
        let number: u32 = row.name.parse().ok()?;
        let cpus = |file: &str| root.read_cpus_if_present(format!("/proc/irq/{number}/{file}")).ok().flatten();
        let affinity = cpus("smp_affinity_list")?;
        let effective =
            cpus("effective_affinity_list").filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| affinity.clone());
        Some(Interrupt {
            number,
            name: row.devices().join(", "),
            affinity,
            effective,
            is_fixed: is_fixed(root, number),
            is_message: is_message(&row.rest),
        })
    };
    rows.iter().filter_map(device).collect()
}

/// The file of an interrupt that nobody may move has no right to write since Linux 6.12 (`register_irq_proc` in
/// kernel/irq/proc.c). Before, only writing to it tells.
fn is_fixed(root: &Root, number: u32) -> bool {
    let file = fs::metadata(root.path(format!("/proc/irq/{number}/smp_affinity_list")));
    file.is_ok_and(|file| file.permissions().readonly())
}

/// Returns whether a row of /proc/interrupts is one of a message-signalled interrupt: its controller is called so.
/// `rest` is what follows the counts: the controller, the number, the devices.
fn is_message(rest: &str) -> bool {
    let mut controller =
        rest.split_ascii_whitespace().take_while(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    controller.any(|word| word.contains("MSI"))
}

fn cpusets(root: &Root) -> Cpusets {
    let Ok(hierarchies) = Hierarchies::read(root) else { return Cpusets::None };
    let Some(hierarchy) = hierarchies.of_controller("cpuset").next() else { return Cpusets::None };
    let mount = hierarchy.mount_point.clone();
    if let Some(why) = foreign(root, hierarchy) {
        return Cpusets::Foreign { why };
    }
    match hierarchy.version {
        Version::V1 => {
            let prefix = if root.exists(mount.join("cpuset.cpus")) { "cpuset." } else { "" };
            Cpusets::V1 { mount, prefix }
        }
        Version::V2 => {
            let release = release(root);
            let is_before = |major, minor| release.as_ref().is_some_and(|release| !release.is_at_least(major, minor));
            match &release {
                Some(Release { text, .. }) if is_before(6, 1) => Cpusets::V2Harmful { release: text.clone() },
                _ => Cpusets::V2 { mount, frees_workers: is_before(6, 3) },
            }
        }
    }
}

fn release(root: &Root) -> Option<Release> {
    Release::parse(root.read_text("/proc/sys/kernel/osrelease").ok()?.trim())
}

/// Returns what shows that this process sees only a part of the machine's cpusets or threads; `None` if it sees all. A 0 in
/// cgroup.threads shows nothing: the kernel prints it for a thread of another PID namespace, and also for one that is just
/// ending.
fn foreign(root: &Root, hierarchy: &Hierarchy) -> Option<String> {
    let mount = hierarchy.mount_point.display();
    if hierarchy.mount_root != Path::new("/") {
        return Some(format!("{mount} shows only the cgroup {}", hierarchy.mount_root.display()));
    }
    if namespace::of_this_process(root).ok().flatten().is_some() {
        return Some("it has a PID namespace of its own, and does not see the other processes".to_owned());
    }
    if namespace::of_cgroups(root).ok().flatten().is_some() {
        return Some(format!("it has a cgroup namespace of its own, and {mount} may show only a part of the cgroups"));
    }
    None
}

/// Returns the processes of root with this name. Each user may give a process this name, but only root can move interrupts.
fn irqbalance(root: &Root) -> Vec<Thread> {
    let is_it = |pid: &u32| root.read_text(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "irqbalance");
    let of_root = |tid: u32| {
        let process = Task::process(root, tid);
        process.status().ok().filter(|status| status.uids == [0; 4])?;
        Some(Thread { tid, start_ns: process.stat().ok()?.start_boottime_ns })
    };
    root.list_numbers("/proc").unwrap_or_default().into_iter().filter(is_it).filter_map(of_root).collect()
}

/// Returns the CPUs that a file lists; none if it cannot be read.
fn cpus_of(root: &Root, file: &Path) -> CpuSet {
    root.read_text(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}

/// Calls `each` with all folders below `folder`.
fn walk(root: &Root, folder: &Path, depth: usize, each: &mut impl FnMut(&Path)) {
    if depth == 0 {
        return;
    }
    for name in root.list(folder).unwrap_or_default() {
        let inner = folder.join(name);
        if root.path(&inner).is_dir() {
            each(&inner);
            walk(root, &inner, depth - 1, each);
        }
    }
}

fn keep(root: &Root, path: &Path, files: &mut BTreeMap<PathBuf, String>) {
    if let Ok(text) = root.read_text(path) {
        files.insert(path.to_owned(), text.trim().to_owned());
    }
}

/// Reads the files that a pattern names: `*` stands for one folder.
fn expand(root: &Root, folder: &Path, pattern: &str, files: &mut BTreeMap<PathBuf, String>) {
    let Some((before, after)) = pattern.trim_start_matches('/').split_once("*/") else {
        return keep(root, &folder.join(pattern.trim_start_matches('/')), files);
    };
    let folder = folder.join(before);
    for name in root.list(&folder).unwrap_or_default() {
        expand(root, &folder.join(name), after, files);
    }
}
