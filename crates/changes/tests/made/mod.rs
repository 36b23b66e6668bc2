//! A simulated machine: threads with affinities and schedulings that create other threads, and the processes of
//! sessions.
#![allow(clippy::unwrap_used, dead_code, reason = "each test that uses it uses a part of it")]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use changes::{
    ChangeRequest, Claim, Error, JournalFolder, Knob, KnobIo, Scheduling, Session, Setting, Thread, Value, Why, Writer,
};
use machine::CpuSet;
use tempfile::TempDir;

/// Process ids of sessions begin here; those of threads are below.
pub const SESSIONS: u32 = 1000;

pub const OTHER: Scheduling = Scheduling { policy: 0, flags: 0, nice: 0, priority: 0, slice_ns: 0 };

/// A thread.
#[derive(Clone, Debug)]
pub struct MadeThread {
    pub mask: CpuSet,
    /// The mask that was asked for last: the kernel applies it again when there are more CPUs.
    asked: CpuSet,
    pub scheduling: Scheduling,
    /// Its process, by its leader's id.
    pub leader: u32,
    /// What the program has wanted for it.
    pub wanted: CpuSet,
}

/// What threads do right after somebody has listed them.
#[derive(Clone, Copy, Debug, Default)]
pub enum Then {
    #[default]
    Nothing,
    /// All give birth, so many times.
    Bear(u32),
    /// The youngest gives birth and ends, so many times.
    BearAndEnd(u32),
}

#[derive(Default)]
pub struct State {
    pub threads: BTreeMap<u32, MadeThread>,
    /// Processes of sessions, and when each was born: an id may be used again.
    pub living: BTreeMap<u32, u64>,
    births: u64,
    last_born: u32,
    /// CPUs that are online and in everybody's cpuset; the kernel cuts masks down to them.
    pub online: CpuSet,
    pub boot: u32,
    pub then: Then,
    /// A thread that sets its own mask as soon as somebody else has set it, once.
    pub rebel: Option<(u32, CpuSet)>,
    /// Whether an undone scheduling could not be put back.
    pub one_way: bool,
}

/// The machine.
#[derive(Clone, Default)]
pub struct Made(Arc<Mutex<State>>);

impl Made {
    /// Threads that lead a process each.
    pub fn with_threads(count: u32) -> Made {
        let made = Made::default();
        made.state().online = cpus("0-7");
        for tid in 0..count {
            let mask = original(tid);
            let thread = MadeThread { asked: mask.clone(), wanted: mask.clone(), mask, scheduling: OTHER, leader: tid };
            made.state().threads.insert(tid, thread);
        }
        (1..4).for_each(|number| made.is_born(number));
        made
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The process of a session, if there is none.
    pub fn is_born(&self, number: u32) {
        let mut state = self.state();
        state.births += 1;
        let birth = state.births;
        state.living.entry(SESSIONS + number).or_insert(birth);
    }

    /// A thread that inherits what its creator has.
    pub fn bears(&self, creator: u32) -> u32 {
        self.state().bears(creator)
    }

    /// The program sets a mask.
    pub fn sets(&self, tid: u32, list: &str) {
        let mut state = self.state();
        let thread = state.threads.get_mut(&tid).unwrap();
        (thread.mask, thread.asked, thread.wanted) = (cpus(list), cpus(list), cpus(list));
    }

    /// The cpuset of all threads is another.
    pub fn allows(&self, list: &str) {
        let mut state = self.state();
        state.online = cpus(list);
        let online = state.online.clone();
        for thread in state.threads.values_mut() {
            let possible = thread.asked.intersection(&online);
            thread.mask = if possible.is_empty() { online.clone() } else { possible };
        }
    }

    pub fn ends(&self, tid: u32) {
        self.state().threads.remove(&tid);
    }

    pub fn mask(&self, tid: u32) -> CpuSet {
        self.state().threads[&tid].mask.clone()
    }

    pub fn policy(&self, tid: u32) -> u32 {
        self.state().threads[&tid].scheduling.policy
    }

    /// Whether all threads are as the program wanted them.
    pub fn is_original(&self) -> bool {
        self.state().threads.values().all(|thread| thread.mask == thread.wanted && thread.scheduling == OTHER)
    }
}

impl State {
    fn bears(&mut self, creator: u32) -> u32 {
        // No id is used again.
        let tid = self.last_born.max(self.threads.len() as u32) + 1;
        self.last_born = tid;
        let thread = self.threads[&creator].clone();
        self.threads.insert(tid, thread);
        tid
    }

    fn is_listed(&mut self, leader: u32) {
        let of_process = |(tid, thread): (&u32, &MadeThread)| (thread.leader == leader).then_some(*tid);
        let tids: Vec<u32> = self.threads.iter().filter_map(of_process).collect();
        match (self.then, tids.last()) {
            (Then::Bear(left @ 1..), _) => {
                tids.iter().for_each(|tid| _ = self.bears(*tid));
                self.then = Then::Bear(left - 1);
            }
            (Then::BearAndEnd(left @ 1..), Some(youngest)) => {
                self.bears(*youngest);
                self.threads.remove(youngest);
                self.then = Then::BearAndEnd(left - 1);
            }
            _ => {}
        }
    }

    fn write(&mut self, knob: &Knob, value: &Value) -> io::Result<()> {
        let online = self.online.clone();
        let thread = self.threads.get_mut(&tid_of(knob)).ok_or(io::Error::from_raw_os_error(libc::ESRCH))?;
        match (knob, value) {
            (Knob::Affinity(_), Value::Cpus(wanted)) => {
                let possible = wanted.intersection(&online);
                if possible.is_empty() {
                    return Err(io::Error::from_raw_os_error(libc::EINVAL));
                }
                (thread.mask, thread.asked) = (possible, wanted.clone());
                if let Some((_, own)) = self.rebel.take_if(|(tid, _)| *tid == tid_of(knob)) {
                    (thread.mask, thread.asked, thread.wanted) = (own.clone(), own.clone(), own);
                }
            }
            (Knob::Scheduling(_), Value::Scheduling(wanted)) => thread.scheduling = *wanted,
            _ => panic!("{value} is no value of {knob}"),
        }
        Ok(())
    }
}

fn tid_of(knob: &Knob) -> u32 {
    knob.thread().unwrap().tid
}

fn failed(knob: &Knob, source: io::Error) -> Error {
    let knob = Box::new(knob.clone());
    if source.raw_os_error() == Some(libc::ESRCH) { Error::Gone(knob) } else { Error::Knob { knob, source } }
}

struct MadeWriter(Made, Knob);

impl Writer for MadeWriter {
    fn write(&self, setting: &Setting) -> io::Result<()> {
        self.0.state().write(&self.1, setting.value())
    }

    fn is_within(&self, bounds: &Setting) -> io::Result<bool> {
        let Value::Cpus(bounds) = bounds.value() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let state = self.0.state();
        let thread = state.threads.get(&tid_of(&self.1)).ok_or(io::Error::from_raw_os_error(libc::ESRCH))?;
        Ok(thread.mask.is_subset(bounds))
    }
}

impl KnobIo for Made {
    fn read(&self, knob: &Knob) -> Result<Value, Error> {
        let state = self.state();
        let thread = state.threads.get(&tid_of(knob)).ok_or_else(|| Error::Gone(Box::new(knob.clone())))?;
        Ok(match knob {
            Knob::Affinity(_) => Value::Cpus(thread.mask.clone()),
            _ => Value::Scheduling(thread.scheduling),
        })
    }

    fn write(&self, knob: &Knob, value: &Value) -> Result<(), Error> {
        self.state().write(knob, value).map_err(|source| failed(knob, source))
    }

    fn exchange(&self, knob: &Knob, decide: &dyn Fn(&Value) -> Option<Value>) -> Result<Value, Error> {
        let now = self.read(knob)?;
        decide(&now).map_or(Ok(()), |value| self.write(knob, &value))?;
        Ok(now)
    }

    fn writer(&self, knob: &Knob) -> Result<Box<dyn Writer>, Error> {
        Ok(Box::new(MadeWriter(self.clone(), knob.clone())))
    }

    fn way_back(&self, knob: &Knob, _original: &Value, wanted: &Value) -> Result<(), Error> {
        if !self.state().one_way {
            return Ok(());
        }
        Err(Error::OneWay { knob: Box::new(knob.clone()), wanted: Box::new(wanted.clone()), limit: "nice" })
    }

    fn possible_cpus(&self, _thread: Thread) -> Result<CpuSet, Error> {
        Ok(self.state().online.clone())
    }

    fn online_cpus(&self) -> Result<CpuSet, Error> {
        // What masks may not have is missing in the cpuset.
        Ok(cpus("0-7"))
    }

    fn fixed(&self, _thread: Thread) -> Option<Why> {
        None
    }

    fn boot_id(&self) -> Result<String, Error> {
        Ok(format!("boot {}", self.state().boot))
    }

    fn started_ns(&self, tid: u32) -> Option<u64> {
        let state = self.state();
        if tid < SESSIONS { state.threads.get(&tid).map(|_| 0) } else { state.living.get(&tid).copied() }
    }

    fn threads_of(&self, leader: Thread) -> Result<Vec<u32>, Error> {
        let mut state = self.state();
        let of_process = |(tid, thread): (&u32, &MadeThread)| (thread.leader == leader.tid).then_some(*tid);
        let tids: Vec<u32> = state.threads.iter().filter_map(of_process).collect();
        state.is_listed(leader.tid);
        if tids.is_empty() { Err(Error::Gone(Box::new(Knob::Affinity(leader)))) } else { Ok(tids) }
    }

    fn creator_of(&self, _tid: u32) -> Option<u32> {
        None
    }

    fn hierarchy_of(&self, cgroup: &Path) -> Result<PathBuf, Error> {
        panic!("no cgroup is on this machine: {cgroup:?}")
    }

    fn members_of(&self, cgroup: &Path) -> Result<Vec<u32>, Error> {
        panic!("no cgroup is on this machine: {cgroup:?}")
    }

    fn users_of(&self, cgroup: &Path, _controller: &str) -> Result<Vec<PathBuf>, Error> {
        panic!("no cgroup is on this machine: {cgroup:?}")
    }

    fn nested_cpusets(&self, file: &Path) -> Result<Vec<PathBuf>, Error> {
        panic!("no cgroup is on this machine: {file:?}")
    }

    fn all_threads(&self) -> Result<Vec<u32>, Error> {
        Ok(self.state().threads.keys().copied().collect())
    }

    fn forgets_masks(&self) -> bool {
        false
    }
}

pub fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

pub fn mask(list: &str) -> Value {
    Value::Cpus(cpus(list))
}

/// Each leader's own mask before anybody came.
pub fn original(tid: u32) -> CpuSet {
    [cpus("0-7"), cpus("0-3"), cpus("5")][tid as usize % 3].clone()
}

pub fn thread(tid: u32) -> Thread {
    Thread { tid, start_ns: 0 }
}

pub fn affinity(tid: u32) -> Knob {
    Knob::Affinity(thread(tid))
}

pub fn scheduling(tid: u32) -> Knob {
    Knob::Scheduling(thread(tid))
}

pub fn within(tid: u32, list: &str) -> ChangeRequest {
    ChangeRequest { engine: "pack".into(), knob: affinity(tid), claim: Claim::Within(cpus(list)), heir_of: Vec::new() }
}

/// In SCHED_IDLE at times.
pub fn idle(tid: u32) -> ChangeRequest {
    let claim = Claim::AtTimes(Value::Scheduling(OTHER.idle()));
    ChangeRequest { engine: "pack".into(), knob: scheduling(tid), claim, heir_of: Vec::new() }
}

/// The same, of a thread that was born since its process was adopted.
pub fn born(request: ChangeRequest, ancestors: &[u32]) -> ChangeRequest {
    ChangeRequest { heir_of: ancestors.iter().map(|tid| thread(*tid)).collect(), ..request }
}

pub fn begin<'m>(made: &'m Made, folder: &TempDir, number: u32) -> Session<'m> {
    let (journals, command) = (JournalFolder::at(folder.path()), format!("cox {number}"));
    Session::begin(made, journals, SESSIONS + number, &command, |_| Ok(None)).unwrap()
}

/// Sets a taken knob through a handle.
pub fn set(session: &Session, knob: &Knob, value: &Value) -> Result<(), Error> {
    let handle = session.handle(knob)?;
    handle.apply(&handle.prepare(value)?)
}

/// As after SIGKILL of a session and its guardian: the journal stays.
pub fn kill(made: &Made, session: Session, number: u32) {
    made.state().living.remove(&(SESSIONS + number));
    std::mem::forget(session);
}
