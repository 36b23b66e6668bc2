//! Slow wake-ups: threads sleep so briefly that getting a CPU again costs as much as the wait.
//!
//! The sign is wake delay on idle CPUs: no other thread had the CPU, so the time went into leaving the idle state and into the context switch.
//! Spinning briefly before sleeping avoids it, if there is a CPU for each thread.

use ledger::account::thread;

use super::finding::Finding;
use crate::blame::Delay;
use crate::evidence::Evidence;
use crate::figures::Figure::{Sum, Whole};
use crate::figures::Whole::{ThreadNs, TookIdleNs};
use crate::figures::say;
use crate::numbers::{about_percent, count, duration};
use crate::openmp;
use crate::thresholds::WORTH_SHARE;
use crate::verdict::{Confidence, Kind};

/// Detects that waking up from idle takes a large part of thread time.
pub(crate) fn slow_wakeups(evidence: &Evidence) -> Option<Finding> {
    let from_idle = evidence.idle_wake_ns();
    let expected = evidence.without_delay(evidence.sleep_cost_ns() as f64);
    let room = evidence.workers.len() as f64 <= evidence.cpus;
    let little = evidence.worker_share(from_idle as f64) < WORTH_SHARE;
    if evidence.is_throttled() || !room || little || !expected.is_worth_trying() {
        return None;
    }
    let wakeups = evidence.workers.iter().fold(0u64, |sum, thread| sum.saturating_add(thread.wakeups)).max(1);
    let text = format!(
        "Waking up on idle CPUs cost {} of thread time, and the futex system calls for it {}: {} wake-ups that took {} each.",
        evidence.percent(from_idle),
        about_percent(evidence.share(evidence.worker_sums.kernel_sync_ns)),
        count(wakeups),
        duration(from_idle / wakeups),
    );
    let figures = [Whole(TookIdleNs), Sum(thread::wake_delay_ns), Sum(thread::kernel_sync_ns), Whole(ThreadNs)];
    let mut main = say(evidence, text, &figures);
    main.next.push(openmp::active(evidence, expected, Kind::SlowWakeups));
    let back_ns = evidence.blame.total_ns(Delay::Idle).min(evidence.sums.wall_ns as f64);
    Some(Finding { kind: Kind::SlowWakeups, back_ns, confidence: Confidence::Medium, sentences: vec![main] })
}
