//! Computes from an account what the rules need: sums, the worker threads, and the causes of their waiting.

use ledger::summary::{self, Sums};
use ledger::{Account, Program, Sees, Thread};
use wire::Cause;

use crate::blame::Blame;
use crate::dividing::divide;
use crate::evidence::Evidence;
use crate::facts::Facts;
use crate::floor::Floor;
use crate::launchers;
use crate::thresholds::{
    HELPER_BLOCKED, HELPER_WORK, POOL_WORK, RANK_HELPER_RUN, WORKER_SLEEP, WORKER_SPIN, WORKER_WAKEUPS_PER_S,
    WORKER_WORK, WORTH_SHARE,
};

impl<'a> Evidence<'a> {
    /// Computes all sums of an account.
    pub fn new(account: &'a Account, facts: &'a Facts) -> Evidence<'a> {
        let threads: Vec<(&Thread, bool)> = account.programs.iter().flat_map(threads_of).collect();
        let ranks = account.programs.iter().find_map(|program| launchers::ranks(&program.processes));
        let sums = Sums::of(account);
        let concurrency = summary::concurrency(account, &sums);
        let mut workers = workers(&threads);
        if facts.openmp_runtime.is_none() {
            without_helpers(&mut workers);
        }
        let worker_sums = Sums::over(workers.iter().copied());
        let sees = account.sees();
        let sees = Sees { spin: sees.spin || sums.share(sums.run_ns) < WORTH_SHARE, ..sees };
        let wall_ns = concurrency.wall_ns.max(1) as f64;
        let mut evidence = Evidence {
            floor: Floor::new(account, &sums, wall_ns),
            account,
            facts,
            sees,
            all_cpus: summary::cpus(account),
            cpus: usable_cpus(account, facts),
            wall_ns,
            concurrency,
            behind: summary::behind(account),
            sums,
            workers,
            worker_sums,
            ranks,
            blame: Blame::default(),
        };
        evidence.blame = divide(&evidence);
        evidence
    }
}

/// Returns the threads that can take part in a program's work, each with a flag that is true for a main thread. Launchers' threads are not among them,
/// nor are the helpers of ranks.
fn threads_of(program: &Program) -> impl Iterator<Item = (&Thread, bool)> {
    let ranks = launchers::ranks(&program.processes).map(|ranks| ranks.pids).unwrap_or_default();
    launchers::without_launchers(&program.processes).flat_map(move |process| {
        let busiest_ns = process.threads.iter().map(|thread| thread.run_ns).max().unwrap_or(0);
        let least = if ranks.contains(&process.pid) { RANK_HELPER_RUN * busiest_ns as f64 } else { 0.0 };
        let threads = process.threads.iter().filter(move |thread| thread.run_ns as f64 >= least || sleeps(thread));
        threads.map(|thread| (thread, thread.tid == process.pid))
    })
}

/// Returns whether a thread slept on futexes for most of its life, as threads do that wait for their part of the work.
fn sleeps(thread: &Thread) -> bool {
    let futex = thread.blocked_by[Cause::Futex];
    futex as f64 >= WORKER_SLEEP * thread.wall_ns as f64 && futex > 0
}

/// Returns whether a thread slept on futexes for most of its life and was woken often, as threads are that meet at barriers or wait for a queue.
pub(crate) fn meets(thread: &Thread) -> bool {
    sleeps(thread) && thread.wakeups as f64 >= WORKER_WAKEUPS_PER_S * thread.wall_ns as f64 / 1e9
}

/// Returns the number of CPUs the program may use: those in its affinity mask; if that is unknown, the CPUs of the account.
fn usable_cpus(account: &Account, facts: &Facts) -> f64 {
    let known = [facts.program_cpus().len(), facts.online_cpus.len(), account.cpus.len()];
    known.into_iter().find(|cpus| *cpus > 0).unwrap_or(1) as f64
}

/// Returns the worker threads: the threads that do the program's work. They work, spin, or are woken as often as threads that meet at barriers.
/// A main thread that only prepares and joins is not a worker thread.
///
/// If these rules find only one worker, threads that slept on a futex for most of their life count as workers too, but main threads do not: if the
/// main thread waits to join its only worker, the program does not share work among threads.
fn workers<'a>(threads: &[(&'a Thread, bool)]) -> Vec<&'a Thread> {
    let busiest = threads.iter().map(|(thread, _)| thread.work_ns()).max().unwrap_or(0);
    // A main thread that only joins the other threads is woken about once per thread that it started.
    let joins = |thread: &Thread, main: bool| main && sleeps(thread) && thread.wakeups <= 2 * threads.len() as u64;
    let carries = |thread: &Thread, main: bool| {
        let wall = thread.wall_ns as f64;
        let works = thread.work_ns() as f64 >= (WORKER_WORK * busiest as f64).max(1.0);
        (works && !joins(thread, main))
            || (thread.spin_ns > 0 && thread.spin_ns as f64 >= WORKER_SPIN * wall)
            || (meets(thread) && !joins(thread, main))
    };
    let all = || threads.iter().copied();
    let workers: Vec<&Thread> =
        all().filter(|(thread, main)| carries(thread, *main)).map(|(thread, _)| thread).collect();
    if workers.len() != 1 {
        return workers;
    }
    let idlers = all().filter(|(thread, main)| !main && sleeps(thread) && !carries(thread, *main));
    workers.into_iter().chain(idlers.map(|(thread, _)| thread)).collect()
}

/// Removes a pool's readers, writers and managers, which hand work to the other threads. In an OpenMP team, a thread with so little work is one of the
/// team.
fn without_helpers(workers: &mut Vec<&Thread>) {
    let busiest = workers.iter().map(|thread| thread.work_ns()).max().unwrap_or(0) as f64;
    let does = |thread: &Thread, part: f64| thread.work_ns() as f64 >= part * busiest;
    if workers.iter().filter(|thread| does(thread, POOL_WORK)).count() >= 2 {
        let blocked = |thread: &Thread| thread.blocked_ns as f64 >= HELPER_BLOCKED * thread.wall_ns as f64;
        workers.retain(|thread| does(thread, HELPER_WORK) || !blocked(thread));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, run_ns: u64, futex_ns: u64, wakeups: u64) -> Thread {
        let blocked_by = [(Cause::Futex, futex_ns)].into_iter().collect();
        let wall_ns = run_ns + futex_ns;
        Thread { tid, run_ns, wall_ns, blocked_ns: futex_ns, blocked_by, wakeups, ..Thread::default() }
    }

    fn tids(workers: &[&Thread]) -> Vec<u32> {
        workers.iter().map(|thread| thread.tid).collect()
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_main_thread_that_joins_is_no_worker() {
        let (main, worker, other) = (thread(1, S / 100, 10 * S, 2), thread(2, 10 * S, 0, 1), thread(3, 10 * S, 0, 1));
        assert_eq!(tids(&workers(&[(&main, true), (&worker, false), (&other, false)])), [2, 3]);
        assert_eq!(tids(&workers(&[(&main, true), (&worker, false)])), [2]);
        let prepares = thread(1, S, 10 * S, 2);
        assert_eq!(tids(&workers(&[(&prepares, true), (&worker, false), (&other, false)])), [2, 3]);
        let takes_part = thread(1, S, 10 * S, 50);
        assert_eq!(tids(&workers(&[(&takes_part, true), (&worker, false), (&other, false)])), [1, 2, 3]);
    }

    #[test]
    fn readers_and_writers_of_a_pool_are_no_workers() {
        let (one, two) = (thread(1, 10 * S, S, 9), thread(2, 4 * S, 7 * S, 9));
        let (reader, busy) = (thread(3, S, 9 * S, 5000), thread(4, S, S, 5000));
        let left = |threads: &[&Thread]| {
            let mut threads: Vec<&Thread> = threads.to_vec();
            without_helpers(&mut threads);
            tids(&threads)
        };
        assert_eq!(left(&[&one, &two, &reader, &busy]), [1, 2, 4]);
        assert_eq!(left(&[&one, &reader, &busy]), [1, 3, 4], "one thread does most of the work: the others lack work");
    }

    #[test]
    fn sleepers_count_when_one_thread_works_alone() {
        let (main, idle) = (thread(1, 10 * S, 0, 1), thread(2, 1000, 10 * S, 1));
        assert_eq!(tids(&workers(&[(&main, true), (&idle, false)])), [1, 2]);
    }

    #[test]
    fn a_thread_woken_in_rhythm_is_a_worker_without_work() {
        let (main, idle) = (thread(1, 10 * S, 0, 1), thread(2, 1000, 10 * S, 5000));
        let helper = thread(3, 10 * S, 0, 1);
        assert_eq!(tids(&workers(&[(&main, true), (&idle, false), (&helper, false)])), [1, 2, 3]);
    }
}
