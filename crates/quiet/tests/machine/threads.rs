//! The threads of a machine, and the cgroups that they are in.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ::machine::process::Task as Process;
use ::machine::{CpuSet, Error};
use changes::recorder::RecordedThread;
use changes::{KnobIo, Thread};
use quiet::{Cpusets, Plan, Task, TaskList, cpusets_below};

use super::{Machine, cpus, v1, v2};

pub const KTHREADD: u32 = 2;
pub const IRQBALANCE: u32 = 900;
/// Process of a session, and the program that it starts.
pub const OWNER: u32 = 1000;
pub const PROGRAM: u32 = 1001;
/// The same of a second session.
pub const OTHER_OWNER: u32 = 2000;
pub const OTHER_PROGRAM: u32 = 2001;

const WORKQUEUES: &str = "/sys/devices/virtual/workqueue";

/// A thread: its id, its cgroup, the mask that the kernel or its program has set, and whether it is the program's.
type Row = (u32, &'static str, Option<&'static str>, bool);

/// Threads of the kernel on each machine: kthreadd, one that the kernel has bound to CPU 1, and one that may run
/// anywhere.
const OF_KERNEL: [Row; 3] = [(KTHREADD, "", None, false), (3, "", Some("1"), false), (4, "", None, false)];

const OF_V1: [Row; 5] = [
    (1, "", None, false),
    (5, "", Some("0-1"), true),
    (6, "job", None, false),
    (7, "job/inner", Some("1"), true),
    (8, "", Some("1"), false),
];

const OF_V2: [Row; 6] = [
    (5, "", None, false),
    (6, "", Some("2-3"), true),
    (10, "system.slice", None, false),
    (11, "system.slice", Some("2"), true),
    (20, "user.slice", None, false),
    (30, "vm.slice", None, false),
];

impl Machine {
    /// Adds threads, and the files that sessions need.
    fn inhabited(self, rows: &[Row]) -> Machine {
        let machine = self.with("/proc/sys/kernel/random/boot_id", "this\n");
        let is_v2 = machine.mount.ends_with("cgroup");
        let mut cgroups: Vec<&str> = rows.iter().map(|row| row.1).chain([""]).collect();
        cgroups.dedup();
        for cgroup in cgroups {
            let lists: &[&str] = if is_v2 { &["cgroup.procs", "cgroup.threads"] } else { &["tasks"] };
            for list in lists {
                machine.write(machine.cgroup(cgroup).join(list).to_str().unwrap(), "");
            }
        }
        OF_KERNEL.iter().chain(rows).for_each(|row| machine.add(*row));
        machine.of_kernel.borrow_mut().extend(OF_KERNEL.map(|row| row.0));
        let home = if is_v2 { "system.slice" } else { "" };
        machine.add((OWNER, home, None, false));
        machine.add((OTHER_OWNER, home, None, false));
        machine.io.bear(PROGRAM, OWNER);
        if !machine.facts().irqbalance.is_empty() {
            machine.add((IRQBALANCE, home, None, false));
            let start_ns = Process::process(&machine.root(), IRQBALANCE).stat().unwrap().start_boottime_ns;
            let thread = machine.io.threads()[&IRQBALANCE].clone();
            machine.io.add(IRQBALANCE, RecordedThread { start_ns, ..thread });
        }
        machine
    }

    fn add(&self, (tid, cgroup, mask, is_asked): Row) {
        let mask = mask.map(cpus);
        let thread = RecordedThread {
            start_ns: 7,
            mask: mask.clone().unwrap_or_default(),
            asked: mask.clone().filter(|_| is_asked),
            creator: None,
            cgroups: [(self.mount.clone(), self.cgroup(cgroup))].into(),
            is_fixed: tid == KTHREADD,
            is_stopped: false,
        };
        self.io.add(tid, thread.clone());
        let possible = self.io.possible_cpus(Thread { tid, start_ns: 7 }).unwrap();
        self.io.add(tid, RecordedThread { mask: mask.unwrap_or(possible), ..thread });
    }

    /// cox starts a program, which asks for the quiet CPUs and waits.
    pub fn launch(self, plan: &Plan) -> Machine {
        self.io.ask(PROGRAM, &plan.chosen.cpus);
        self
    }

    /// Makes the threads what they were, as on a new machine.
    pub fn again<'t>(&self, threads: impl IntoIterator<Item = (&'t u32, &'t RecordedThread)>) {
        threads.into_iter().for_each(|(tid, thread)| self.io.add(*tid, thread.clone()));
    }

    /// A thread is born that may still run anywhere, because the kernel was just confining the others.
    pub fn bear_unconfined(&self, tid: u32, creator: u32) {
        self.io.bear(tid, creator);
        let thread = self.io.threads()[&tid].clone();
        self.io.add(tid, RecordedThread { mask: self.facts().topology.online, asked: None, ..thread });
    }

    /// kthreadd makes a thread of the kernel, which may run anywhere.
    pub fn bear_of_kernel(&self, tid: u32) {
        self.io.bear(tid, KTHREADD);
        let thread = self.io.threads()[&tid].clone();
        let start_ns = self.io.threads().values().map(|thread| thread.start_ns + 1).max().unwrap();
        self.io.add(
            tid,
            RecordedThread { start_ns, mask: self.facts().topology.online, asked: None, creator: None, ..thread },
        );
        self.of_kernel.borrow_mut().insert(tid);
    }
}

/// The recorded machine of version 1 with threads, one cgroup in another, and few interrupts, because tests refuse each
/// access once.
pub fn busy_v1() -> Machine {
    of_v1(v1(), "0-1")
}

/// The same with four CPUs, for two sessions.
pub fn wide_v1() -> Machine {
    let mut machine = v1();
    let cpu = "/sys/devices/system/cpu";
    for (file, text) in [("online", "0-3"), ("possible", "0-3")] {
        machine = machine.with(&format!("{cpu}/{file}"), text);
    }
    for number in [2, 3] {
        let at = format!("{cpu}/cpu{number}");
        machine = machine.with(&format!("{at}/topology/thread_siblings_list"), &number.to_string());
        machine = machine.with(&format!("{at}/power/pm_qos_resume_latency_us"), "0\n");
    }
    for path in ["/proc/irq/default_smp_affinity", &format!("{WORKQUEUES}/cpumask")] {
        machine = machine.with(path, "f\n");
    }
    machine = machine.with(&format!("{WORKQUEUES}/cpumask_requested"), "f\n");
    let machine = machine.with("/proc/irq/24/smp_affinity_list", "0-3\n");
    of_v1(machine.with("/sys/fs/cgroup/cpuset/cpuset.cpus", "0-3\n"), "0-3")
}

fn of_v1(machine: Machine, all: &str) -> Machine {
    let text = machine.read("/proc/interrupts");
    let is_kept = |line: &&str| ["CPU0", " 24:", " 36:", " 42:"].iter().any(|part| line.contains(part));
    let lines: Vec<&str> = text.lines().filter(is_kept).collect();
    machine.write("/proc/interrupts", &(lines.join("\n") + "\n"));
    for (file, value) in [("cpus", all), ("mems", "0"), ("sched_load_balance", "1")] {
        for cgroup in ["job", "job/inner"] {
            machine.write(&format!("/sys/fs/cgroup/cpuset/{cgroup}/cpuset.{file}"), &format!("{value}\n"));
        }
    }
    machine.inhabited(&OF_V1)
}

/// The recorded machine of version 2 with threads.
pub fn busy_v2() -> Machine {
    of_v2(v2(), "cpuset cpu io memory pids\n")
}

/// The same, with the controller cpuset off and no partition.
pub fn plain_v2() -> Machine {
    let machine = v2();
    for cgroup in ["system.slice", "user.slice", "vm.slice"] {
        for file in ["cpuset.cpus", "cpuset.cpus.partition", "cpuset.cpus.effective"] {
            // The recorded cgroups have different files.
            let _ = fs::remove_file(machine.root().path(machine.cgroup(cgroup).join(file)));
        }
    }
    of_v2(machine, "cpu io memory pids\n")
}

fn of_v2(machine: Machine, control: &str) -> Machine {
    machine.with("/sys/fs/cgroup/cgroup.subtree_control", control).inhabited(&OF_V2)
}

/// A machine, and CPUs of it that become quiet.
pub struct Scene {
    pub name: &'static str,
    pub machine: fn() -> Machine,
    pub cpus: &'static str,
}

impl Scene {
    /// Whether a test uses it that does everything once for each access.
    pub fn is_brief(&self) -> bool {
        ["v1, one of two", "v2, a core"].contains(&self.name)
    }
}

pub const SCENES: [Scene; 5] = [
    Scene { name: "v1, one of two", machine: busy_v1, cpus: "1" },
    Scene { name: "v1, two of four", machine: wide_v1, cpus: "2-3" },
    Scene { name: "v2, one", machine: busy_v2, cpus: "2" },
    Scene { name: "v2, a core", machine: busy_v2, cpus: "2,6" },
    Scene { name: "v2 without cpusets, three", machine: plain_v2, cpus: "1-3" },
];

/// The threads of a machine. Each is a process.
pub struct Listed<'m>(pub &'m Machine);

impl TaskList for Listed<'_> {
    fn all(&self) -> Result<Vec<Task>, Error> {
        Ok(self.0.io.threads().into_keys().filter_map(|tid| self.one(tid)).collect())
    }

    fn ids_in_root(&self) -> Result<Vec<u32>, Error> {
        let threads = self.0.io.threads().into_iter();
        let in_root = threads.filter(|(_, thread)| thread.cgroups[&self.0.mount] == self.0.mount);
        Ok(in_root.map(|(tid, _)| tid).collect())
    }

    fn mask(&self, tid: u32) -> Option<CpuSet> {
        Some(self.0.io.threads().remove(&tid)?.mask)
    }

    fn ids_in(&self, folder: &Path) -> Vec<u32> {
        let threads = self.0.io.threads().into_iter();
        threads.filter(|(_, thread)| thread.cgroups[&self.0.mount] == folder).map(|(tid, _)| tid).collect()
    }

    fn cpusets(&self) -> Result<BTreeMap<PathBuf, CpuSet>, Error> {
        let is_v1 = matches!(self.0.facts().cpusets, Cpusets::V1 { .. });
        if is_v1 { cpusets_below(&self.0.root(), &self.0.mount) } else { Ok(BTreeMap::new()) }
    }

    fn one(&self, tid: u32) -> Option<Task> {
        let thread = self.0.io.threads().remove(&tid)?;
        Some(Task {
            thread: Thread { tid, start_ns: thread.start_ns },
            process: tid,
            is_of_kernel: self.0.of_kernel.borrow().contains(&tid),
            cgroup: thread.cgroups.get(&self.0.mount).cloned(),
            mask: thread.mask,
        })
    }
}
