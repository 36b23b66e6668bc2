//! The tracked processes, found and followed by polling.
//!
//! One poll visits every tracked process, in three steps whose order matters:
//!
//! 1. Look at its known threads. A thread whose sums have not changed has not run.
//! 2. If some thread ran or may be running, list the threads: only a running thread can create threads. A thread that is created after its creator
//!    was looked at is found now, or when the creator's sums change.
//! 3. Read the child lists of the threads that ran. If a thread is gone, read those of all threads, because its children move to another thread's
//!    list. New processes are visited in the same poll.
//!
//! A thread that lives and dies between two polls is never seen. Neither is a child whose parent ended first, since it moves to a process that is
//! not tracked.

use std::collections::{BTreeMap, BTreeSet};

use machine::process::{Doing, Switches, Task, ticks_per_s};
use machine::{Error, Root};
use wire::Clock;

use super::thread::{Birth, Look, Thread};

/// Identifies a thread, even if its number is used again. In the order of ids, older threads of a process come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    pub(crate) tgid: u32,
    pub(crate) start_ticks: u64,
    pub(crate) tid: u32,
}

#[derive(Debug, Default)]
struct Process {
    parent: u32,
    /// When the threads were last listed. A thread that first appears in a later list was born after this time. `None`: not listed yet; the
    /// threads in the first list existed before.
    listed_ns: Option<u64>,
    threads: BTreeMap<u32, Thread>,
    /// Zombies: threads that were found dead and whose accounts are complete, but that /proc still lists.
    zombies: BTreeSet<u32>,
}

/// All tracked processes, and the accounts of threads that are gone.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Root,
    /// CLOCK_BOOTTIME minus CLOCK_MONOTONIC: the time for which the machine was suspended.
    suspended_ns: u64,
    /// Whether child processes become tracked.
    children: bool,
    /// Whether the threads' switches are counted.
    switches: bool,
    processes: BTreeMap<u32, Process>,
    /// Processes that are not tracked: children that existed before their parent was enrolled, and processes that became another user's.
    strangers: BTreeSet<u32>,
    ended: Vec<Clock>,
}

impl Tree {
    pub(crate) fn new(root: Root, suspended_ns: u64, children: bool) -> Tree {
        let (processes, strangers, ended) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        Tree { root, suspended_ns, children, switches: true, processes, strangers, ended }
    }

    /// Does not count the threads' switches. Reading the file with these counts takes as long as reading all other files of a thread.
    pub(crate) fn without_switches(self) -> Tree {
        Tree { switches: false, ..self }
    }

    /// Tracks a process with the threads that it has. Returns an error for which [`Error::is_gone`] holds if there is no such process.
    pub(crate) fn enrol(&mut self, pid: u32, now: &dyn Fn() -> u64) -> Result<(), Error> {
        if self.processes.contains_key(&pid) {
            return Ok(());
        }
        for tid in Task::process(&self.root, pid).threads()? {
            if self.children {
                self.strangers
                    .extend(unless_gone(Task::thread(&self.root, pid, tid).children_of_thread())?.unwrap_or_default());
            }
        }
        self.strangers.remove(&pid);
        self.processes.insert(pid, Process::default());
        self.visit(pid, now)?;
        Ok(())
    }

    /// Looks at all tracked processes, and finds new ones.
    pub(crate) fn poll(&mut self, now: &dyn Fn() -> u64) -> Result<(), Error> {
        let mut queue: Vec<u32> = self.processes.keys().copied().collect();
        while let Some(pid) = queue.pop() {
            match self.visit(pid, now) {
                Ok(found) => queue.extend(found),
                // The process has become another user's and may be hidden. The other processes are still tracked.
                Err(error) if error.is_denied() => {
                    lose(&mut self.processes, pid, now(), &mut self.ended);
                    self.strangers.insert(pid);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the threads alive at the last poll, each with the ids of its process and its own.
    fn alive(&self) -> impl Iterator<Item = (u32, u32, &Thread)> {
        self.processes
            .iter()
            .flat_map(|(tgid, process)| process.threads.iter().map(move |(tid, thread)| (*tgid, *tid, thread)))
    }

    /// Returns the threads alive at the last poll, as (tgid, tid, name).
    pub(super) fn living(&self) -> Vec<(u32, u32, String)> {
        self.alive().map(|(tgid, tid, thread)| (tgid, tid, thread.name())).collect()
    }

    /// Returns the threads alive at the last poll: their ids, in ascending order, and what that poll has read of them.
    pub(crate) fn looks(&self) -> BTreeMap<Id, &Look> {
        let id = |tgid, tid, thread: &Thread| Id { tgid, start_ticks: thread.start_ticks(), tid };
        self.alive().map(|(tgid, tid, thread)| (id(tgid, tid, thread), thread.last_look())).collect()
    }

    /// Returns a stand-in for a thread's creator, because /proc does not contain the creator. It is the oldest other thread of the process with
    /// the same name, since threads inherit names, or else the process's first thread. For the first thread it is the parent process. Returns 0 if
    /// the thread existed before tracking began.
    pub(crate) fn kin(&self, id: Id) -> u32 {
        let process = self.processes.get(&id.tgid);
        let Some((process, thread)) = process.and_then(|p| Some((p, p.threads.get(&id.tid)?))) else { return 0 };
        if thread.was_there_before() {
            return 0;
        }
        if id.tid == id.tgid {
            return process.parent;
        }
        let named_so = process.threads.iter().filter(|(_, other)| other.name() == thread.name());
        let oldest = named_so.map(|(tid, other)| (other.start_ticks(), *tid)).min();
        oldest.map(|(_, tid)| tid).filter(|tid| *tid != id.tid).unwrap_or(id.tgid)
    }

    /// Drops the accounts of threads that are gone, for callers that do not need them.
    pub(crate) fn forget_ended(&mut self) {
        self.ended.clear();
    }

    /// Returns the accounts of all threads that were ever tracked; those of living threads end at `end_ns`.
    pub(super) fn clocks(&self, end_ns: u64) -> Vec<Clock> {
        self.ended.iter().copied().chain(self.alive().map(|(_, _, thread)| thread.alive(end_ns))).collect()
    }

    /// Visits one process. Returns its new child processes, which are tracked from now on.
    fn visit(&mut self, pid: u32, now: &dyn Fn() -> u64) -> Result<BTreeSet<u32>, Error> {
        let Tree { root, suspended_ns, children, switches, processes, strangers, ended } = self;
        let Some(process) = processes.get_mut(&pid) else { return Ok(BTreeSet::new()) };
        let absent_ns = process.listed_ns;
        let visit_ns = now();
        let mut sight = Sight { root, suspended_ns: *suspended_ns, switches: *switches, pid, ended, now };
        let mut stirred = sight.known_threads(process)?;
        let may_have_made = process.threads.is_empty() || process.threads.values().any(Thread::is_ready);
        if may_have_made || !stirred.ran.is_empty() || stirred.lost_one {
            let listed = if stirred.reused { None } else { unless_gone(Task::process(root, pid).threads())? };
            let Some(listed) = listed else {
                lose(processes, pid, now(), ended);
                return Ok(BTreeSet::new());
            };
            sight.listed_threads(process, &listed, &mut stirred)?;
        }
        process.listed_ns = Some(visit_ns);
        let makers = if stirred.lost_one { process.threads.keys().copied().collect() } else { stirred.ran };
        let mut found = BTreeSet::new();
        if *children {
            for tid in makers {
                found.extend(unless_gone(Task::thread(root, pid, tid).children_of_thread())?.unwrap_or_default());
            }
        }
        found.retain(|child| !strangers.contains(child) && !processes.contains_key(child));
        // Each child in `found` is new: it was born after the previous visit to its parent. If this is the first visit, the parent was enrolled just
        // before it, and the child was born after that enrolment.
        let listed_ns = Some(absent_ns.unwrap_or(visit_ns));
        for child in &found {
            processes.insert(*child, Process { parent: pid, listed_ns, ..Process::default() });
        }
        Ok(found)
    }
}

/// The results of the first two steps of a visit to a process (see the module's description).
#[derive(Debug, Default)]
struct Stirred {
    /// Threads that ran since the last visit, new ones included.
    ran: Vec<u32>,
    /// True if some thread is gone.
    lost_one: bool,
    /// True if the process is gone and another one has its id.
    reused: bool,
}

/// The context of one visit to a process: all that the visit reads and writes, except the record of the process itself.
struct Sight<'a> {
    root: &'a Root,
    suspended_ns: u64,
    switches: bool,
    pid: u32,
    ended: &'a mut Vec<Clock>,
    now: &'a dyn Fn() -> u64,
}

impl Sight<'_> {
    fn known_threads(&mut self, process: &mut Process) -> Result<Stirred, Error> {
        let mut stirred = Stirred::default();
        let mut gone = Vec::new();
        for (tid, thread) in &mut process.threads {
            match self.look(*tid, Some(&*thread))? {
                None => gone.push(*tid),
                Some(look) if thread.is_reused(&look) => {
                    stirred.reused |= *tid == self.pid;
                    gone.push(*tid);
                }
                Some(look) if thread.is_replaced(&look) => {
                    self.ended.push(thread.gone(look.t_ns));
                    *thread = Thread::new(*tid, self.pid, process.parent, Birth::Enrolled, look);
                    stirred.ran.push(*tid);
                }
                Some(look) => {
                    if !thread.is_unchanged(look.sums) {
                        stirred.ran.push(*tid);
                    }
                    thread.update(look);
                }
            }
            if thread.has_ended() {
                gone.push(*tid);
                process.zombies.insert(*tid);
            }
        }
        stirred.lost_one = !gone.is_empty();
        for tid in gone {
            if let Some(thread) = process.threads.remove(&tid) {
                self.ended.push(thread.gone((self.now)()));
            }
        }
        Ok(stirred)
    }

    fn listed_threads(&mut self, process: &mut Process, listed: &[u32], stirred: &mut Stirred) -> Result<(), Error> {
        process.zombies.retain(|tid| listed.contains(tid));
        for tid in listed {
            if process.threads.contains_key(tid) || process.zombies.contains(tid) {
                continue;
            }
            let Some(look) = self.look(*tid, None)? else { continue };
            let birth = match process.listed_ns {
                None => Birth::Enrolled,
                Some(seen_absent_ns) => Birth::NotBefore {
                    seen_absent_ns,
                    tick_ns: look.stat.start_boottime_ns.saturating_sub(self.suspended_ns),
                    tick_length_ns: 1_000_000_000 / ticks_per_s().max(1),
                },
            };
            let thread = Thread::new(*tid, self.pid, process.parent, birth, look);
            if thread.has_ended() {
                self.ended.push(thread.gone((self.now)()));
                process.zombies.insert(*tid);
                stirred.lost_one = true;
            } else {
                process.threads.insert(*tid, thread);
                stirred.ran.push(*tid);
            }
        }
        Ok(())
    }

    /// Reads a thread's files in /proc. `known` is the thread if it was read before. Returns `None` if the thread is gone. The state is read before
    /// the sums, so the sums of a thread that was already dead are final. If the thread is off CPU, the time of the result is taken before the state
    /// and the sums are read. A wait that begins after this time, but before the reading, is then not counted as proven blocked time.
    fn look(&self, tid: u32, known: Option<&Thread>) -> Result<Option<Look>, Error> {
        let before_ns = (self.now)();
        let task = Task::thread(self.root, self.pid, tid);
        let Some(stat) = unless_gone(task.stat())? else { return Ok(None) };
        let Some(sums) = unless_gone(task.schedstat())? else { return Ok(None) };
        let t_ns = if stat.doing() == Doing::Off { before_ns } else { (self.now)() };
        let switches = match known.filter(|thread| thread.is_unchanged(sums)) {
            Some(thread) => thread.switches(),
            None if !self.switches => Switches::default(),
            None => match unless_gone(task.switches())? {
                Some(switches) => switches,
                None => return Ok(None),
            },
        };
        Ok(Some(Look { t_ns, sums, stat, switches }))
    }
}

/// Removes a process that is gone or hidden. The accounts of its threads up to then are kept.
fn lose(processes: &mut BTreeMap<u32, Process>, pid: u32, gone_ns: u64, ended: &mut Vec<Clock>) {
    let threads = processes.remove(&pid).map(|process| process.threads).unwrap_or_default();
    ended.extend(threads.values().map(|thread| thread.gone(gone_ns)));
}

/// Turns the error for a task that is gone into `None`.
fn unless_gone<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_gone() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;

    const MS: u64 = 1_000_000;

    /// A /proc made by hand, and a clock. A tick is 10 ms where tests run.
    struct Machine {
        root: TempDir,
        ms: Cell<u64>,
    }

    impl Machine {
        fn new() -> Machine {
            Machine { root: tempfile::tempdir().expect("folder"), ms: Cell::new(1000) }
        }

        fn process(&self, pid: u32) -> PathBuf {
            self.root.path().join(format!("proc/{pid}"))
        }

        fn task(&self, pid: u32, tid: u32) -> PathBuf {
            self.process(pid).join(format!("task/{tid}"))
        }

        /// A thread that started at `start_ms` and has run for `run_ms` in one slice per ms.
        fn put(&self, pid: u32, tid: u32, state: char, start_ms: u64, run_ms: u64) {
            let folder = self.task(pid, tid);
            fs::create_dir_all(&folder).expect("folder");
            let zeros = |fields: usize| vec!["0"; fields].join(" ");
            let stat = format!("{tid} (t{tid}) {state} {} {} {} 1", zeros(18), start_ms / 10, zeros(16));
            let status = format!("voluntary_ctxt_switches:\t{run_ms}\nnonvoluntary_ctxt_switches:\t0\n");
            for (name, text) in
                [("stat", stat), ("schedstat", format!("{} 0 {run_ms}\n", run_ms * MS)), ("status", status)]
            {
                fs::write(folder.join(name), text).expect("written");
            }
            if !folder.join("children").exists() {
                self.children(pid, tid, "");
            }
        }

        fn children(&self, pid: u32, tid: u32, pids: &str) {
            fs::write(self.task(pid, tid).join("children"), pids).expect("written");
        }

        fn remove(&self, path: PathBuf) {
            fs::remove_dir_all(path).expect("removed");
        }

        fn tree(&self, children: bool) -> Tree {
            let mut tree = Tree::new(Root::at(self.root.path()), 0, children);
            tree.enrol(10, &self.now()).expect("process 10 is there");
            tree
        }

        fn now(&self) -> impl Fn() -> u64 + '_ {
            || self.ms.get() * MS
        }

        fn poll(&self, tree: &mut Tree, ms: u64) {
            self.ms.set(ms);
            tree.poll(&self.now()).expect("polled");
        }

        /// (tid, born ms, run ms, unknown ms, dead) of every clock, by tid.
        fn clocks(&self, tree: &mut Tree) -> Vec<(u32, u64, u64, u64, bool)> {
            tree.poll(&self.now()).expect("polled");
            let mut clocks = tree.clocks(self.ms.get() * MS);
            clocks.sort_by_key(|clock| (clock.tid, clock.born_ns));
            let dead = |clock: &Clock| wire::State::from_wire(clock.state) == wire::State::Dead;
            let row = |c: &Clock| {
                assert!(c.is_whole(), "{c:?}");
                (c.tid, c.born_ns / MS, c.run_ns / MS, c.unknown_ns / MS, dead(c))
            };
            clocks.iter().map(row).collect()
        }
    }

    #[test]
    fn threads_come_and_go() {
        let machine = Machine::new();
        machine.put(10, 10, 'S', 500, 100);
        let mut tree = machine.tree(true);
        machine.put(10, 10, 'S', 500, 110);
        machine.put(10, 11, 'S', 1040, 20);
        machine.poll(&mut tree, 1100);
        assert_eq!(tree.living(), [(10, 10, "t10".to_owned()), (10, 11, "t11".to_owned())]);
        machine.remove(machine.task(10, 11));
        machine.poll(&mut tree, 1200);
        assert_eq!(machine.clocks(&mut tree), [(10, 1000, 10, 0, false), (11, 1040, 20, 110, true)]);
    }

    #[test]
    fn whoever_was_not_there_before_has_kin() {
        let machine = Machine::new();
        machine.put(10, 10, 'S', 500, 100);
        machine.put(10, 11, 'S', 510, 100);
        let mut tree = machine.tree(true);
        machine.put(10, 10, 'S', 500, 101);
        machine.put(10, 12, 'S', 1040, 1);
        machine.put(30, 30, 'S', 1050, 7);
        machine.put(30, 31, 'S', 1060, 7);
        machine.children(10, 10, "30");
        machine.poll(&mut tree, 1100);
        let ids = |tree: &Tree| -> Vec<(u32, u32, u32)> {
            tree.looks().into_keys().map(|id| (id.tgid, id.tid, tree.kin(id))).collect()
        };
        assert_eq!(ids(&tree), [(10, 10, 0), (10, 11, 0), (10, 12, 10), (30, 30, 10), (30, 31, 30)]);
        // Threads are called t and their number here, but for this one, which has its creator's name.
        machine.put(30, 32, 'S', 1090, 7);
        let stat = machine.task(30, 32).join("stat");
        fs::write(&stat, fs::read_to_string(&stat).expect("read").replace("(t32)", "(t31)")).expect("written");
        machine.put(30, 30, 'S', 1050, 8);
        machine.poll(&mut tree, 1150);
        assert_eq!(ids(&tree).last(), Some(&(30, 32, 31)));
    }

    #[test]
    fn a_number_given_again_is_another_thread() {
        let machine = Machine::new();
        machine.put(10, 10, 'S', 500, 100);
        machine.put(10, 11, 'S', 510, 100);
        let mut tree = machine.tree(true);
        let before: BTreeSet<Id> = tree.looks().into_keys().collect();
        machine.remove(machine.task(10, 11));
        machine.put(10, 11, 'S', 1040, 1);
        machine.poll(&mut tree, 1100);
        let later: BTreeSet<Id> = tree.looks().into_keys().collect();
        assert_eq!((before.len(), later.len(), before.intersection(&later).count()), (2, 2, 1));
    }

    #[test]
    fn a_new_thread_is_found_though_its_maker_has_stopped_since() {
        let machine = Machine::new();
        machine.put(10, 10, 'S', 500, 100);
        let mut tree = machine.tree(true);
        machine.poll(&mut tree, 1100);
        machine.put(10, 10, 'S', 500, 101);
        machine.put(10, 11, 'S', 1140, 20);
        machine.poll(&mut tree, 1200);
        machine.poll(&mut tree, 1300);
        // Not there at 1100, and in the tick from 1140.
        assert_eq!(machine.clocks(&mut tree)[1], (11, 1140, 20, 10, false));
    }

    #[test]
    fn child_processes_are_followed_but_not_those_from_before() {
        for follow in [true, false] {
            let machine = Machine::new();
            machine.put(10, 10, 'S', 500, 100);
            machine.put(20, 20, 'S', 600, 5);
            machine.children(10, 10, "20 ");
            let mut tree = machine.tree(follow);
            machine.put(10, 10, 'S', 500, 101);
            machine.put(30, 30, 'S', 1050, 7);
            machine.put(31, 31, 'S', 1060, 8);
            machine.children(10, 10, "20 30 ");
            machine.children(30, 30, "31");
            machine.poll(&mut tree, 1100);
            let tids: Vec<u32> = tree.living().into_iter().map(|(_, tid, _)| tid).collect();
            assert_eq!(tids, if follow { vec![10, 30, 31] } else { vec![10] });
            if follow {
                // Tracked processes stay tracked when their parent is gone.
                machine.remove(machine.process(30));
                machine.poll(&mut tree, 1150);
                assert_eq!(machine.clocks(&mut tree)[2], (31, 1060, 8, 10, false));
            }
        }
    }

    #[test]
    fn a_zombie_is_final_and_counted_once() {
        let machine = Machine::new();
        machine.put(10, 10, 'S', 500, 100);
        let mut tree = machine.tree(true);
        machine.put(10, 10, 'Z', 500, 190);
        machine.poll(&mut tree, 1100);
        machine.poll(&mut tree, 1200);
        assert_eq!(tree.living(), []);
        machine.remove(machine.process(10));
        machine.poll(&mut tree, 1300);
        assert_eq!(machine.clocks(&mut tree), [(10, 1000, 90, 10, true)]);
    }

    #[test]
    fn an_id_given_again_is_another_thread_or_a_stranger() {
        let machine = Machine::new();
        machine.put(10, 10, 'S', 500, 100);
        machine.put(10, 11, 'S', 500, 50);
        let mut tree = machine.tree(true);
        machine.put(10, 11, 'S', 1050, 5);
        machine.poll(&mut tree, 1100);
        assert_eq!(machine.clocks(&mut tree)[1..], [(11, 1000, 0, 100, true), (11, 1050, 5, 10, false)]);
        machine.put(10, 10, 'S', 1150, 3);
        machine.poll(&mut tree, 1200);
        assert_eq!(tree.living(), [], "the process is another one");
    }

    #[test]
    fn an_exec_by_a_thread_starts_the_main_thread_anew() {
        let machine = Machine::new();
        machine.put(10, 10, 'S', 500, 100);
        machine.put(10, 11, 'S', 1000, 1);
        let mut tree = machine.tree(true);
        machine.put(10, 10, 'R', 500, 20);
        machine.remove(machine.task(10, 11));
        machine.poll(&mut tree, 1100);
        machine.put(10, 10, 'S', 500, 60);
        machine.poll(&mut tree, 1200);
        let clocks = machine.clocks(&mut tree);
        assert_eq!(clocks, [(10, 1000, 0, 100, true), (10, 1100, 40, 0, false), (11, 1000, 0, 100, true)]);
    }

    #[test]
    fn a_process_that_is_not_there_is_refused() {
        let machine = Machine::new();
        machine.put(10, 10, 'S', 500, 100);
        let error = machine.tree(true).enrol(77, &machine.now()).expect_err("not there");
        assert!(error.is_gone(), "{error}");
    }
}
