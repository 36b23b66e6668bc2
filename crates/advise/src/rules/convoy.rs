//! A lock convoy: threads with equal work sleep and wake one another in rotation while CPUs are idle.
//!
//! Equal work, and wake-ups that do not come from one single thread, distinguish a convoy from imbalance. Idle CPUs, and waiting that no queue
//! explains, distinguish it from oversubscription. Spinning on a pthread spin lock is a convoy, too: the sign is the lock's name.
//!
//! Waiting for other threads that fits neither is reported as just that.
//!
//! Bound: the same work side by side, `wall / max(Σ work / min(n, CPUs), busiest)`. Halving the time inside the lock gives at least half of that
//! saving.

use std::collections::BTreeMap;

use ledger::Thread;
use ledger::account::{cpu, thread};
use wire::Cause;

use super::finding::Finding;
use crate::expected::Expected;
use crate::figures::{Figure, Whole, say};
use crate::numbers::{about_percent, counted};
use crate::picture::Picture;
use crate::thresholds::{CONVOY_CONCURRENCY, EQUAL_WORK_FACTOR, IMBALANCE_SHARE, MIXED_SHARE, ROTATION_SHARE};
use crate::verdict::{Confidence, Kind, NextStep};

/// The part of the saving that is reached if the lock is held half as long.
const SURE: f64 = 0.5;

/// Detects waiting for other threads that neither unequal work nor a delay explains.
pub(crate) fn convoy(picture: &Picture) -> Option<Finding> {
    let rest = picture.blame.rest_ns;
    let crew = picture.crew.len();
    let used = picture.concurrency.working / picture.parallelism(picture.cpus);
    if crew < 2 || picture.crew_share(rest) < IMBALANCE_SHARE || used > CONVOY_CONCURRENCY {
        return None;
    }
    let saved = picture.wall_ns - picture.wall_ns / picture.thread_bound().max(1.0);
    let expected = Expected::saving(picture.wall_ns, saved, SURE);
    if !expected.is_worth_trying() {
        return None;
    }
    let kind = if is_lock(picture) { Kind::LockConvoy } else { Kind::WaitingForThreads };
    let (text, step) = words(picture, kind, rest);
    let figures = [
        Figure::Sum(thread::waiting_for_threads_ns),
        Figure::BlockedBy(Cause::Futex),
        Figure::Sum(thread::spin_ns),
        Figure::Whole(Whole::CrewThreads),
        Figure::Whole(Whole::LargestWorkNs),
        Figure::Sum(thread::work_ns),
        Figure::Whole(Whole::WallNs),
        Figure::Cpus(cpu::idle_ns),
    ];
    let mut main = say(picture, text, &figures);
    main.next
        .push(NextStep::expecting(step, &picture.beside_others(expected), kind).without("any waiting", picture.cpus));
    let confidence = if kind == Kind::LockConvoy { Confidence::High } else { Confidence::Medium };
    Some(Finding { kind, back_ns: rest, confidence, sentences: vec![main] })
}

/// Detects much waiting of which no single cause is large enough; "nothing to gain" would be wrong.
pub(crate) fn mixed(picture: &Picture) -> Option<Finding> {
    let crew = &picture.crew_sums;
    let waited = crew.waiting_for_threads_ns().saturating_add(crew.waiting_for_cpu_ns());
    let used = picture.concurrency.working / picture.parallelism(picture.cpus);
    if picture.crew.len() < 2 || picture.crew_share(waited as f64) < MIXED_SHARE || used > CONVOY_CONCURRENCY {
        return None;
    }
    let text = format!(
        "{} spent {} of their time waiting for one another and for CPUs, for several reasons of which none stands out.",
        counted(picture.crew.len() as u64, "thread"),
        about_percent(picture.crew_share(waited as f64)),
    );
    let figures = [
        Figure::Sum(thread::waiting_for_threads_ns),
        Figure::Sum(thread::waiting_for_cpu_ns),
        Figure::Whole(Whole::CrewThreads),
        Figure::Sum(thread::work_ns),
    ];
    let main = say(picture, text, &figures);
    Some(Finding {
        kind: Kind::WaitingForThreads,
        back_ns: waited as f64,
        confidence: Confidence::Low,
        sentences: vec![main],
    })
}

/// Returns whether the work is equal and, besides, either the spinning is in a spin lock or the sleeping threads wake one another in rotation.
fn is_lock(picture: &Picture) -> bool {
    let crew = &picture.crew_sums;
    let average = crew.work_ns() as f64 / picture.crew.len() as f64;
    let equal = picture.busiest().map_or(0, Thread::work_ns) as f64 <= EQUAL_WORK_FACTOR * average;
    if crew.spin_ns > crew.blocked_by[Cause::Futex] {
        return equal && spins_on_lock(picture);
    }
    equal && wakes_rotate(picture)
}

fn spins_on_lock(picture: &Picture) -> bool {
    let hot = &picture.account.hot;
    let waiting = |why: Option<&str>| -> u64 {
        let of =
            hot.iter().filter(|hot| hot.waiting.is_some() && why.is_none_or(|why| hot.waiting.as_deref() == Some(why)));
        of.fold(0, |sum, hot| sum.saturating_add(hot.run_ns))
    };
    waiting(Some("pthread spin lock")) as f64 > 0.5 * waiting(None) as f64
}

/// Returns whether the worker threads take turns in ending one another's sleep, in any order, rather than one of them waking all others.
fn wakes_rotate(picture: &Picture) -> bool {
    let mut ended: BTreeMap<u32, u64> = picture.crew.iter().map(|thread| (thread.tid, 0)).collect();
    for thread in &picture.crew {
        for by in thread.woken_by.iter().filter(|by| by.tid != thread.tid) {
            ended.entry(by.tid).and_modify(|ns| *ns = ns.saturating_add(by.blocked_ns));
        }
    }
    let all = ended.values().fold(0u64, |sum, ns| sum.saturating_add(*ns));
    let most = ended.values().copied().max().unwrap_or(0);
    // With two threads, each can only be woken by the other.
    all > 0 && (picture.crew.len() == 2 || most as f64 <= ROTATION_SHARE * all as f64)
}

fn words(picture: &Picture, kind: Kind, rest: f64) -> (String, &'static str) {
    let threads = counted(picture.crew.len() as u64, "thread");
    let waited = about_percent(picture.crew_share(rest));
    let concurrency = picture.concurrency.working;
    if kind == Kind::LockConvoy {
        let text = format!(
            "{threads} queue for a lock: they did equal work but spent {waited} of their time waiting in turn, and \
             {concurrency:.1} CPUs did work on average."
        );
        (text, "hold the lock for less, or split it")
    } else {
        let text = format!(
            "{threads} spent {waited} of their time waiting for one another without unequal work or delay behind it: \
             {concurrency:.1} CPUs did work on average."
        );
        (text, "let them meet less often: larger steps between barriers, fewer hand-overs")
    }
}
