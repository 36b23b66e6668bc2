//! Thread snapshots that are read from /proc on demand.
//!
//! The snapshot of a thread that is not running is exact. The kernel updates the sums of a running thread when the thread leaves its CPU, and at
//! the CPU's timer tick. So a snapshot is also exact if the caller has just taken over the thread's CPU. /proc neither distinguishes running
//! from queued nor says where in its code a thread is: all threads that can run are reported as queued.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use arch::monotonic_ns;
use machine::process::{Doing, SchedStat, Stat, Task, TaskFiles};
use machine::{Error, Root};
use wire::{Backend, Sample, State, ThreadSnapshot};

use super::others::{Before, Others};
use super::{Table, ThreadSnapshots, has_ended};
use crate::bpf::PLACES;
use crate::observer::WatchError;
use crate::proc::tree::{Id, Tree};
use crate::proc::{check, failed, suspended_ns};

/// A pause is this many times as long as the poll before it, so that polling takes at most 2 % of one CPU.
const PAUSE_PER_POLL: u64 = 50;
/// Longest pause, nanoseconds.
const LONGEST_PAUSE_NS: u64 = 100_000_000;
/// Nanoseconds. /proc does not say when a blocked thread left its CPU. If a reading finds a thread blocked that has run since the previous reading,
/// the thread is assumed to have left its CPU this long ago.
const SLEPT_BEFORE_NS: u64 = 50_000;

/// Number of threads whose files stay open. A process may usually have 1024 descriptors.
pub const STAY_OPEN: usize = 128;
/// Shortest time between two readings of a thread's switch counts: the file with these counts takes as long to read as all other files
/// together.
const COUNT_NS: u64 = 4_000_000;

/// Used in place of a row number for a thread that got no row, because the table was full.
const NOWHERE: usize = usize::MAX;

/// The known threads, and the root of the /proc in which they are found.
pub struct Polled {
    tree: Tree,
    root: Root,
    rows: Arc<Rows>,
    /// The threads that were alive at the last poll, each with its row number in the table.
    living: HashMap<Id, usize>,
    /// No poll is made before this time.
    next_ns: u64,
    /// CPUs on which the CPU time of other programs is counted.
    others_on: Vec<u32>,
    /// The CPU times of all processes at the first poll. The CPU time of other programs is counted from then on. `None` before: reading the files of
    /// all processes would delay the start of the program.
    before: Option<Before>,
}

/// The table: one row for each thread that ever got a snapshot.
#[derive(Default)]
pub struct Rows {
    rows: RwLock<Vec<Arc<Mutex<Row>>>>,
    without_place: AtomicU32,
    /// Number of threads whose files stay open.
    open: Arc<AtomicUsize>,
}

/// Counts a thread whose files stay open, as long as this value exists. There are at most [`STAY_OPEN`] such threads.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn of(count: &Arc<AtomicUsize>) -> Option<Open> {
        let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < STAY_OPEN).then_some(n + 1));
        taken.is_ok().then(|| Open(Arc::clone(count)))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A thread as it was when its files were last read.
struct Row {
    files: TaskFiles,
    /// Set if the thread's files stay open.
    open: Option<Open>,
    snapshot: ThreadSnapshot,
    sums: SchedStat,
    /// When the switches were last counted.
    counted_ns: u64,
}

impl Polled {
    /// Makes an empty table. With `follow_children`, child processes of tracked processes are tracked. The CPU time of other programs on `cpus` is
    /// counted from the first poll on.
    ///
    /// # Errors
    /// `Unavailable` if the kernel does not provide what is needed.
    pub fn new(follow_children: bool, cpus: &[u32]) -> Result<Polled, WatchError> {
        Polled::of(check(follow_children)?, follow_children, cpus)
    }

    fn of(root: Root, follow_children: bool, others_on: &[u32]) -> Result<Polled, WatchError> {
        // A thread's switches are counted when its snapshot is read.
        let tree = Tree::new(root.clone(), suspended_ns(), follow_children).without_switches();
        let (rows, living, others_on) = (Arc::default(), HashMap::new(), others_on.to_vec());
        Ok(Polled { tree, root, rows, living, next_ns: 0, others_on, before: None })
    }

    /// Gives a row to each thread that the last poll or [`enrol`](ThreadSnapshots::enrol) has found. `polled`: brings the rows of all threads up to date.
    fn update_rows(&mut self, polled: bool) {
        let Polled { tree, root, rows, living, .. } = self;
        let looks = tree.looks();
        living.retain(|id, number| {
            let stays = looks.contains_key(id);
            if !stays {
                rows.end(*number);
            }
            stays
        });
        for (id, look) in looks {
            if !polled && living.contains_key(&id) {
                continue;
            }
            // `kin` guesses the creator from the thread's name. The name may change later, so `kin` is called only once per thread, when the thread
            // is found.
            let number = *living.entry(id).or_insert_with(|| rows.give(root, id, tree.kin(id)).unwrap_or(NOWHERE));
            rows.with(number, |row| row.update(look.t_ns, look.sums, &look.stat));
        }
    }
}

impl ThreadSnapshots for Polled {
    fn backend(&self) -> Backend {
        Backend::Proc
    }

    fn enrol(&mut self, pid: u32) -> Result<(), WatchError> {
        match self.tree.enrol(pid, &monotonic_ns) {
            Ok(()) => {}
            // A process that is gone has no threads.
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(failed(error)),
        }
        self.update_rows(false);
        Ok(())
    }

    /// Polls if the pause after the last poll is over. The longer a poll takes, the longer is the pause after it.
    fn poll(&mut self) -> Result<(), WatchError> {
        if monotonic_ns() < self.next_ns { Ok(()) } else { self.poll_at_once() }
    }

    fn poll_at_once(&mut self) -> Result<(), WatchError> {
        // Read only once, so it does not lengthen the pause.
        self.before.get_or_insert_with(|| Before::read(&self.others_on, self.rows.run_ns()));
        // Measured in CPU time, because the polling thread may have to wait for a CPU during the poll.
        let before_ns = arch::clock::thread_cpu_ns();
        self.tree.poll(&monotonic_ns).map_err(failed)?;
        self.tree.forget_ended();
        self.update_rows(true);
        let took_ns = arch::clock::thread_cpu_ns() - before_ns;
        self.next_ns = monotonic_ns() + (took_ns * PAUSE_PER_POLL).min(LONGEST_PAUSE_NS);
        Ok(())
    }

    fn sample_on(&mut self, _cpus: &[u32], _mean_ns: u64) -> Result<(), WatchError> {
        Ok(())
    }

    fn take_samples(&mut self) -> Result<Vec<Sample>, WatchError> {
        Ok(Vec::new())
    }

    fn table(&self) -> Arc<dyn Table> {
        Arc::clone(&self.rows) as Arc<dyn Table>
    }

    fn others(&self) -> Others {
        let others = |before: &Before| before.others(&self.rows.processes(), self.rows.run_ns());
        self.before.as_ref().map(others).unwrap_or_default()
    }
}

impl Rows {
    fn give(&self, root: &Root, id: Id, kin: u32) -> Option<usize> {
        let mut rows = self.rows.write().ok()?;
        if rows.len() >= PLACES {
            self.without_place.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let open = Open::of(&self.open);
        let files = TaskFiles::new(Task::thread(root, id.tgid, id.tid), open.is_some());
        let snapshot = ThreadSnapshot {
            tid: id.tid,
            tgid: id.tgid,
            creator_tid: kin,
            call: -1,
            cpu: u16::MAX,
            state: State::Unseen as u8,
            ..ThreadSnapshot::default()
        };
        rows.push(Arc::new(Mutex::new(Row { files, open, snapshot, sums: SchedStat::default(), counted_ns: 0 })));
        Some(rows.len() - 1)
    }

    fn end(&self, number: usize) {
        self.with(number, Row::end);
    }

    fn with<T>(&self, number: usize, what: impl FnOnce(&mut Row) -> T) -> Option<T> {
        let row = self.rows.read().ok()?.get(number).cloned()?;
        let mut row = row.lock().ok()?;
        Some(what(&mut row))
    }
}

impl Table for Rows {
    fn given(&self) -> usize {
        self.rows.read().map_or(0, |rows| rows.len())
    }

    fn without_place(&self) -> u32 {
        self.without_place.load(Ordering::Relaxed)
    }

    fn read(&self, number: usize) -> Option<ThreadSnapshot> {
        self.with(number, |row| row.read(monotonic_ns()))
    }

    fn known(&self, number: usize) -> Option<ThreadSnapshot> {
        self.with(number, |row| row.snapshot)
    }
}

impl Row {
    fn end(&mut self) {
        self.snapshot.state = State::Dead as u8;
        self.files.close();
        self.open = None;
    }

    fn read(&mut self, now_ns: u64) -> ThreadSnapshot {
        match self.look(now_ns) {
            Err(error) if error.is_gone() => self.end(),
            // If reading the files in /proc fails, the old snapshot is better than none.
            Ok(()) | Err(_) => {}
        }
        self.snapshot
    }

    fn look(&mut self, now_ns: u64) -> Result<(), Error> {
        if has_ended(&self.snapshot) {
            return Ok(());
        }
        let sums = self.files.schedstat()?;
        // If a thread could run at the last reading, and its run time and run delay in /proc have not changed, it can still run. It is queued, or it
        // runs and the kernel has not updated these sums yet. The switches must have been counted once: polls do not count them.
        let could_run = State::from_wire(self.snapshot.state) == State::Preempt;
        if could_run && sums == self.sums && self.counted_ns > 0 {
            return Ok(());
        }
        let stat = self.files.stat()?;
        self.update(now_ns, sums, &stat);
        if !has_ended(&self.snapshot) && now_ns.saturating_sub(self.counted_ns) >= COUNT_NS {
            let switches = self.files.switches()?;
            (self.snapshot.blocks, self.snapshot.preempts) = (switches.voluntary as u32, switches.involuntary as u32);
            self.counted_ns = now_ns;
        }
        Ok(())
    }

    /// Brings the snapshot up to date with values that were read at `now_ns`.
    fn update(&mut self, now_ns: u64, sums: SchedStat, stat: &Stat) {
        // The thread may have been read again since these values were.
        if has_ended(&self.snapshot) || sums.run_ns < self.sums.run_ns {
            return;
        }
        let state = match stat.doing() {
            Doing::Ready => State::Preempt,
            Doing::Off => State::Blocked,
            Doing::Ended => return self.end(),
        };
        if sums != self.sums {
            // The thread has run since the last reading, but /proc does not say when it left its CPU. A blocked thread is assumed to have left it a
            // short time ago. Any other thread is assumed to have left it now, which is exact if the caller has just taken over that CPU.
            self.snapshot.out_ns = now_ns - if state == State::Blocked { SLEPT_BEFORE_NS } else { 0 };
        }
        (self.snapshot.state, self.snapshot.cpu, self.snapshot.run_ns) =
            (state as u8, stat.processor as u16, sums.run_ns);
        self.sums = sums;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;

    /// A /proc made by hand.
    struct Machine(TempDir);

    impl Machine {
        fn task(&self, pid: u32, tid: u32) -> PathBuf {
            self.0.path().join(format!("proc/{pid}/task/{tid}"))
        }

        fn put(&self, pid: u32, tid: u32, state: char, run_ns: u64, blocks: u64) {
            let folder = self.task(pid, tid);
            fs::create_dir_all(&folder).unwrap();
            let zeros = |fields: usize| vec!["0"; fields].join(" ");
            for (name, text) in [
                ("stat", format!("{tid} (t) {state} {} 7 {} 1", zeros(18), zeros(16))),
                ("schedstat", format!("{run_ns} 0 7\n")),
                ("status", format!("voluntary_ctxt_switches:\t{blocks}\nnonvoluntary_ctxt_switches:\t3\n")),
                ("children", String::new()),
            ] {
                fs::write(folder.join(name), text).unwrap();
            }
        }

        fn polled(&self) -> Polled {
            let mut polled = Polled::of(Root::at(self.0.path()), true, &[]).unwrap();
            polled.enrol(10).unwrap();
            polled
        }
    }

    fn state(snapshot: &ThreadSnapshot) -> State {
        State::from_wire(snapshot.state)
    }

    #[test]
    fn a_snapshot_is_as_it_is_when_it_is_asked_for() {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.put(10, 10, 'S', 100, 4);
        machine.put(10, 11, 'R', 50, 1);
        let polled = machine.polled();
        let (rows, look) = (polled.rows.clone(), |snapshot: ThreadSnapshot| {
            (snapshot.tid, state(&snapshot), snapshot.run_ns, snapshot.blocks)
        });
        assert_eq!(polled.rows.given(), 2);
        assert_eq!(rows.read(0).map(look), Some((10, State::Blocked, 100, 4)));
        assert_eq!(rows.read(1).map(look), Some((11, State::Preempt, 50, 1)));
        assert_eq!(rows.read(2), None);
        let before_ns = monotonic_ns();
        machine.put(10, 10, 'R', 130, 9);
        rows.with(0, |row| row.counted_ns = u64::MAX).unwrap();
        let ran = rows.read(0).unwrap();
        assert_eq!(look(ran), (10, State::Preempt, 130, 4), "switches are counted less often");
        assert!((before_ns..=monotonic_ns()).contains(&ran.out_ns) && (ran.cpu, ran.since_ns) == (1, 0), "{ran:?}");
        // It is queued, and has not run since.
        machine.put(10, 10, 'S', 130, 9);
        assert_eq!(rows.read(0), Some(ran));
        machine.put(10, 10, 'S', 131, 9);
        rows.with(0, |row| row.counted_ns = 0).unwrap();
        assert_eq!(rows.read(0).map(look), Some((10, State::Blocked, 131, 9)));
    }

    #[test]
    fn threads_are_found_and_missed() {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.put(10, 10, 'R', 100, 4);
        let mut polled = machine.polled();
        machine.put(10, 11, 'R', 1, 0);
        polled.next_ns = 0;
        polled.poll().unwrap();
        let rows = polled.rows.clone();
        assert_eq!((polled.rows.given(), rows.read(1).map(|snapshot| snapshot.creator_tid)), (2, Some(10)));
        // Files that were deleted can still be read here, unlike those of /proc.
        rows.with(1, |row| row.files.close()).unwrap();
        fs::remove_dir_all(machine.task(10, 11)).unwrap();
        assert_eq!(
            rows.read(1).map(|snapshot| state(&snapshot)),
            Some(State::Dead),
            "before anybody has looked for it"
        );
        machine.put(10, 11, 'R', 1, 0);
        assert_eq!(rows.read(1).map(|snapshot| state(&snapshot)), Some(State::Dead), "another thread of this number");
        fs::remove_dir_all(machine.0.path().join("proc/10")).unwrap();
        polled.next_ns = 0;
        polled.poll().unwrap();
        assert_eq!(rows.read(0).map(|snapshot| state(&snapshot)), Some(State::Dead));
        assert_eq!(polled.rows.given(), 2, "numbers are not given out again");
    }

    #[test]
    fn who_sleeps_left_before_who_was_made_to_stop() {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.put(10, 10, 'R', 1, 0);
        machine.put(10, 11, 'S', 1, 0);
        let rows = machine.polled().rows.clone();
        // They have run since they were enrolled.
        machine.put(10, 10, 'R', 2, 0);
        machine.put(10, 11, 'S', 2, 0);
        // In the order in which they are asked for.
        let out_ns = |number| rows.with(number, |row| row.read(5_000_000 + number as u64)).unwrap().out_ns;
        assert!(out_ns(0) > out_ns(1));
    }

    #[test]
    fn places_and_open_files_are_given_back_or_not_given_at_all() {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.put(10, 10, 'R', 1, 0);
        let mut polled = machine.polled();
        polled.rows.open.store(STAY_OPEN, Ordering::Relaxed);
        machine.put(10, 11, 'R', 1, 0);
        polled.poll_at_once().unwrap();
        let rows = polled.rows.clone();
        let stays_open = |number| rows.with(number, |row| row.open.is_some()).unwrap();
        assert!(stays_open(0) && !stays_open(1));
        rows.end(0);
        assert!(!stays_open(0));
        machine.put(10, 12, 'R', 1, 0);
        polled.poll_at_once().unwrap();
        assert!(stays_open(2), "the first one's have been closed");
    }

    #[test]
    fn nobody_is_looked_for_before_it_is_time() {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.put(10, 10, 'R', 100, 4);
        let mut polled = machine.polled();
        machine.put(10, 11, 'R', 1, 0);
        polled.next_ns = u64::MAX;
        polled.poll().unwrap();
        assert_eq!(polled.rows.given(), 1);
        polled.next_ns = 0;
        let before_ns = monotonic_ns();
        polled.poll().unwrap();
        assert!(polled.rows.given() == 2 && polled.next_ns > before_ns, "and again some time later");
    }

    #[test]
    fn who_is_not_there_has_no_threads() {
        let machine = Machine(tempfile::tempdir().unwrap());
        let mut polled = Polled::of(Root::at(machine.0.path()), true, &[]).unwrap();
        polled.enrol(10).unwrap();
        assert_eq!(polled.rows.given(), 0);
    }
}
