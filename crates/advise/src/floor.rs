//! Lower bounds of a run's wall time, below which no forecast may go.
//!
//! A wait is *removable* if the account shows that one of these ends it: another observed thread, a CPU, storage, a page, a file lock. All other
//! waits are *fixed*: timers, terminals, sockets and pipes whose other end was not observed, stopped threads, waits whose cause the backend does not
//! see, and unknown time. Two lower bounds of the wall time follow:
//!
//! - **Inactive time.** Call a thread active while it runs or waits for a CPU, storage, a page or a file lock. While no thread is active, every chain
//!   of threads that wait for one another ends at a fixed wait. The account has only sums, so it does not show how much the active times of threads
//!   overlap. Without overlap the inactive time is least: `wall − Σ active`.
//! - **Sequential time.** A *carrying* thread is one that does much of the work (see `CARRIES`), so that the program cannot finish without it. Its
//!   work and its fixed waits come one after another, and other threads cannot shorten them.

use std::collections::BTreeSet;

use ledger::summary::{self, Sums};
use ledger::{Account, Process, Thread};
use wire::Cause;

use crate::launchers::without_launchers;

/// A thread that does at least this part of the busiest thread's work is a *carrying* thread: the program cannot finish without it. A logger that
/// sleeps most of the time does less work, and its waits delay no other thread.
const CARRIES: f64 = 0.5;

/// Causes of blocking in which the wait ends as soon as a resource of the machine (such as a disk) has done its part.
const RESOURCES: [Cause; 3] = [Cause::Disk, Cause::PageFault, Cause::FileLock];

/// Causes of blocking in which either an observed thread or an unobserved process ends the wait.
const PARTNERS: [Cause; 3] = [Cause::Pipe, Cause::Poll, Cause::Network];

/// Lower bounds of the wall time, in nanoseconds, that no forecast may go below.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Floor {
    /// Least time in which no thread could continue, because each was in a fixed wait (one that nothing shows how to shorten, such as a timer) or
    /// waited for a thread in a fixed wait.
    pub inactive_ns: f64,
    /// The largest sum of one thread's fixed waits (such as timers), among the threads that do much of the work (carrying threads).
    pub waits_ns: f64,
    /// The largest sum of one thread's work and fixed waits (such as timers), among the threads that do much of the work (carrying threads).
    pub chain_ns: f64,
}

impl Floor {
    /// Computes the bounds. `sums`: sums over the account's threads. `wall_ns`: wall time of the run.
    pub fn new(account: &Account, sums: &Sums, wall_ns: f64) -> Floor {
        let resources = sums.blocked_by.of(&RESOURCES);
        let for_cpus = sums.wake_delay_ns.saturating_add(sums.preempt_wait_ns);
        let active = sums.run_ns.saturating_add(for_cpus).saturating_add(resources);
        // Launchers wait only because the program that they have started runs.
        let processes = account.programs.iter().flat_map(|program| without_launchers(&program.processes));
        let processes: Vec<&Process> = processes.collect();
        let threads = processes.iter().flat_map(|process| &process.threads);
        let busiest = threads.map(Thread::work_ns).max().unwrap_or(0);
        let tids: BTreeSet<u32> = summary::threads(account).map(|thread| thread.tid).collect();
        let parents: BTreeSet<u32> = processes.iter().map(|process| process.parent_pid).collect();
        let mut floor = Floor { inactive_ns: (wall_ns - active as f64).max(0.0), ..Floor::default() };
        for process in processes {
            let has_children = parents.contains(&process.pid);
            for thread in &process.threads {
                if (thread.work_ns() as f64) < CARRIES * busiest as f64 {
                    continue;
                }
                let waits = fixed_ns(thread, &tids, has_children) as f64;
                floor.waits_ns = floor.waits_ns.max(waits.min(wall_ns));
                floor.chain_ns = floor.chain_ns.max((waits + thread.work_ns() as f64).min(wall_ns));
            }
        }
        floor
    }

    /// Returns the least wall time under any schedule, in nanoseconds. `ideal_ns`: the work divided by the number of CPUs.
    pub fn besides(&self, ideal_ns: f64) -> f64 {
        ideal_ns + self.inactive_ns.max(self.waits_ns)
    }
}

/// Returns the sum of a thread's fixed waits, in nanoseconds: the waits that nothing in the account shows how to shorten, such as timers.
fn fixed_ns(thread: &Thread, tids: &BTreeSet<u32>, has_children: bool) -> u64 {
    let by = &thread.blocked_by;
    let by_threads = thread.woken_by.iter().filter(|by| by.tid != thread.tid && tids.contains(&by.tid));
    let ended = by_threads.fold(0u64, |sum, by| sum.saturating_add(by.blocked_ns));
    let futex = by[Cause::Futex];
    // The account shows how much of the blocked time was ended by other threads, but not how much of each cause. Threads end mostly futex waits, so
    // this time is subtracted from the futex waits first, and only the rest from waits for pipes, poll and sockets.
    let partners = by.of(&PARTNERS).saturating_sub(ended.saturating_sub(futex));
    let children = if has_children { 0 } else { by[Cause::ChildWait] };
    let others =
        by.of(&RESOURCES).saturating_add(by.of(&PARTNERS)).saturating_add(by.of(&[Cause::ChildWait, Cause::Futex]));
    let unseen = by.total().saturating_sub(others);
    [partners, children, unseen, thread.unknown_ns].into_iter().fold(0, u64::saturating_add)
}
