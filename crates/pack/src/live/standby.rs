//! The time in which a program is not packed: cox waits until packing could help it.
//!
//! Rotation can only help if more threads run than the pack has CPUs. Many programs never get there, or only after they
//! have read their input; others gain nothing from rotation, as a profile of their threads shows (`profiles`). Meanwhile
//! no BPF programs are loaded: loading them takes about 20 ms of CPU time, and they cost each context switch some
//! hundred ns. cox only reads the program's threads from /proc, which takes at most 2 % of one CPU. When BPF programs
//! are loaded, the program is running.
//!
//! Everything that must be restored is safe meanwhile: the session and its guardian exist from before the program's
//! start to its end, and cox takes control of each process and thread that it finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use machine::Root;
use machine::process::Task;
use watch::snapshots::{self, Table, has_ended};
use watch::{Sight, ThreadSnapshots};
use wire::ThreadSnapshot;

use super::Error;
use super::alone::may_be_bound;
use super::managed::Holder;
use super::orphans::Orphans;
use super::plan::Plan;
use super::profiles::{Code, Looked, Profiles};
use super::summary::Summary;
use crate::policy::controller::{IDLE_PART, Totals};

/// Time between two looks at the threads: the first value in the first [`SOON_NS`] of a program, the second one later.
/// A look takes about 0.1 ms on a CPU of the program, and threads that meet often all wait meanwhile. But if threads
/// wait in loops, each of the pauses may be ten times slower without packing.
const LOOK: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(50));
const SOON_NS: u64 = 100_000_000;
/// Longest time between two looks while packing may not begin: new processes have to be found some time, so that their
/// masks are restored if cox is killed.
const REST: Duration = Duration::from_millis(200);
/// A pause is at least this many times as long as the look before it, so that looks take at most 2 % of one CPU.
const PAUSE_PER_LOOK: u64 = 50;

/// A program that is not packed now.
pub struct Standby {
    snapshots: Box<dyn ThreadSnapshots>,
    /// Whether child processes belong to the program.
    children: bool,
    begun_ns: u64,
    /// CPUs of the pack.
    slots: usize,
    /// Number of snapshots that have been read so far.
    known: usize,
    /// The threads that lived at the last look, by the number of their snapshot.
    living: BTreeMap<usize, Living>,
    /// CPU time of threads that have ended, ns.
    ended_ns: u64,
    looked_ns: u64,
    /// CPU time that the last look took, ns.
    took_ns: u64,
    closed_ns: Option<u64>,
    /// Packing does not begin before this time: it was tried, and did not help.
    until_ns: u64,
    profiles: Profiles,
}

/// A thread that lived at the last look.
struct Living {
    tgid: u32,
    /// CPU time at the last look, ns; `None` before the first one.
    run_ns: Option<u64>,
    /// CPU time that does not count, because the thread had used it before this part of the session, ns.
    before_ns: u64,
}

impl Living {
    /// Returns the CPU time in this part of the session, ns.
    fn ran_ns(&self) -> u64 {
        self.run_ns.unwrap_or(self.before_ns).saturating_sub(self.before_ns)
    }
}

impl Standby {
    /// Takes control of the first thread of a program that starts now, which gives it the mask of the pack.
    ///
    /// # Errors
    /// Fails if /proc cannot be read, or the kernel refuses the mask.
    pub fn begin(plan: &Plan, holder: &mut Holder<'_>) -> Result<Standby, Error> {
        let mut standby = Standby::of(plan, 0)?;
        for &pid in &plan.pids {
            standby.snapshots.enrol(pid)?;
        }
        let new = standby.met(holder);
        holder.take_all(&new)?;
        Ok(standby)
    }

    /// Continues a session at `from_ns`, because packing did not help these processes. It does not begin again before
    /// `until_ns`.
    ///
    /// # Errors
    /// Fails if /proc cannot be read, or a change cannot be journaled.
    pub fn resume(
        plan: &Plan,
        pids: &[u32],
        (from_ns, until_ns): (u64, u64),
        holder: &mut Holder<'_>,
    ) -> Result<Standby, Error> {
        let mut standby = Standby { begun_ns: from_ns, ..Standby::of(plan, until_ns)? };
        pids.iter().for_each(|&pid| standby.enrol_family(pid));
        standby.meet(holder)?;
        standby.running();
        standby.living.values_mut().for_each(|living| living.before_ns = living.run_ns.unwrap_or(0));
        Ok(standby)
    }

    fn of(plan: &Plan, until_ns: u64) -> Result<Standby, Error> {
        let (snapshots, _) = snapshots::start(Sight::Polled, plan.how.children, None, &plan.cpus)?;
        let now_ns = arch::monotonic_ns();
        Ok(Standby {
            snapshots,
            children: plan.how.children,
            begun_ns: now_ns,
            slots: plan.cpus.len(),
            known: 0,
            living: BTreeMap::new(),
            ended_ns: 0,
            looked_ns: now_ns,
            took_ns: 0,
            closed_ns: None,
            until_ns,
            profiles: Profiles::on(&plan.cpus),
        })
    }

    /// Notes that the program starts: time before this call does not count.
    pub fn start(&mut self) {
        self.begun_ns = arch::monotonic_ns();
        // The first poll reads the CPU times of all processes. It takes about 1 ms, which a program with one thread
        // notices least. If it fails, so does the next one.
        let _ = self.snapshots.poll_at_once();
    }

    /// Waits until more threads run than the pack has CPUs and packing might help them, and returns true; false once the
    /// session is `over`.
    ///
    /// # Errors
    /// Fails if /proc cannot be read, or a change cannot be journaled.
    pub fn wait(
        &mut self,
        mut orphans: Option<&mut Orphans>,
        holder: &mut Holder<'_>,
        code: &mut Code<'_>,
        over: &AtomicBool,
    ) -> Result<bool, Error> {
        loop {
            thread::park_timeout(self.pause());
            if over.load(Ordering::Acquire) {
                // Threads that nobody has found yet have the mask of the pack, too.
                self.look_at_once(orphans, holder)?;
                return Ok(false);
            }
            let before_ns = arch::clock::thread_cpu_ns();
            self.find(orphans.as_deref_mut().map(Orphans::new_ones));
            self.snapshots.poll_at_once()?;
            self.meet(holder)?;
            let running = self.running();
            if running.len() <= self.slots {
                self.profiles.discard(self.looked_ns);
            } else if self.looked_ns >= self.until_ns && self.is_promising(&running, code) {
                return Ok(true);
            }
            self.took_ns = arch::clock::thread_cpu_ns() - before_ns;
        }
    }

    /// Returns whether packing might help the running threads.
    fn is_promising(&mut self, running: &[(u32, u32)], code: &mut Code<'_>) -> bool {
        let looked = Looked { now_ns: self.looked_ns, run_ns: self.ran_ns() };
        self.profiles.is_promising(running, looked, code)
    }

    /// Returns the CPU time of all threads in this part of the session, ns.
    fn ran_ns(&self) -> u64 {
        self.ended_ns + self.living.values().map(Living::ran_ns).sum::<u64>()
    }

    /// Returns the time until the next look.
    fn pause(&self) -> Duration {
        let now_ns = arch::monotonic_ns();
        if let Some(ends_ns) = self.profiles.ends_ns() {
            return Duration::from_nanos(ends_ns.saturating_sub(now_ns));
        }
        let rest = Duration::from_nanos(self.until_ns.saturating_sub(now_ns)).min(REST);
        let rest = rest.max(Duration::from_nanos(self.took_ns * PAUSE_PER_LOOK));
        let soon = self.until_ns == 0 && now_ns < self.begun_ns + SOON_NS;
        rest.max(if soon { LOOK.0 } else { LOOK.1 })
    }

    /// Returns the program's processes that `than` does not contain, after a new look at /proc.
    ///
    /// # Errors
    /// Fails if /proc cannot be read, or a change cannot be journaled.
    pub fn other_processes(
        &mut self,
        than: &BTreeSet<u32>,
        orphans: Option<&mut Orphans>,
        holder: &mut Holder<'_>,
    ) -> Result<BTreeSet<u32>, Error> {
        self.look_at_once(orphans, holder)?;
        Ok(self.living.values().map(|living| living.tgid).filter(|tgid| !than.contains(tgid)).collect())
    }

    /// Reads the threads' CPU times for the last time: what comes later does not belong to this part of the session.
    /// Returns the time.
    pub fn close(&mut self) -> u64 {
        self.ran(|table, number| table.read(number));
        *self.closed_ns.insert(self.looked_ns)
    }

    /// Ends this part of the session. `own_ns` is cox's own CPU time in it, ns.
    pub fn end(mut self, own_ns: u64) -> Summary {
        let closed_ns = self.closed_ns.unwrap_or_else(|| self.close());
        let wall_ns = closed_ns.saturating_sub(self.begun_ns);
        let mut living = BTreeMap::new();
        for one in self.living.values() {
            *living.entry(one.tgid).or_default() += 1;
        }
        let run_ns = self.ran_ns();
        Summary {
            wall_ns,
            slots_ns: wall_ns * self.slots as u64,
            threads: self.known,
            only_watched: true,
            profiles: self.profiles.count(),
            short_bursts: self.profiles.short_bursts(),
            living,
            totals: Totals { run_ns, ..Totals::default() },
            own_ns,
            others: self.snapshots.others(),
            backend: Some(self.snapshots.backend()),
            ..Summary::default()
        }
    }

    fn look_at_once(&mut self, orphans: Option<&mut Orphans>, holder: &mut Holder<'_>) -> Result<(), Error> {
        self.find(orphans.map(Orphans::look));
        self.snapshots.poll_at_once()?;
        self.meet(holder)
    }

    /// Adds processes whose parent ended before they were found.
    fn find(&mut self, orphans: Option<Vec<u32>>) {
        orphans.into_iter().flatten().for_each(|pid| self.enrol_family(pid));
    }

    /// Enrols a process with all its descendants.
    fn enrol_family(&mut self, pid: u32) {
        let root = Root::live();
        let mut family = vec![pid];
        while let Some(pid) = family.pop() {
            // A process that has just ended, or is hidden from this user, cannot be observed.
            let _ = self.snapshots.enrol(pid);
            if self.children {
                family.extend(Task::process(&root, pid).children());
            }
        }
    }

    /// Takes control of new threads, and forgets those that have ended.
    fn meet(&mut self, holder: &mut Holder<'_>) -> Result<(), Error> {
        let new = self.met(holder);
        holder.take(&new)?;
        let table = self.snapshots.table();
        let ended_ns = &mut self.ended_ns;
        self.living.retain(|&number, living| {
            let ended = table.known(number).filter(has_ended);
            if let Some(snapshot) = &ended {
                *ended_ns += living.ran_ns();
                holder.forget(snapshot.tid);
            }
            ended.is_none()
        });
        Ok(())
    }

    /// Returns the threads that were found since the last call.
    fn met(&mut self, holder: &mut Holder<'_>) -> Vec<(usize, ThreadSnapshot)> {
        let table = self.snapshots.table();
        let mut new = Vec::new();
        while self.known < table.given() {
            let Some(snapshot) = table.known(self.known) else { break };
            if has_ended(&snapshot) {
                holder.passed(&snapshot);
            } else {
                self.living.insert(self.known, Living { tgid: snapshot.tgid, run_ns: None, before_ns: 0 });
                new.push((self.known, snapshot));
            }
            self.known += 1;
        }
        new
    }

    /// Returns the threads that the last poll found to have run since the look before, as [`Window::active`] counts them,
    /// and that could be rotated: process and thread.
    ///
    /// [`Window::active`]: crate::policy::mode::Window::active
    fn running(&mut self) -> Vec<(u32, u32)> {
        self.ran(|table, number| table.known(number))
    }

    /// Takes over the threads' CPU times as `read` returns them. Returns the same threads as [`Standby::running`].
    fn ran(&mut self, read: impl Fn(&dyn Table, usize) -> Option<ThreadSnapshot>) -> Vec<(u32, u32)> {
        let table = self.snapshots.table();
        let now_ns = arch::monotonic_ns();
        let idle_ns = (now_ns - self.looked_ns) / IDLE_PART;
        self.looked_ns = now_ns;
        let mut running = Vec::new();
        let mut of_process: BTreeMap<u32, usize> = BTreeMap::new();
        for living in self.living.values() {
            *of_process.entry(living.tgid).or_default() += 1;
        }
        for (&number, living) in &mut self.living {
            let Some(snapshot) = read(&*table, number) else { continue };
            let run_ns = snapshots::run_ns(&snapshot, now_ns);
            let before_ns = living.run_ns.replace(run_ns).unwrap_or(living.before_ns);
            let can_be_rotated = may_be_bound(of_process.get(&living.tgid) == Some(&1), run_ns);
            if can_be_rotated && run_ns.saturating_sub(before_ns) > idle_ns {
                running.push((snapshot.tgid, snapshot.tid));
            }
        }
        running
    }
}
