//! The CPU time of other programs on some CPUs, as an upper limit. /proc has each process's CPU time, not divided by CPU, and the CPU on which each
//! thread ran last.

use std::collections::{BTreeMap, BTreeSet};

use arch::clock::process_cpu_ns;
use arch::monotonic_ns;
use machine::Root;
use machine::busy::{Times, times};
use machine::process::{Task, ticks_per_s};

/// Other programs are named if they used more than this part of the CPUs' time: to read the files of all processes takes some milliseconds, for which
/// the user waits when the program has ended. Reports mention other programs from 5 % on.
const NAMED_PART: f64 = 0.02;

/// The CPU time of all other programs that have the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Other {
    /// The programs' name, as in ps(1).
    pub comm: String,
    /// Run time of these programs, nanoseconds.
    pub ran_ns: u64,
}

/// The CPU time of all other programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// The programs by name, in descending order of CPU time.
    pub programs: Vec<Other>,
    /// True if the times are upper limits: /proc does not divide them by CPU.
    pub at_most: bool,
}

impl Others {
    /// Leaves out programs that have not run, and sorts the others.
    pub(super) fn new(mut programs: Vec<Other>, at_most: bool) -> Others {
        programs.retain(|other| other.ran_ns > 0);
        programs.sort_by(|a, b| b.ran_ns.cmp(&a.ran_ns).then_with(|| a.comm.cmp(&b.comm)));
        Others { programs, at_most }
    }
}

/// The CPU time of all processes at one point in time.
pub struct Before {
    root: Root,
    cpus: BTreeSet<u32>,
    ran_ns: BTreeMap<Process, u64>,
    used: Used,
}

/// The use of some CPUs at one point in time.
struct Used {
    t_ns: u64,
    /// How long they have been busy or stolen by the hypervisor, all together; `None` if the kernel does not say. The packed processes' CPU time contains
    /// steal if BPF programs have measured it.
    busy_ns: Option<u64>,
    /// CPU time of cox and of the packed processes, ns.
    ours_ns: u64,
}

impl Used {
    fn read(root: &Root, cpus: &BTreeSet<u32>, packed_ns: u64) -> Used {
        let of_cpus = |times: BTreeMap<u32, Times>| {
            cpus.iter().filter_map(|cpu| times.get(cpu)).map(|times| times.busy_ns + times.steal_ns).sum()
        };
        Used {
            t_ns: monotonic_ns(),
            busy_ns: times(root).ok().map(of_cpus),
            ours_ns: packed_ns.saturating_add(process_cpu_ns()),
        }
    }

    /// Returns whether others may have used a notable part of `cpus` CPUs since `before`. The kernel counts busy time in ticks.
    fn may_name_others(&self, before: &Used, cpus: usize) -> bool {
        let (Some(now_ns), Some(before_ns)) = (self.busy_ns, before.busy_ns) else { return true };
        let others_ns =
            now_ns.saturating_sub(before_ns).saturating_sub(self.ours_ns.saturating_sub(before.ours_ns)) as f64;
        let tick_ns = 1e9 / ticks_per_s().max(1) as f64;
        others_ns > cpus as f64 * (tick_ns + NAMED_PART * self.t_ns.saturating_sub(before.t_ns) as f64)
    }
}

/// Identifies a process, even if its number is used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    pid: u32,
    start_ns: u64,
}

impl Before {
    /// Reads the present CPU times of all processes. `cpus` are the CPUs about which [`others`](Before::others) will be asked. The packed processes
    /// have used `packed_ns` of CPU time so far.
    #[must_use]
    pub fn read(cpus: &[u32], packed_ns: u64) -> Before {
        Before::of(Root::live(), cpus, packed_ns)
    }

    fn of(root: Root, cpus: &[u32], packed_ns: u64) -> Before {
        let cpus = cpus.iter().copied().collect();
        let used = Used::read(&root, &cpus, packed_ns);
        let ran_ns = processes(&root).into_iter().map(|(process, _, ran_ns)| (process, ran_ns)).collect();
        Before { root, cpus, ran_ns, used }
    }

    /// Returns the CPU time of other programs since `self` was read, or none if they used less than `NAMED_PART` of the CPUs' time. A process counts
    /// if one of its threads last ran on a CPU in `self.cpus`; cox and the processes in `packed`, which have used `packed_ns` of CPU time so far, do
    /// not count.
    #[must_use]
    pub fn others(&self, packed: &BTreeSet<u32>, packed_ns: u64) -> Others {
        if !Used::read(&self.root, &self.cpus, packed_ns).may_name_others(&self.used, self.cpus.len()) {
            return Others::new(Vec::new(), true);
        }
        let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
        for (process, comm, ran_ns) in processes(&self.root) {
            // If a process is not in `self.ran_ns`, it started after those times were read, so all its CPU time counts.
            let ran_ns = ran_ns.saturating_sub(self.ran_ns.get(&process).copied().unwrap_or(0));
            let is_other = process.pid != std::process::id() && !packed.contains(&process.pid);
            if ran_ns > 0 && is_other && self.was_there(process.pid) {
                *by_name.entry(comm).or_default() += ran_ns;
            }
        }
        Others::new(by_name.into_iter().map(|(comm, ran_ns)| Other { comm, ran_ns }).collect(), true)
    }

    fn was_there(&self, pid: u32) -> bool {
        let tids = Task::process(&self.root, pid).threads().unwrap_or_default();
        let last = |tid: u32| Task::thread(&self.root, pid, tid).stat().map(|stat| stat.processor);
        tids.into_iter().any(|tid| last(tid).is_ok_and(|cpu| self.cpus.contains(&cpu)))
    }
}

/// Returns all processes that this user can see, with name and CPU time.
fn processes(root: &Root) -> Vec<(Process, String, u64)> {
    let stat = |pid| {
        let stat = Task::process(root, pid).stat().ok()?;
        let process = Process { pid, start_ns: stat.start_boottime_ns };
        Some((process, stat.comm, stat.user_ns.saturating_add(stat.system_ns)))
    };
    root.list_numbers("/proc").unwrap_or_default().into_iter().filter_map(stat).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// A process with one thread, as /proc shows it. Ticks are 10 ms where tests run.
    fn process(root: &Path, pid: u32, comm: &str, ticks: u64, cpu: u32) {
        let folder = root.join(format!("proc/{pid}/task/{pid}"));
        fs::create_dir_all(&folder).unwrap();
        let zeros = |count: usize| vec!["0"; count].join(" ");
        let line = format!("{pid} ({comm}) R 1 {} {ticks} 0 {} 1 0 7 {} {cpu} 0\n", zeros(9), zeros(4), zeros(16));
        fs::write(folder.join("stat"), &line).unwrap();
        fs::write(root.join(format!("proc/{pid}/stat")), &line).unwrap();
    }

    #[test]
    fn those_that_ran_meanwhile_and_were_there_last_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (pid, comm) in [(10, "hog"), (11, "hog"), (12, "elsewhere"), (13, "packed"), (14, "idle")] {
            process(root, pid, comm, 100, u32::from(pid == 12));
        }
        let before = Before::of(Root::at(root), &[0], 0);
        for (pid, comm, ticks) in
            [(10, "hog", 150), (11, "hog", 130), (12, "elsewhere", 900), (13, "packed", 400), (15, "new", 5)]
        {
            process(root, pid, comm, ticks, u32::from(pid == 12));
        }
        let tick_ns = 1_000_000_000 / ticks_per_s();
        let other = |comm: &str, ticks| Other { comm: comm.into(), ran_ns: ticks * tick_ns };
        let others = Others { programs: vec![other("hog", 80), other("new", 5)], at_most: true };
        assert_eq!(before.others(&BTreeSet::from([13]), 0), others);
    }

    #[test]
    fn nobody_is_named_if_the_cpus_were_hardly_used_by_others() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("proc")).unwrap();
        let busy =
            |ticks: u32| fs::write(root.join("proc/stat"), format!("cpu0 {ticks} 0 0 9\ncpu1 {ticks}00 0 0 9\n"));
        busy(100).unwrap();
        process(root, 10, "hog", 100, 0);
        let before = Before::of(Root::at(root), &[0], 500_000_000);
        process(root, 10, "hog", 140, 0);
        busy(160).unwrap();
        let names = |packed_ns| before.others(&BTreeSet::new(), packed_ns).programs.len();
        let tick_ns = 1_000_000_000 / ticks_per_s();
        assert_eq!(names(500_000_000 + 20 * tick_ns), 1, "40 ticks of another program");
        assert_eq!(names(500_000_000 + 60 * tick_ns), 0, "all 60 ticks were the packed program's");
    }
}
