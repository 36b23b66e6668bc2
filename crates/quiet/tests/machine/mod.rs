//! Machines whose files are recorded below `tests/roots`, with threads in memory.
#![allow(clippy::unwrap_used, dead_code, reason = "each test that uses it uses a part of it")]

mod threads;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ::machine::{CpuSet, Root};
use changes::entry::Entry;
use changes::recorder::{RecordedThread, Recorder};
use changes::undo::Undone;
use changes::{Error, JournalFolder, Knob, KnobIo, Session, Thread, Value};
use quiet::{Applied, Extent, Facts, Level, Plan, check, plan};
use tempfile::TempDir;

pub use threads::*;

/// A file's values, and each thread's mask, cgroup, and whether it is stopped.
pub type Snapshot = (BTreeMap<PathBuf, String>, BTreeMap<u32, (String, PathBuf, bool)>);

/// A machine whose files are in a folder. The text has `== PATH` before the content of each file.
pub struct Machine {
    pub io: Recorder,
    folder: TempDir,
    journals: TempDir,
    /// Mount point of the cpusets.
    mount: PathBuf,
    of_kernel: RefCell<BTreeSet<u32>>,
}

/// A folder in memory if there is such a place: a session syncs its journal, and these tests make thousands of them.
pub fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

impl Machine {
    pub fn new(name: &str, mount: &str, managed: u32) -> Machine {
        let folder = folder();
        let text = fs::read_to_string(stored("roots", name)).unwrap();
        for file in text.split("== /").skip(1) {
            let (path, content) = file.split_once('\n').unwrap();
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let io = Recorder::at(folder.path()).unwrap();
        let machine =
            Machine { io, folder, journals: self::folder(), mount: mount.into(), of_kernel: RefCell::default() };
        machine.fix(managed);
        machine
    }

    /// The kernel gives nobody the right to write to the file of an interrupt that cannot be moved.
    pub fn fix(&self, interrupt: u32) {
        let file = self.root().path(format!("/proc/irq/{interrupt}/smp_affinity_list"));
        fs::set_permissions(file, Permissions::from_mode(0o444)).unwrap();
    }

    pub fn root(&self) -> Root {
        Root::at(self.folder.path())
    }

    pub fn facts(&self) -> Facts {
        Facts::read(&self.root()).unwrap()
    }

    pub fn with(self, path: &str, content: &str) -> Machine {
        self.write(path, content);
        self
    }

    pub fn write(&self, path: &str, content: &str) {
        let path = self.root().path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().path(path)).unwrap().trim_end().to_owned()
    }

    /// The folder of a cgroup; the root of the cpusets by an empty name.
    pub fn cgroup(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.mount.clone() } else { self.mount.join(name) }
    }

    /// All files and folders, as they are, by their paths on the machine.
    pub fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path.clone());
                }
                let text = fs::read_to_string(&path).unwrap_or_default();
                files.insert(Path::new("/").join(path.strip_prefix(&self.folder).unwrap()), text);
            }
        }
        files
    }

    /// All files by their meaning, and all threads.
    pub fn snapshot(&self) -> Snapshot {
        let cpus = |word: &str| word.parse::<CpuSet>().map(|cpus| cpus.to_string());
        let word = |word: &str| cpus(word).unwrap_or_else(|_| word.trim_start_matches('0').to_owned());
        let meaning = |text: String| {
            let mut words: Vec<String> = text.split_whitespace().map(word).collect();
            // The order of threads in a list means nothing, nor that of controllers.
            words.sort_unstable();
            words.join(" ")
        };
        let files = self.files().into_iter().map(|(path, text)| (path, meaning(text))).collect();
        let threads = self.io.threads().into_iter();
        let state = |thread: RecordedThread| {
            let cgroup = thread.cgroups.into_values().next().unwrap();
            (thread.mask.to_string(), cgroup, thread.is_stopped)
        };
        (files, threads.map(|(tid, thread)| (tid, state(thread))).collect())
    }

    /// Asserts that everything is as before, and names only what is not.
    #[track_caller]
    pub fn same(&self, before: &Snapshot, what: &str) {
        let now = self.snapshot();
        let files = now.0.iter().filter(|(path, text)| before.0.get(*path) != Some(text));
        let missing = before.0.keys().filter(|path| !now.0.contains_key(*path));
        let threads = now.1.iter().filter(|(tid, state)| before.1.get(tid) != Some(state));
        let different: Vec<String> = files
            .map(|file| format!("{file:?}"))
            .chain(missing.map(|path| format!("{} is missing", path.display())))
            .chain(threads.map(|(tid, state)| format!("thread {tid}: {state:?} and not {:?}", before.1.get(tid))))
            .collect();
        assert!(now == *before, "{what}: {different:#?}");
    }

    /// Plans to make these CPUs quiet.
    pub fn plan(&self, list: &str, level: Level) -> Plan {
        let facts = self.facts();
        plan(&facts, &check(&facts, &cpus(list)).unwrap(), to(level))
    }

    pub fn begin(&self, owner: u32) -> Session<'_> {
        let command = format!("cox quiet {owner}");
        Session::begin(&self.io, self.journals(), owner, &command, |_| Ok(None)).unwrap()
    }

    /// Makes the CPUs of a plan quiet for a program, as its owner.
    pub fn apply(&self, plan: &Plan) -> Applied<'_> {
        self.apply_by(OWNER, plan, PROGRAM)
    }

    pub fn apply_by(&self, owner: u32, plan: &Plan, program: u32) -> Applied<'_> {
        self.try_apply(self.begin(owner), plan, program).map_err(|refused| refused.0).unwrap()
    }

    pub fn try_apply<'m>(
        &'m self,
        session: Session<'m>,
        plan: &Plan,
        program: u32,
    ) -> Result<Applied<'m>, Box<(Error, Undone)>> {
        Applied::make(session, plan.clone(), Box::new(Listed(self)), &[program])
    }

    pub fn journals(&self) -> JournalFolder {
        JournalFolder::at(self.journals.path())
    }

    /// The journals that are there.
    pub fn entries(&self) -> Vec<Entry> {
        self.journals().look(&self.io).unwrap().entries
    }

    /// As after SIGKILL of a session and its guardian: the journal stays, and the id belongs to another process.
    pub fn kill<T>(&self, session: T, owner: u32) {
        std::mem::forget(session);
        self.revive(owner);
    }

    /// Ends a session of the process `owner`: by itself, or, if the process is killed, by the next session.
    pub fn end(&self, applied: Applied<'_>, owner: u32, is_killed: bool) -> Undone {
        if is_killed {
            self.kill(applied, owner);
            return self.settle().remove(0);
        }
        applied.end()
    }

    /// Gives the id of a process to another one.
    pub fn revive(&self, owner: u32) {
        let thread = self.io.threads()[&owner].clone();
        self.io.add(owner, RecordedThread { start_ns: thread.start_ns + 1, ..thread });
    }

    /// Settles the sessions that are dead; what became of the changes of each.
    pub fn settle(&self) -> Vec<Undone> {
        let journals = self.journals();
        let lock = journals.lock().unwrap();
        journals.settle_dead(&lock, &self.io).unwrap().into_iter().map(|(_, undone)| undone).collect()
    }

    pub fn thread(&self, tid: u32) -> Thread {
        Thread { tid, start_ns: self.io.started_ns(tid).unwrap() }
    }

    pub fn mask(&self, tid: u32) -> String {
        self.io.threads()[&tid].mask.to_string()
    }

    pub fn cgroup_of(&self, tid: u32) -> PathBuf {
        self.io.threads()[&tid].cgroups[&self.mount].clone()
    }

    /// Another program moves a thread.
    pub fn move_to(&self, tid: u32, cgroup: &str) {
        let knob = Knob::Membership { thread: self.thread(tid), hierarchy: self.mount.clone() };
        self.io.write(&knob, &Value::Cgroup(self.cgroup(cgroup))).unwrap();
    }

    /// Another program makes a cpuset of version 1, or changes its CPUs.
    pub fn make_cpuset(&self, name: &str, list: &str) {
        let folder = self.cgroup(name);
        if !self.root().path(&folder).exists() {
            self.io.write(&Knob::Directory(folder.clone()), &Value::Present(true)).unwrap();
            self.io.write(&Knob::File(folder.join("cpuset.mems")), &Value::Text("0".into())).unwrap();
        }
        self.io.write(&Knob::CpuList(folder.join("cpuset.cpus")), &Value::Cpus(cpus(list))).unwrap();
    }

    /// The CPUs of a cpuset of version 1.
    pub fn cpus_of(&self, name: &str) -> String {
        self.read(self.cgroup(name).join("cpuset.cpus").to_str().unwrap())
    }

    pub fn is_stopped(&self, tid: u32) -> bool {
        self.io.threads()[&tid].is_stopped
    }
}

/// This machine's kernel: cpusets of version 1, an interrupt of the disk that is managed, two CPUs.
pub fn v1() -> Machine {
    Machine::new("v1", "/sys/fs/cgroup/cpuset", 36)
}

/// Four cores of two CPUs each, cpusets of version 2, one of them a partition of somebody else.
pub fn v2() -> Machine {
    Machine::new("v2", "/sys/fs/cgroup", 120)
}

pub fn stored(folder: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder).join(name).with_extension("txt")
}

pub fn to(level: Level) -> Extent {
    Extent { level, isolated: false }
}

pub fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// Asserts that nothing was left, and why.
#[track_caller]
pub fn is_clean(undone: &Undone) {
    assert!(undone.left.is_empty() && undone.troubles.is_empty(), "{undone:?}");
}
