//! A lock convoy: threads with equal work sleep and wake one another in rotation while CPUs are idle.
//!
//! Equal work, and wake-ups that do not come from one single thread, distinguish a convoy from imbalance. Idle CPUs, and waiting that no queue
//! explains, distinguish it from oversubscription. Spinning on a pthread spin lock is a convoy, too. It is recognised by the name of the lock's
//! function.
//!
//! Other waiting for threads is reported as [`Kind::WaitingForThreads`].
//!
//! Bound: the same work without waiting, spread over the CPUs: `wall / max(Σ work / min(n, CPUs), busiest)`. Halving the time inside the lock gives
//! at least half of that saving.

use std::collections::BTreeMap;

use ledger::account::{cpu, thread};
use ledger::summary;
use wire::{Cause, Waiting};

use super::finding::Finding;
use crate::alone::works_in_one_thread;
use crate::evidence::Evidence;
use crate::expected::Expected;
use crate::figures::Figure::{BlockedBy, Cpus, Sum, Whole};
use crate::figures::Whole::{LargestWorkNs, WallNs, WorkerThreads};
use crate::figures::say;
use crate::numbers::{about_percent, counted};
use crate::thresholds::{
    CONVOY_CONCURRENCY, EQUAL_WORK_FACTOR, IMBALANCE_SHARE, INTENDED_SHARE, MIXED_SHARE, ROTATION_SHARE,
};
use crate::verdict::{Confidence, Kind, NextStep};

/// Holding the lock for half as long saves at least this part of the largest possible saving.
const SURE: f64 = 0.5;

/// Detects that threads wait for one another although neither unequal work nor a delay explains it.
pub(crate) fn convoy(evidence: &Evidence) -> Option<Finding> {
    let rest = evidence.blame.rest_ns;
    let workers = evidence.workers.len();
    let used = evidence.concurrency.working / evidence.parallelism(evidence.cpus);
    if workers < 2 || evidence.worker_share(rest) < IMBALANCE_SHARE || used > CONVOY_CONCURRENCY {
        return None;
    }
    let saved = evidence.wall_ns - evidence.wall_ns / evidence.thread_bound().max(1.0);
    let expected = Expected::saving(evidence.wall_ns, saved, SURE);
    if !expected.is_worth_trying() {
        return None;
    }
    let kind = if is_lock(evidence) { Kind::LockConvoy } else { Kind::WaitingForThreads };
    let (text, step) = words(evidence, kind, rest);
    let figures = [
        Sum(thread::waiting_for_threads_ns),
        BlockedBy(Cause::Futex),
        Sum(thread::spin_ns),
        Whole(WorkerThreads),
        Whole(LargestWorkNs),
        Sum(thread::work_ns),
        Whole(WallNs),
        Cpus(cpu::idle_ns),
    ];
    let mut main = say(evidence, text, &figures);
    main.next.push(NextStep::expecting(evidence, step, evidence.beside_others(expected), kind, "any waiting"));
    let confidence = if kind == Kind::LockConvoy { Confidence::High } else { Confidence::Medium };
    Some(Finding { kind, back_ns: rest, confidence, sentences: vec![main] })
}

/// Detects much waiting with several causes, none of which is large enough for another rule. Without this rule, the verdict would be "nothing to
/// gain".
pub(crate) fn mixed(evidence: &Evidence) -> Option<Finding> {
    let workers = &evidence.worker_sums;
    let waited = workers.waiting_for_threads_ns().saturating_add(workers.waiting_for_cpu_ns());
    let used = evidence.concurrency.working / evidence.parallelism(evidence.cpus);
    let little = evidence.worker_share(waited as f64) < MIXED_SHARE || used > CONVOY_CONCURRENCY;
    if works_in_one_thread(evidence) || evidence.workers.len() < 2 || little || waits_outside(evidence) {
        return None;
    }
    let text = format!(
        "{} spent {} of their time waiting for one another and for CPUs, for several reasons; none of them stands out.",
        counted(evidence.workers.len() as u64, "thread"),
        about_percent(evidence.worker_share(waited as f64)),
    );
    let figures = [
        Sum(thread::waiting_for_threads_ns),
        Sum(thread::waiting_for_cpu_ns),
        Whole(WorkerThreads),
        Sum(thread::work_ns),
    ];
    let main = say(evidence, text, &figures);
    Some(Finding {
        kind: Kind::WaitingForThreads,
        back_ns: waited as f64,
        confidence: Confidence::Low,
        sentences: vec![main],
    })
}

/// Returns whether the thread with most work spent most of its life waiting for something outside of the program. The other threads then wait for that,
/// too: they may be the idle helpers of a server.
fn waits_outside(evidence: &Evidence) -> bool {
    let outside = [Cause::Poll, Cause::Pipe, Cause::Network, Cause::Sleep, Cause::ChildWait];
    evidence
        .busiest()
        .is_some_and(|thread| summary::share(thread.blocked_by.of(&outside), thread.wall_ns) >= INTENDED_SHARE)
}

/// Returns whether the work is equal and the threads wait for a lock: either they spin in a spin lock, or they sleep and wake one another in
/// rotation.
fn is_lock(evidence: &Evidence) -> bool {
    let workers = &evidence.worker_sums;
    let equal = evidence.parallel_inequality() <= EQUAL_WORK_FACTOR;
    if workers.spin_ns > workers.blocked_by[Cause::Futex] {
        return equal && spins_on_lock(evidence);
    }
    equal && wakes_rotate(evidence)
}

fn spins_on_lock(evidence: &Evidence) -> bool {
    let hot = &evidence.account.hot_functions;
    let waiting = |why: Option<&str>| -> u64 {
        let of =
            hot.iter().filter(|hot| hot.is_spinning() && why.is_none_or(|why| hot.waiting.as_deref() == Some(why)));
        of.fold(0, |sum, hot| sum.saturating_add(hot.run_ns))
    };
    waiting(Some(Waiting::PthreadSpin.name())) as f64 > 0.5 * waiting(None) as f64
}

/// Returns whether the worker threads take turns in ending one another's sleep, in any order, rather than one of them waking all others.
fn wakes_rotate(evidence: &Evidence) -> bool {
    let mut ended: BTreeMap<u32, u64> = evidence.workers.iter().map(|thread| (thread.tid, 0)).collect();
    for thread in &evidence.workers {
        for by in thread.woken_by.iter().filter(|by| by.tid != thread.tid) {
            ended.entry(by.tid).and_modify(|ns| *ns = ns.saturating_add(by.blocked_ns));
        }
    }
    let all = ended.values().fold(0u64, |sum, ns| sum.saturating_add(*ns));
    let most = ended.values().copied().max().unwrap_or(0);
    // Two threads always wake one another in turn, because each can only be woken by the other.
    all > 0 && (evidence.workers.len() == 2 || most as f64 <= ROTATION_SHARE * all as f64)
}

fn words(evidence: &Evidence, kind: Kind, rest: f64) -> (String, &'static str) {
    let threads = counted(evidence.workers.len() as u64, "thread");
    let waited = about_percent(evidence.worker_share(rest));
    let concurrency = evidence.concurrency.working;
    if kind == Kind::LockConvoy {
        let text = format!(
            "{threads} queue for a lock: they did equal work but spent {waited} of their time waiting in turn, and \
             {concurrency:.1} CPUs did work on average."
        );
        (text, "hold the lock for a shorter time, or split it")
    } else {
        let text = format!(
            "{threads} spent {waited} of their time waiting for one another. Neither unequal work nor a delay explains this; \
             {concurrency:.1} CPUs did work on average."
        );
        (text, "let the threads meet less often: larger steps between barriers, fewer hand-overs of data")
    }
}
