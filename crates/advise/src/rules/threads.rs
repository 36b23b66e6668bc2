//! Oversubscription: more threads than CPUs, and the threads wait for one another.
//!
//! Threads that queue for CPUs but never wait for one another (a parallel make) lose nothing: the CPUs are busy with work all the time. A queue
//! delays other threads only if threads also wait for one another, by spinning, yielding or sleeping. Then the number of threads is the cause.
//!
//! Bound: the work bound. With one thread per CPU no thread queues and no thread spins for a queued one, so `wall / (Σ work / CPUs)` can be reached.
//! For n threads that wait only by spinning, this bound is n / CPUs, provided that all time slices are equally long. If the step gains nothing, the
//! rule reports nothing.
//!
//! A second sign needs no queue: GCC's OpenMP runtime lets waiting threads sleep almost at once if there are more threads than CPUs. If threads meet
//! often, going to sleep and waking up then takes longer than the work, and leaves CPUs idle. With as many threads as CPUs, the runtime spins instead.
//!
//! If the backend does not see spinning, it is enough for this rule that threads are alive at the same time and queue, because most such threads
//! wait for one another at some point. How they wait is then unknown, and the step has no forecast.

use ledger::Unsampled;
use ledger::account::thread;
use ledger::summary;
use wire::Cause;

use super::finding::Finding;
use crate::blame::Delay;
use crate::elsewhere::elsewhere;
use crate::evidence::Evidence;
use crate::figures::Figure::{BlockedBy, Sum, Whole};
use crate::figures::Whole::{ProgramCpus, ThreadNs, TookIdleNs, TookSiblingNs, WorkerThreads};
use crate::figures::{Figure, say};
use crate::numbers::{about_percent, counted};
use crate::openmp;
use crate::thresholds::{QUEUE_UTILISATION, TEAM_ALIVE, THREADS_PER_CPU, WORTH_SHARE};
use crate::verdict::{Confidence, Kind, NextStep};

/// Detects that there are more threads than CPUs, and that these threads wait for one another.
pub(crate) fn too_many(evidence: &Evidence) -> Option<Finding> {
    if !is_oversubscribed(evidence) || elsewhere(evidence).is_some() {
        return None;
    }
    queueing(evidence).or_else(|| asleep_at_once(evidence))
}

/// Returns whether more worker threads than CPUs were alive at the same time.
fn is_oversubscribed(evidence: &Evidence) -> bool {
    evidence.workers.len() as f64 > evidence.cpus && evidence.workers_alive() >= THREADS_PER_CPU * evidence.cpus
}

/// Detects that threads queue for CPUs while others wait for them.
fn queueing(evidence: &Evidence) -> Option<Finding> {
    let workers = &evidence.worker_sums;
    let queued = queued_ns(evidence);
    let unspecified = if evidence.sees.causes { 0 } else { workers.blocked_by[Cause::Unspecified] };
    let spinning = workers.spin_ns.saturating_add(workers.yield_wait_ns);
    let asleep = workers.blocked_by[Cause::Futex].saturating_add(unspecified).saturating_add(workers.kernel_sync_ns);
    // The share of spinning is relative to run time: if many threads queue for CPUs, spinning is only a small part of all thread time.
    let spun_part = summary::share(workers.spin_ns, workers.run_ns);
    let met = evidence.worker_share(spinning.saturating_add(asleep) as f64).max(spun_part) >= WORTH_SHARE;
    let meet = if evidence.sees.spin { met } else { side_by_side(evidence) };
    let queue = evidence.worker_share(queued as f64) >= WORTH_SHARE && has_queue(evidence);
    let explains = evidence.blame.queues_explain() || !evidence.sees.preemptors;
    if !meet || !queue || !explains {
        return None;
    }
    let slept =
        if evidence.sees.spin { asleep > spinning } else { evidence.worker_share(asleep as f64) >= WORTH_SHARE };
    let kind = if slept { Kind::TooManyThreadsSleeping } else { Kind::TooManyThreadsSpinning };
    let confidence = match (evidence.sees.preemptors, evidence.sees.spin) {
        (true, true) => Confidence::High,
        (false, true) => Confidence::Medium,
        (_, false) => Confidence::Low,
    };
    let back_ns = evidence.blame.total_ns(Delay::Sibling) + evidence.blame.total_ns(Delay::Unseen);

    let mut main = say(evidence, turns(evidence, kind, queued), &figures(kind));
    if evidence.sees.spin {
        main.next.extend(openmp::threads(evidence, evidence.cpus, kind));
        if kind == Kind::TooManyThreadsSpinning {
            main.next.extend(openmp::passive(evidence, kind));
        } else {
            main.next.extend(openmp::spin_again(evidence, kind));
        }
        if !main.next.is_empty() {
            main.next.extend(openmp::turns(evidence, kind));
        }
    } else {
        main.next.push(NextStep::plain(openmp::workers(evidence, evidence.cpus), kind));
    }
    if main.next.is_empty() {
        return None;
    }
    Some(Finding { kind, back_ns, confidence, sentences: vec![main] })
}

/// Detects that GCC's OpenMP runtime lets threads sleep at each meeting because there are more of them than CPUs, and that sleeping costs much.
fn asleep_at_once(evidence: &Evidence) -> Option<Finding> {
    let (from_idle, calls) = (evidence.idle_wake_ns(), evidence.worker_sums.kernel_sync_ns);
    let wakes = evidence.worker_share(from_idle as f64) >= WORTH_SHARE && !evidence.is_throttled();
    let unequal = openmp::unequal_work_comes_first(evidence, evidence.cpus);
    if !wakes || unequal || !openmp::sleeps_if_oversubscribed(evidence) {
        return None;
    }
    let kind = Kind::TooManyThreadsSleeping;
    let action = openmp::workers(evidence, evidence.cpus);
    let expected = evidence.beside_others(evidence.without_delay(evidence.sleep_cost_ns() as f64));
    let expected = expected.uncertain(evidence.work_error());
    let step = NextStep::if_worth(evidence, action, expected, kind, "any waiting")?;
    let cpus = counted(evidence.cpus as u64, "CPU");
    let text = format!(
        "{} share {cpus}. With more threads than CPUs, GCC's OpenMP runtime lets waiting threads sleep almost at once: waking up on idle CPUs \
         cost {} of thread time, and the futex system calls for it {}.",
        evidence.workers_counted("thread"),
        evidence.percent(from_idle),
        evidence.percent(calls)
    );
    let figures =
        [Whole(WorkerThreads), Whole(ProgramCpus), Whole(TookIdleNs), Sum(thread::kernel_sync_ns), Whole(ThreadNs)];
    let mut main = say(evidence, text, &figures);
    main.next.push(step);
    main.next.extend(openmp::turns(evidence, kind));
    let back_ns = evidence.blame.total_ns(Delay::Idle) + calls as f64;
    let back_ns = back_ns.min(evidence.sums.wall_ns as f64);
    Some(Finding { kind, back_ns, confidence: Confidence::Medium, sentences: vec![main] })
}

/// Returns whether the threads run side by side rather than one after another: on average, at least half of them are alive.
fn side_by_side(evidence: &Evidence) -> bool {
    evidence.workers_alive() >= TEAM_ALIVE * evidence.workers.len() as f64
}

/// Returns whether there were too few CPUs: the CPUs were busy, or, if the backend does not see that, more threads wanted a CPU than there are CPUs.
fn has_queue(evidence: &Evidence) -> bool {
    let wanted = !evidence.sees.preemptors && evidence.concurrency.runnable >= evidence.cpus;
    wanted || evidence.utilisation() >= QUEUE_UTILISATION
}

/// Returns the thread time spent waiting for CPUs that other tracked threads held; if the backend does not see which thread held a CPU, all waiting
/// for CPUs.
fn queued_ns(evidence: &Evidence) -> u64 {
    if evidence.sees.preemptors {
        evidence.behind.siblings_ns
    } else {
        evidence.sums.wake_delay_ns.saturating_add(evidence.sums.preempt_wait_ns)
    }
}

fn turns(evidence: &Evidence, kind: Kind, queued: u64) -> String {
    let threads = evidence.workers_counted("thread");
    let cpus = counted(evidence.cpus as u64, "CPU");
    let cpus = if evidence.facts.is_packed() { format!("{cpus} of the pack") } else { cpus };
    let workers = &evidence.worker_sums;
    if !evidence.sees.spin {
        let who = match evidence.sees.unsampled {
            Some(Unsampled::Noise) => "--noise takes no samples, so cox",
            None => "This backend",
        };
        return format!(
            "{threads} share {cpus}: they waited for a CPU for {} of thread time. {who} does not see whether \
             and how threads wait for one another.",
            evidence.percent(queued)
        );
    }
    let (waited_ns, waiting) = if kind == Kind::TooManyThreadsSpinning {
        let way = if workers.yield_wait_ns > workers.spin_ns / 10 { "spin and yield" } else { "spin" };
        let waiting = format!("running threads {way}, waiting for threads that were preempted");
        (workers.spin_ns.saturating_add(workers.yield_wait_ns), waiting)
    } else {
        let slept_ns = workers.blocked_by[Cause::Futex].saturating_add(workers.blocked_by[Cause::Unspecified]);
        (
            slept_ns.saturating_add(workers.kernel_sync_ns),
            "threads that have finished their work sleep until the last thread has run".to_owned(),
        )
    };
    let waited = evidence.percent(waited_ns);
    let all = evidence.sums.wake_delay_ns.saturating_add(evidence.sums.preempt_wait_ns).max(queued).max(1);
    let behind = if evidence.sees.preemptors {
        let part = about_percent(queued as f64 / all as f64);
        format!("For {part} of the time spent waiting for a CPU, another observed thread held it")
    } else {
        format!("Threads waited for a CPU for {} of thread time", evidence.percent(queued))
    };
    format!("{threads} share {cpus}: {waiting} ({waited} of thread time). {behind}.")
}

fn figures(kind: Kind) -> Vec<Figure> {
    let mut figures =
        vec![Whole(WorkerThreads), Whole(ProgramCpus), Whole(TookSiblingNs), Sum(thread::waiting_for_cpu_ns)];
    let waits = if kind == Kind::TooManyThreadsSpinning { Sum(thread::spin_ns) } else { BlockedBy(Cause::Futex) };
    figures.extend([Sum(thread::yield_wait_ns), Sum(thread::kernel_sync_ns), Whole(ThreadNs), waits]);
    figures
}
