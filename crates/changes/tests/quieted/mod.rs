//! A machine in a folder with a version-1 cpuset hierarchy, and what a session does to make CPUs 2 and 3 quiet.
#![allow(clippy::unwrap_used, dead_code, reason = "each test that uses it uses a part of it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use changes::recorder::{RecordedThread, Recorder};
use changes::undo::Undone;
use changes::{ChangeRequest, Claim, JournalFolder, Knob, KnobIo, Session, Thread, Value};
use machine::CpuSet;
use tempfile::TempDir;

/// Mount point of the hierarchy.
pub const CPUSETS: &str = "/sys/fs/cgroup/cpuset";
/// Cgroup for everything that is to leave the quiet CPUs.
pub const SYSTEM: &str = "cox-system";
pub const QUIET: &str = "cox-quiet";
/// The process of the sessions.
pub const OWNER: u32 = 1000;

pub type Snapshot = (BTreeMap<PathBuf, String>, BTreeMap<u32, (String, PathBuf)>);

pub struct Machine {
    pub io: Recorder,
    folder: TempDir,
}

impl Machine {
    pub fn new() -> Machine {
        let folder = TempDir::new().unwrap();
        let mounts = format!("1 2 0:3 / {CPUSETS} rw - cgroup cgroup rw,cpuset\n");
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("proc/self/mountinfo", &mounts);
        put("proc/sys/kernel/random/boot_id", "this\n");
        put("proc/irq/default_smp_affinity", "0000000f\n");
        put("sys/devices/system/cpu/online", "0-3\n");
        put("sys/devices/virtual/workqueue/cpumask", "f\n");
        for (cgroup, cpus) in [("", "0-3"), ("job/", "1-3")] {
            let at = format!("{}/{cgroup}", &CPUSETS[1..]);
            put(&format!("{at}tasks"), "");
            put(&format!("{at}cpuset.cpus"), &format!("{cpus}\n"));
            put(&format!("{at}cpuset.mems"), "0\n");
            put(&format!("{at}cpuset.sched_load_balance"), "1\n");
        }
        let io = Recorder::at(folder.path()).unwrap();
        let machine = Machine { io, folder };
        for (tid, mask, asked, cgroup) in [
            (1, "0-3", None, ""),
            (2, "1-2", Some("1-2"), ""),
            (3, "2", None, ""),
            (4, "3", None, ""),
            (5, "1-3", None, "job"),
        ] {
            machine.add(tid, mask, asked, cgroup);
        }
        machine.add(OWNER, "0-3", None, "");
        machine
    }

    fn add(&self, tid: u32, mask: &str, asked: Option<&str>, cgroup: &str) {
        let thread = RecordedThread {
            start_ns: 7,
            mask: cpus(mask),
            asked: asked.map(cpus),
            creator: None,
            cgroups: [(PathBuf::from(CPUSETS), folder(cgroup))].into(),
            is_fixed: tid == 4,
            is_stopped: false,
        };
        self.io.add(tid, thread);
    }

    pub fn thread(&self, tid: u32) -> Thread {
        Thread { tid, start_ns: self.io.started_ns(tid).unwrap() }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Whether this cgroup exists.
    pub fn exists(&self, cgroup: &str) -> bool {
        self.path(&folder(cgroup).to_str().unwrap()[1..]).exists()
    }

    /// All files with their values, and each thread's mask and cgroup.
    pub fn snapshot(&self) -> Snapshot {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for file in fs::read_dir(folder).unwrap() {
                let path = file.unwrap().path();
                if path.is_dir() {
                    files.insert(path.clone(), String::new());
                    folders.push(path);
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    let mut words: Vec<&str> =
                        text.split_whitespace().map(|word| word.trim_start_matches('0')).collect();
                    // The order of threads in a list means nothing.
                    words.sort_unstable();
                    files.insert(path, words.join(" "));
                }
            }
        }
        (files, self.masks())
    }

    pub fn masks(&self) -> BTreeMap<u32, (String, PathBuf)> {
        let state =
            |thread: &RecordedThread| (thread.mask.to_string(), thread.cgroups.values().next().unwrap().clone());
        self.io.threads().iter().map(|(tid, thread)| (*tid, state(thread))).collect()
    }

    pub fn begin(&self, journals: &TempDir) -> Session<'_> {
        Session::begin(&self.io, JournalFolder::at(journals.path()), OWNER, "cox quiet", |_| Ok(None)).unwrap()
    }

    /// As after SIGKILL of a session and its guardian: the journal stays, and the id belongs to another process.
    pub fn kill(&self, session: Session<'_>) {
        std::mem::forget(session);
        let owner = self.io.threads()[&OWNER].clone();
        self.io.add(OWNER, RecordedThread { start_ns: owner.start_ns + 1, ..owner });
    }

    /// Settles the sessions that are dead; what failed for each.
    pub fn settle(&self, journals: &TempDir) -> Vec<Vec<String>> {
        self.settle_all(journals).into_iter().map(|undone| undone.failures().collect()).collect()
    }

    /// Settles the sessions that are dead; what became of the changes of each.
    pub fn settle_all(&self, journals: &TempDir) -> Vec<Undone> {
        let journals = JournalFolder::at(journals.path());
        let lock = journals.lock().unwrap();
        let settled = journals.settle_dead(&lock, &self.io).unwrap();
        settled.into_iter().map(|(_, undone)| undone).collect()
    }
}

pub fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

pub fn text(text: &str) -> Value {
    Value::Text(text.into())
}

/// The folder of a cgroup of the hierarchy; its root by an empty name.
pub fn folder(cgroup: &str) -> PathBuf {
    if cgroup.is_empty() { PathBuf::from(CPUSETS) } else { Path::new(CPUSETS).join(cgroup) }
}

pub fn exactly(knob: Knob, value: Value) -> ChangeRequest {
    ChangeRequest { engine: "quiet".into(), knob, claim: Claim::Exactly(value), heir_of: Vec::new() }
}

pub fn file(path: &Path, value: &str) -> ChangeRequest {
    exactly(Knob::File(path.to_owned()), text(value))
}

pub fn list(path: &str, list: &str) -> ChangeRequest {
    exactly(Knob::CpuList(path.into()), Value::Cpus(cpus(list)))
}

pub fn present(cgroup: &str) -> ChangeRequest {
    exactly(Knob::Directory(folder(cgroup)), Value::Present(true))
}

pub fn member(thread: Thread) -> Knob {
    Knob::Membership { thread, hierarchy: CPUSETS.into() }
}

pub fn confined(thread: Thread) -> ChangeRequest {
    ChangeRequest { claim: Claim::Confined, ..exactly(Knob::Affinity(thread), text("")) }
}

/// Masks, the mask of new interrupts, two cgroups with their CPUs, and everything movable into one of them.
pub fn plan(machine: &Machine) -> Vec<ChangeRequest> {
    let threads: Vec<Thread> = (1..=5).map(|tid| machine.thread(tid)).collect();
    let mut plan: Vec<ChangeRequest> = threads.iter().map(|thread| confined(*thread)).collect();
    let mask = |path: &str| exactly(Knob::CpuMask(path.into()), Value::Cpus(cpus("0-1")));
    plan.push(mask("/proc/irq/default_smp_affinity"));
    for (cgroup, list_of) in [(SYSTEM, "0-1"), (QUIET, "2-3")] {
        let of = |name: &str| folder(cgroup).join(name).to_str().unwrap().to_owned();
        plan.extend([present(cgroup), list(&of("cpuset.cpus"), list_of), file(Path::new(&of("cpuset.mems")), "0")]);
    }
    plan.push(file(&folder("").join("cpuset.sched_load_balance"), "0"));
    plan.push(mask("/sys/devices/virtual/workqueue/cpumask"));
    plan.extend(threads.iter().map(|thread| exactly(member(*thread), Value::Cgroup(folder(SYSTEM)))));
    plan
}
