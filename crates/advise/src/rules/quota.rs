//! Throttled by a control group's quota: threads wait for a CPU although CPUs are idle.
//!
//! A quota of q CPUs lets a control group use q × period of CPU time in each period; then the kernel stops the whole group until the next period. The
//! kernel counts how long the group was stopped (`cpu.stat`). In the account, this time shows as waiting on CPUs that run no thread.
//!
//! The upper bound of the speed-up is the smallest of three: `CPUs that the worker threads could use / q`, times the CPU time divided by the part of it
//! that was work; the largest speed-up if no work moves between threads (the thread bound, see `expected`); the speed-up if no thread waited because of
//! the quota. Samples tell work from spinning, so the range has their error.

use ledger::account::thread;

use super::finding::Finding;
use crate::blame::Delay;
use crate::evidence::{Evidence, share};
use crate::expected::Expected;
use crate::facts::Facts;
use crate::figures::Figure::{Sum, Whole};
use crate::figures::Whole::{CpuQuota, NrThrottled, ThreadNs, ThrottledNs, TookIdleNs};
use crate::figures::say;
use crate::numbers::{count, duration};
use crate::openmp;
use crate::verdict::{Confidence, Kind, NextStep};

/// Detects that the quota stopped the program for a part of the run.
pub(crate) fn throttled(evidence: &Evidence) -> Option<Finding> {
    let facts = evidence.facts;
    let waiting = evidence.sums.waiting_for_cpu_ns();
    // `throttled_ns` is the time for which the kernel throttled CPUs. The threads waited at least that long, and longer if a throttled CPU held up
    // several of them. Other waiting on idle CPUs is that of wake-ups.
    let per_cpu = (evidence.workers_alive() / evidence.cpus).max(1.0);
    let most = (facts.throttled_ns as f64 * per_cpu) as u64;
    let stopped = evidence.behind.idle_ns.min(most).max(facts.throttled_ns).min(waiting);
    let counts = evidence.is_throttled() && facts.nr_throttled > 0;
    if !counts || stopped == 0 {
        return None;
    }
    let kind = Kind::QuotaThrottled;
    let on_idle = evidence.behind.idle_ns.max(1) as f64;
    let spared = (evidence.blame.total_ns(Delay::Idle) * share(stopped as f64, on_idle)).max(stopped as f64);
    let delay = evidence.without_delay(stopped as f64);
    let could_use = evidence.parallelism(evidence.cpus);
    // The CPU time that other programs took is left out, because a larger quota does not give it back.
    let could_get = evidence.parallelism((evidence.cpus - evidence.cpus_of_others()).max(evidence.concurrency.running));
    let bound = match facts.quota() {
        // CPU time that was spent on waiting used up a part of the quota, too.
        Some(quota) => (could_get / quota * evidence.run_per_work()).max(1.0).min(delay.bound()),
        _ => delay.bound(),
    };
    let quota = facts.quota().map_or_else(|| "quota".to_owned(), |quota| format!("quota of {quota:.1} CPUs"));
    let text = format!(
        "The control group's {quota} stopped the program in {} periods, for {} of CPU time: for {} of thread \
         time, threads waited although their CPU was idle.",
        count(facts.nr_throttled),
        duration(facts.throttled_ns),
        evidence.percent(stopped),
    );
    let figures = [
        Whole(CpuQuota),
        Whole(NrThrottled),
        Whole(ThrottledNs),
        Sum(thread::waiting_for_cpu_ns),
        Whole(TookIdleNs),
        Whole(ThreadNs),
    ];
    let mut main = say(evidence, text, &figures);
    let raise = if facts.is_denied(Facts::QUOTA) {
        format!("ask for a quota of {could_use:.0} CPUs or more (container or job limit)")
    } else {
        format!("raise the group's cpu.max to {could_use:.0} CPUs or more")
    };
    // Work is sampled, and waiting is not.
    let without_waiting = evidence.wall_ns / (evidence.wall_ns - stopped as f64).max(1.0);
    let expected = Expected::new(delay.low(), bound, bound).uncertain(evidence.work_error()).within(without_waiting);
    main.next.extend(NextStep::if_worth(evidence, raise, expected, kind, "throttling"));
    if let Some(quota) = facts.quota().filter(|quota| *quota >= 1.0 && quota.floor() < evidence.workers.len() as f64) {
        // Running fewer threads saves only the part of the quota that is spent on spinning, and leaves a fraction of a CPU unused.
        let wasted = Expected::of_delay(
            evidence.sums.run_ns as f64,
            evidence.sums.spin_ns as f64,
            1.0,
            evidence.work_bound_on(quota.floor().min(evidence.cpus)),
        );
        if wasted.is_worth_trying() {
            let fewer = openmp::workers(evidence, quota.min(evidence.cpus));
            let expected = Expected::new(1.0, wasted.high(), wasted.bound());
            main.next.extend(NextStep::if_worth(evidence, fewer, expected, kind, "any spinning"));
        }
    }
    if main.next.is_empty() {
        return None;
    }
    Some(Finding { kind, back_ns: spared, confidence: Confidence::High, sentences: vec![main] })
}
