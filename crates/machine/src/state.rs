//! The state of this machine, as far as cox can change it: cgroups and their cpusets, affinities of interrupts, settings of the kernel, and the CPUs,
//! the scheduling class and the cgroup of each thread. Tests and `cox-bench` compare the state before a session with the one after it. This module
//! uses no other one, so that an error of a reader does not hide what a session has left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Files of settings. `*` stands for any name, `**` at the end for all files below that root may write.
const SETTINGS: [&str; 16] = [
    "/proc/irq/*/smp_affinity",
    "/proc/irq/default_smp_affinity",
    "/proc/sys/kernel/**",
    "/proc/sys/net/core/**",
    "/proc/sys/vm/**",
    "/sys/class/net/*/queues/**",
    "/sys/devices/system/cpu/*/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/*/power/pm_qos_resume_latency_us",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/machinecheck/machinecheck0/check_interval",
    "/sys/devices/virtual/workqueue/**",
    "/sys/kernel/debug/sched/fair_server/*/runtime",
    "/sys/kernel/mm/**",
    "/sys/kernel/rcu_expedited",
    "/sys/kernel/rcu_normal",
    "/sys/module/*/parameters/enabled",
];

/// Files that change by themselves: the last process id, a rate that the kernel lowers, results of the scheduler and of others, memory pressure.
const RESTLESS: [&str; 6] = [
    "ns_last_pid",
    "perf_event_max_sample_rate",
    "max_newidle_lb_cost",
    "stat_refresh",
    "hung_task_detect_count",
    "cpuset.memory_pressure",
];

/// Files of a cgroup that are settings, beside those that begin with `cpuset.`. The last four are those of a cpuset of version 1 that is mounted with
/// `noprefix`.
const OF_CGROUPS: [&str; 6] =
    ["cgroup.subtree_control", "cgroup.type", "cpus", "mems", "cpu_exclusive", "sched_load_balance"];

/// include/linux/sched.h: `PF_KTHREAD` and `PF_NO_SETAFFINITY`.
const OF_KERNEL: u64 = 0x0020_0000;
const BOUND: u64 = 0x0400_0000;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// Its name.
    pub name: String,
    /// Whether it is one of the kernel.
    pub is_of_kernel: bool,
    /// Whether the kernel lets nobody change its CPUs.
    pub is_bound: bool,
    /// The CPUs that it may use, as a list.
    pub cpus: String,
    /// Policy, nice value and real-time priority.
    pub class: String,
    /// Its cgroups: the one of version 2, and the one that has its cpuset.
    pub cgroups: String,
    /// Whether it is stopped by a signal.
    pub is_stopped: bool,
}

impl ThreadState {
    /// Returns whether it is a rescuer of a workqueue: it gets the CPUs of each work item that it helps with, and keeps them.
    fn is_rescuer(&self) -> bool {
        self.is_of_kernel && self.is_bound && (!self.name.contains('/') || self.name.starts_with("kworker/R-"))
    }
}

/// Threads by id and start time.
pub type Threads = BTreeMap<(u32, u64), ThreadState>;

/// The state of the machine at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineState {
    /// Settings by path; a folder of a cgroup is a path with an empty value.
    pub settings: BTreeMap<PathBuf, String>,
    /// Threads.
    pub threads: Threads,
}

impl MachineState {
    /// Reads the state. What disappears meanwhile is left out.
    #[must_use]
    pub fn read() -> MachineState {
        let mut settings = BTreeMap::new();
        for pattern in SETTINGS {
            let parts: Vec<&str> = pattern.trim_start_matches('/').split('/').collect();
            expand(Path::new("/"), &parts, &mut settings);
        }
        for mount in cgroup_mounts() {
            cgroup(&mount, &mut settings);
        }
        MachineState { settings, threads: threads() }
    }

    /// Reads the state, and all of /proc/sys. In an emulated guest that takes many times as long as the rest.
    #[must_use]
    pub fn read_all() -> MachineState {
        let mut state = MachineState::read();
        below(Path::new("/proc/sys"), &mut state.settings);
        state
    }

    /// Returns what differs in a later state, but not the unbound workers of the kernel (see [`is_of_worker`]).
    #[must_use]
    pub fn differences_but_workers(&self, later: &MachineState) -> Vec<String> {
        let mut lines = self.differences(later);
        lines.retain(|line| !is_of_worker(line));
        lines
    }

    /// Leaves out the settings that differ between two other states: without cox, between those, they have changed by
    /// themselves.
    pub fn leave_out_changed(&mut self, before: &MachineState, after: &MachineState) {
        self.settings.retain(|path, _| before.settings.get(path) == after.settings.get(path));
    }

    /// Returns what differs in a later state, one line each. A thread that has begun or ended meanwhile is no difference.
    #[must_use]
    pub fn differences(&self, later: &MachineState) -> Vec<String> {
        let paths: BTreeSet<&PathBuf> = self.settings.keys().chain(later.settings.keys()).collect();
        let value = |state: &MachineState, path: &Path| {
            state.settings.get(path).map_or("absent".to_owned(), |value| format!("'{value}'"))
        };
        let settings = paths.into_iter().filter(|path| self.settings.get(*path) != later.settings.get(*path));
        let mut lines: Vec<String> = settings
            .map(|path| format!("{}: {} before, {} now", path.display(), value(self, path), value(later, path)))
            .collect();
        for (id, before) in &self.threads {
            let Some(now) = later.threads.get(id) else { continue };
            let mut differ = |what: &str, before: &str, now: &str| {
                if before != now {
                    lines.push(format!(
                        "thread {} ({}): {what} {before} before, {now} now",
                        id.0, self.threads[id].name
                    ));
                }
            };
            if !before.is_rescuer() {
                differ("CPUs", &before.cpus, &now.cpus);
            }
            differ("class", &before.class, &now.class);
            differ("cgroups", &before.cgroups, &now.cgroups);
            differ("stopped", &before.is_stopped.to_string(), &now.is_stopped.to_string());
        }
        lines
    }
}

/// Returns whether a difference is one of an unbound worker of the kernel. Only the kernel can restore these, and does so later.
#[must_use]
pub fn is_of_worker(difference: &str) -> bool {
    difference.contains("(kworker/u")
}

/// Reads all threads.
#[must_use]
pub fn threads() -> Threads {
    let mut threads = BTreeMap::new();
    for process in numbers(Path::new("/proc")) {
        let folder = Path::new("/proc").join(process.to_string()).join("task");
        for tid in numbers(&folder) {
            threads.extend(thread(&folder.join(tid.to_string())).map(|(start, thread)| ((tid, start), thread)));
        }
    }
    threads
}

/// Returns the threads that can be moved, may run on one of these CPUs, and are in other cgroups than `own`, one line each.
#[must_use]
pub fn movable_on(threads: &Threads, cpus: &str, own: &str) -> Vec<String> {
    let cpus = numbers_of(cpus);
    let may = |thread: &ThreadState| {
        !thread.is_bound && thread.cgroups != own && !numbers_of(&thread.cpus).is_disjoint(&cpus)
    };
    let found = threads.iter().filter(|(_, thread)| may(thread));
    found.map(|((tid, _), thread)| format!("thread {tid} ({}) on CPUs {}", thread.name, thread.cpus)).collect()
}

/// Returns the numbers of a list such as `0-2,5`.
#[must_use]
pub fn numbers_of(list: &str) -> BTreeSet<u32> {
    let ends = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(ends).flatten().collect()
}

fn text(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).trim().to_owned())
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn numbers(folder: &Path) -> Vec<u32> {
    names(folder).iter().filter_map(|name| name.parse().ok()).collect()
}

fn expand(path: &Path, pattern: &[&str], settings: &mut BTreeMap<PathBuf, String>) {
    let is_restless = path.file_name().is_some_and(|name| RESTLESS.iter().any(|restless| name == *restless));
    match pattern {
        _ if is_restless => {}
        [] => settings.extend(text(path).map(|text| (path.to_owned(), text))),
        ["**"] => below(path, settings),
        ["*", rest @ ..] => names(path).iter().for_each(|name| expand(&path.join(name), rest, settings)),
        [name, rest @ ..] => expand(&path.join(name), rest, settings),
    }
}

/// Reads all files below a folder that root may write. Links are not followed.
fn below(folder: &Path, settings: &mut BTreeMap<PathBuf, String>) {
    for name in names(folder) {
        let path = folder.join(name);
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if found.is_dir() {
            below(&path, settings);
        } else if found.is_file() && found.permissions().mode() & 0o600 == 0o600 {
            expand(&path, &[], settings);
        }
    }
}

/// Returns where cgroups of version 2, and cpusets of version 1, are mounted.
fn cgroup_mounts() -> Vec<PathBuf> {
    let mounts = text(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let is_it = kind == "cgroup2" || kind == "cgroup" && options.split(',').any(|option| option == "cpuset");
        is_it.then(|| before.split(' ').nth(4).map(PathBuf::from)).flatten()
    };
    mounts.lines().filter_map(mount).collect()
}

fn cgroup(folder: &Path, settings: &mut BTreeMap<PathBuf, String>) {
    settings.insert(folder.to_owned(), String::new());
    for name in names(folder) {
        let path = folder.join(&name);
        if name.starts_with("cpuset.") || OF_CGROUPS.contains(&name.as_str()) {
            expand(&path, &[], settings);
        } else if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            cgroup(&path, settings);
        }
    }
}

/// Reads the thread of a folder of /proc; `None` if it has ended.
fn thread(folder: &Path) -> Option<(u64, ThreadState)> {
    let stat = text(&folder.join("stat"))?;
    let (before, after) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    // proc(5) counts fields from 1; the name is the second one.
    let field = |number: usize| fields.get(number - 3).copied();
    let state = field(3)?;
    let flags: u64 = field(9)?.parse().ok()?;
    let status = text(&folder.join("status"))?;
    let cgroups = text(&folder.join("cgroup"))?;
    let is_ours = |line: &&str| {
        line.starts_with("0::") || line.split(':').nth(1).is_some_and(|name| name.split(',').any(|one| one == "cpuset"))
    };
    let thread = ThreadState {
        name: before.split_once('(')?.1.to_owned(),
        is_of_kernel: flags & OF_KERNEL != 0,
        is_bound: flags & BOUND != 0,
        cpus: status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned(),
        class: format!("{} nice {} priority {}", field(41)?, field(19)?, field(40)?),
        cgroups: cgroups.lines().filter(is_ours).collect::<Vec<_>>().join(" "),
        is_stopped: state == "T",
    };
    (!matches!(state, "Z" | "X")).then_some((field(22)?.parse().ok()?, thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_read_and_a_change_is_named() {
        let before = MachineState::read();
        let own =
            &before.threads.iter().find(|((tid, _), _)| *tid == std::process::id()).expect("this process").1.clone();
        assert!(!own.is_of_kernel && !own.is_bound && !numbers_of(&own.cpus).is_empty(), "{own:?}");
        assert!(before.settings.contains_key(Path::new("/proc/sys/vm/stat_interval")), "{:?}", before.settings.keys());
        let mut later = before.clone();
        let path = PathBuf::from("/proc/sys/vm/stat_interval");
        let was = later.settings.insert(path, "7".to_owned()).expect("the setting");
        later.settings.insert(PathBuf::from("/cgroup/new"), String::new());
        let id = *later.threads.iter().find(|(_, thread)| *thread == own).expect("this process").0;
        later.threads.get_mut(&id).expect("this process").cpus = "9".to_owned();
        let differences = before.differences(&later);
        assert_eq!(differences.len(), 3, "{differences:?}");
        assert!(
            differences.contains(&format!("/proc/sys/vm/stat_interval: '{was}' before, '7' now")),
            "{differences:?}"
        );
        assert!(differences.contains(&"/cgroup/new: absent before, '' now".to_owned()));
        let on = |cpus, own| movable_on(&later.threads, cpus, own);
        assert!(on("8-9", "")[0].contains("on CPUs 9") && on("9", &own.cgroups).is_empty() && on("10", "").is_empty());
    }

    #[test]
    fn what_changes_without_cox_is_left_out_and_what_does_not_stays() {
        let state = |settings: &[(&str, &str)]| MachineState {
            settings: settings.iter().map(|(path, value)| (PathBuf::from(path), (*value).to_owned())).collect(),
            threads: Threads::new(),
        };
        let (before, after) = (state(&[("/a", "1"), ("/b", "1"), ("/c", "1")]), state(&[("/a", "1"), ("/b", "2")]));
        let mut later = state(&[("/a", "3"), ("/b", "3"), ("/c", "3"), ("/d", "3")]);
        later.leave_out_changed(&before, &after);
        // In neither of the two, /d has not changed between them.
        assert_eq!(later, state(&[("/a", "3"), ("/d", "3")]));
    }

    #[test]
    fn lists_are_numbers() {
        assert_eq!(numbers_of("0-2,5\n"), [0, 1, 2, 5].into());
        assert!(numbers_of("").is_empty());
    }
}
