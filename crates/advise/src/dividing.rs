//! Divides the waiting for other threads by cause, so that no thread-second is counted twice.
//!
//! Threads wait for one another for four reasons, and an account can tell them apart:
//!  1. **Unequal work.** The load imbalance is `Σ (largest work − own work)` over the worker threads. If each of them had worked as long as the
//!     busiest one, they would not have waited for this time. Work here is parallel work, without the serial work.
//!  2. **Serial work.** While one thread does serial work, each of the other threads waits, unless it does not exist yet.
//!  3. **A delayed thread.** A thread that waits for a CPU, a disk or a page makes the others wait in turn. One thread-second of delay can make each
//!     of the `n − 1` others wait at most one second.
//!  4. **The rest** is waiting while no thread was delayed and the work was equal: a lock, or an inequality of work that moves from thread to thread.
//!
//! Waiting for a CPU that another tracked thread (a *sibling*) holds has two possible causes: the sibling worked (oversubscription), or it spun while
//! it waited for a busier thread. In the second case, the wait counts as imbalance. So the verdict on a program with unequal work is imbalance if its
//! threads wait asleep, and also if they spin and thereby hold CPUs that others wait for.

use std::collections::BTreeMap;

use wire::Cause;

use crate::blame::{Blame, Delay, QUEUES};
use crate::elsewhere::elsewhere;
use crate::evidence::{Evidence, parallel_work_ns, share};
use crate::thresholds::{QUEUE_UTILISATION, WORTH_SHARE};

/// Divides the waiting in `evidence` by cause.
pub(crate) fn divide(evidence: &Evidence) -> Blame {
    let workers = &evidence.worker_sums;
    let waiting = workers.waiting_for_threads_ns() as f64;
    let largest = evidence.largest_parallel_work_ns();
    let inequality: f64 = evidence.workers.iter().map(|thread| largest - parallel_work_ns(thread)).sum();
    let unequal = inequality.min(waiting);
    let serial = waited_for_serial_work(evidence).min(waiting - unequal);

    let spun_part = share(workers.spin_ns as f64, workers.run_ns as f64);
    let (behind_siblings, squeezed) = queue(evidence);
    let queued_by_imbalance = behind_siblings * spun_part * share(unequal, waiting);

    let delays_ns = delays(evidence, behind_siblings - queued_by_imbalance, squeezed);
    let induced_ns = induced(evidence, &delays_ns, waiting - unequal - serial);
    Blame {
        imbalance_ns: unequal + queued_by_imbalance,
        rest_ns: (waiting - unequal - serial - induced_ns.values().sum::<f64>()).max(0.0),
        direct_ns: without_yields(delays_ns, workers.yield_wait_ns as f64),
        induced_ns,
    }
}

/// Returns how long threads waited for the serial work of others: each worker thread but the one with most serial work for all of it, without the time in
/// which the thread did not exist. (Serial work is often done before a team exists.)
fn waited_for_serial_work(evidence: &Evidence) -> f64 {
    let serial_ns = evidence.worker_sums.serial_ns as f64;
    let most = evidence.workers.iter().max_by_key(|thread| thread.serial_ns).map(|thread| thread.tid);
    let others = evidence.workers.iter().filter(|thread| Some(thread.tid) != most);
    others.map(|thread| (serial_ns - (evidence.wall_ns - thread.wall_ns as f64).max(0.0)).max(0.0)).sum()
}

/// Returns the thread time spent waiting for CPUs that other tracked threads held, in two parts: the part that the program itself caused with its
/// number of threads, and the part that other programs caused by using its CPUs.
///
/// The model: n threads on C CPUs leave n − C threads in run queues. If other programs use O of these CPUs, n − C + O threads queue. So the program
/// caused `(n − C) / (n − C + O)` of the waiting, or none of it if n ≤ C. Other programs caused the rest.
fn queue(evidence: &Evidence) -> (f64, f64) {
    let (behind, sums) = (&evidence.behind, &evidence.sums);
    let waited = sums.wake_delay_ns.saturating_add(sums.preempt_wait_ns);
    // Each wait for a CPU has one of four causes: cox, another program or a tracked thread held the CPU, or it was idle. The waits behind tracked
    // threads are limited to what the other three causes leave of all waiting, so that no nanosecond counts twice.
    let elsewhere_ns = [behind.cox_ns, behind.others_ns, behind.idle_ns];
    let left = elsewhere_ns.into_iter().fold(waited, u64::saturating_sub);
    let queued = behind.siblings_ns.min(left) as f64;
    let others = evidence.cpus_of_others();
    if others < WORTH_SHARE * evidence.cpus || elsewhere(evidence).is_some() {
        return (queued, 0.0);
    }
    let threads = evidence.workers_alive().min(evidence.workers.len() as f64);
    let own = queued * share(threads - evidence.cpus, threads - evidence.cpus + others);
    (own, queued - own)
}

/// Returns the thread time spent in each delay. Waits after sched_yield are included: the thread waits for a CPU that it gave to another tracked
/// thread, or to a thread that the backend does not see.
fn delays(evidence: &Evidence, behind_siblings: f64, squeezed: f64) -> BTreeMap<Delay, f64> {
    let sums = &evidence.sums;
    let unseen = if evidence.sees.preemptors { 0 } else { sums.wake_delay_ns.saturating_add(sums.preempt_wait_ns) };
    BTreeMap::from([
        (Delay::Sibling, behind_siblings),
        (Delay::Squeezed, squeezed),
        (Delay::Cox, evidence.behind.cox_ns as f64),
        (Delay::Other, evidence.behind.others_ns as f64),
        (Delay::Idle, evidence.behind.idle_ns as f64),
        (Delay::Unseen, unseen as f64),
        (Delay::Steal, sums.steal_ns as f64),
        (Delay::Disk, sums.blocked_by[Cause::Disk] as f64),
        (Delay::Network, sums.blocked_by[Cause::Network] as f64),
        (Delay::PageFault, sums.blocked_by[Cause::PageFault] as f64),
        (Delay::FileLock, sums.blocked_by[Cause::FileLock] as f64),
    ])
}

/// Subtracts the waits after yields from the queue times, because these waits are already counted as waiting for other threads.
fn without_yields(mut delays: BTreeMap<Delay, f64>, yielded: f64) -> BTreeMap<Delay, f64> {
    let queued: f64 = QUEUES.iter().filter_map(|delay| delays.get(delay)).sum();
    let kept = 1.0 - share(yielded, queued);
    for delay in QUEUES {
        delays.entry(delay).and_modify(|ns| *ns *= kept);
    }
    delays
}

/// Returns for each delay how long other threads waited because of it: `min(waiting × length ÷ Σ lengths, length × limit)`. The limit is n − 1,
/// because a delay of one second can make each of the n − 1 other worker threads wait for at most one second. For queueing behind tracked threads,
/// the limit can be lower: threads that sleep at a barrier sleep only until the queued threads have run (see [`sleep_per_queue`]). So can the limit for
/// steal (see [`waits_per_stolen_second`]).
fn induced(evidence: &Evidence, delays: &BTreeMap<Delay, f64>, waiting: f64) -> BTreeMap<Delay, f64> {
    let others = evidence.workers.len().saturating_sub(1) as f64;
    // Queueing makes other threads wait only if the CPUs are busy. If threads queue while CPUs are idle, they are on the wrong CPU, but only for a
    // moment. This does not hold if an affinity mask keeps them from the idle CPUs.
    let busy = evidence.utilisation() >= QUEUE_UTILISATION || elsewhere(evidence).is_some();
    let counts = |delay: Delay| busy || !matches!(delay, Delay::Sibling | Delay::Squeezed);
    let counted: Vec<(Delay, f64)> = delays.iter().map(|(d, ns)| (*d, *ns)).filter(|(d, _)| counts(*d)).collect();
    let all: f64 = counted.iter().map(|(_, ns)| ns).sum();
    let workers = &evidence.worker_sums;
    // What the kernel does to let a thread sleep or to wake it counts as part of the sleep.
    let asleep_ns = workers.blocked_by[Cause::Futex].saturating_add(workers.kernel_sync_ns);
    let asleep = share(asleep_ns as f64, workers.waiting_for_threads_ns() as f64);
    let in_turns = |cpus: f64| (1.0 - asleep) * others + asleep * sleep_per_queue(evidence.workers.len(), cpus);
    let most = |delay: Delay| match delay {
        Delay::Sibling => in_turns(evidence.cpus),
        Delay::Squeezed => in_turns((evidence.cpus - evidence.cpus_of_others()).round()),
        Delay::Steal => waits_per_stolen_second(evidence, waiting),
        _ => others,
    };
    counted.into_iter().map(|(delay, ns)| (delay, (waiting * share(ns, all)).min(ns * most(delay)))).collect()
}

/// Returns how long other threads wait for a thread while the hypervisor runs something else on its CPU, divided by the length of that steal.
///
/// If the steal can explain all waiting, it does: at barriers, each stolen second makes each of the `n − 1` other threads wait for a second. Otherwise the
/// threads wait for one another for another reason, too (such as a lock), and would without steal. The hypervisor then steals from threads that are
/// waited for no more often than from those that are not: as many threads wait during steal as during other run time, `waiting / run` of them on average.
fn waits_per_stolen_second(evidence: &Evidence, waiting: f64) -> f64 {
    let others = evidence.workers.len().saturating_sub(1) as f64;
    let workers = &evidence.worker_sums;
    let unexplained = waiting - others * evidence.sums.steal_ns as f64;
    if evidence.worker_share(unexplained.max(0.0)) < WORTH_SHARE {
        others
    } else {
        (waiting / (workers.run_ns as f64).max(1.0)).min(others)
    }
}

/// Returns how long threads sleep at a barrier, divided by how long they queue for a CPU.
///
/// The model: `threads` threads with equal work run to the barrier in turns, `cpus` threads in each turn, and sleep there until the last turn has
/// ended. There are q full turns, and r threads in the last turn. A thread of turn k queues for k − 1 turns and sleeps during all later turns. The
/// ratio is `cpus (q + 1) / (cpus (q − 1) + 2 r)`, and 1 when r = 0. Threads that share CPUs by time slices sleep less.
fn sleep_per_queue(threads: usize, cpus: f64) -> f64 {
    let cpus = cpus.max(1.0);
    let full = (threads as f64 / cpus).floor();
    let last = threads as f64 - full * cpus;
    if last < 1.0 { 1.0 } else { cpus * (full + 1.0) / (cpus * (full - 1.0).max(0.0) + 2.0 * last) }
}

#[cfg(test)]
mod tests {
    use ledger::{Account, Lost, OwnCost, Preemptor, PreemptorKind, Process, Program, Thread};

    use super::*;
    use crate::facts::Facts;

    #[test]
    fn turns_at_a_barrier() {
        // Three on two CPUs: two sleep one turn each while the third, which queued for one, runs.
        assert_eq!(sleep_per_queue(3, 2.0), 2.0);
        // Four: two sleep while two run. Five: 2+2+1+1 turns asleep, 1+1+2 turns queued.
        assert_eq!(sleep_per_queue(4, 2.0), 1.0);
        assert_eq!(sleep_per_queue(5, 2.0), 1.5);
        assert_eq!(sleep_per_queue(9, 8.0), 8.0);
    }

    #[test]
    fn no_second_is_claimed_twice() {
        // One of four threads has all the work; the spinners hold its CPU half of the time.
        let thread = |tid: u32, spin_ns: u64| Thread {
            tid,
            wall_ns: 1000,
            run_ns: 500,
            spin_ns,
            preempt_wait_ns: 500,
            ..Thread::default()
        };
        let threads = vec![thread(1, 0), thread(2, 490), thread(3, 490), thread(4, 490)];
        let process = Process { pid: 1, threads, ..Process::default() };
        let account = Account {
            backend: wire::Backend::Bpf,
            sees: None,
            provenance: None,
            window_ns: 1000,
            events: 0,
            lost: Lost::default(),
            own_cost: OwnCost::default(),
            programs: vec![Program { wall_ns: 1000, processes: vec![process], ..Program::default() }],
            cpus: Vec::new(),
            preemptors: vec![Preemptor { kind: PreemptorKind::Sibling, wait_ns: 2000, ..Preemptor::default() }],
            hot_functions: Vec::new(),
            co_run: None,
        };
        let facts = Facts { allowed_cpus: vec![0, 1], ..Facts::default() };
        let blame = Evidence::new(&account, &facts).blame;
        let claimed = blame.imbalance_ns + blame.rest_ns + blame.total_ns(Delay::Sibling);
        assert!((claimed - 3470.0).abs() < 1.0, "1470 spun and 2000 queued: {claimed}");
        // 1470 of the 2000 run nanoseconds were spun, all of it for the busier thread.
        assert!((blame.imbalance_ns - 2940.0).abs() < 1.0, "{}", blame.imbalance_ns);
    }
}
