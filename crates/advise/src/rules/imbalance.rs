//! Load imbalance: threads wait for a thread that has more work.
//!
//! Waiting for other threads counts as one kind of time, whether threads spin, yield or sleep, so the verdict does not depend on the runtime's
//! waiting policy. What distinguishes imbalance from other causes is the work itself: the busiest thread's work is much larger than the average.
//!
//! The forecast saving is a range. Its upper end is the busiest thread's work minus an equal share of all work, `max − Σ work / min(n, CPUs)`, plus
//! the time for which spinning threads kept the busiest thread off its CPU. Its lower end is half of that, because a dynamic schedule leaves the last
//! chunk uneven and has a cost per chunk. Work here is parallel work: what one thread does alone in code of its own is the subject of `serial`.

use ledger::account::thread;
use wire::Cause;

use super::finding::Finding;
use crate::alone::works_in_one_thread;
use crate::evidence::{Evidence, parallel_work_error_ns, parallel_work_ns};
use crate::expected::Expected;
use crate::figures::Figure::{BlockedBy, Sum, Whole};
use crate::figures::Whole::{LargestParallelWorkNs, ThreadNs, WorkerThreads};
use crate::figures::say;
use crate::numbers::about_percent;
use crate::openmp;
use crate::thresholds::{IMBALANCE_FACTOR, IMBALANCE_SHARE, MENTION_SHARE, WORKER_WORK, WORTH_SHARE};
use crate::verdict::{Confidence, Kind, NextStep};

/// Even a simple remedy, such as a dynamic loop schedule, saves at least this part of the largest possible saving.
const SURE: f64 = 0.5;

/// Detects that threads wait for a thread with more work.
pub(crate) fn imbalance(evidence: &Evidence) -> Option<Finding> {
    let busiest = evidence.busiest_in_parallel()?;
    let workers = evidence.workers.len() as f64;
    let all: f64 = evidence.workers.iter().map(|thread| parallel_work_ns(thread)).sum();
    let average = all / workers;
    let largest = parallel_work_ns(busiest);
    let enough = evidence.worker_share(evidence.blame.imbalance_ns) >= IMBALANCE_SHARE;
    let doubt = 3.0 * parallel_work_error_ns(busiest);
    if workers < 2.0
        || works_in_one_thread(evidence)
        || !enough
        || largest < IMBALANCE_FACTOR * average
        || largest - average <= doubt
    {
        return None;
    }
    let equal = all / evidence.parallelism(evidence.cpus);
    let saved = (largest - equal).max(0.0);
    // Waits behind other programs, and those for a quota, remain if the work is equal.
    let preempted = busiest.preempt_wait_ns as f64 * evidence.queued_part();
    let unhindered = (evidence.wall_ns - busiest.work_ns() as f64).max(0.0).min(preempted);
    let most = evidence.wall_ns - evidence.wall_ns / evidence.work_bound().max(1.0);
    let saved = (saved + unhindered).min(most);
    let expected = Expected::saving(evidence.wall_ns, saved, SURE);
    if !expected.is_worth_trying() {
        return None;
    }
    let idlers = evidence.workers.iter().filter(|thread| parallel_work_ns(thread) < WORKER_WORK * largest).count();
    let confidence = if idlers + 1 == evidence.workers.len() { Confidence::Medium } else { Confidence::High };
    let kind = Kind::Imbalance;
    let serial = evidence.share(evidence.sums.serial_ns) >= MENTION_SHARE;
    let waiting = evidence.worker_sums.waiting_for_threads_ns() as f64;
    let text = format!(
        "The {work} is unequal: {tid} {comm} did {part} of it, {:.1} times the average, and the {threads} spent {waiting} of \
         their time waiting for other threads.",
        largest / average.max(1.0),
        work = if serial { "parallel work" } else { "work" },
        tid = busiest.tid,
        comm = busiest.comm,
        part = about_percent(largest / all.max(1.0)),
        threads = evidence.workers_counted("worker thread"),
        waiting = about_percent(evidence.worker_share(waiting)),
    );
    let figures = [
        Whole(LargestParallelWorkNs),
        Sum(thread::work_ns),
        Sum(thread::serial_ns),
        Sum(thread::steal_ns),
        Whole(WorkerThreads),
        Sum(thread::waiting_for_threads_ns),
        Sum(thread::spin_ns),
        Sum(thread::yield_wait_ns),
        BlockedBy(Cause::Futex),
    ];
    let mut main = say(evidence, text, &figures);
    let remedy = remedy(evidence, busiest.tid);
    main.next.push(NextStep::expecting(evidence, remedy, evidence.beside_others(expected), kind, "any waiting"));
    let mut sentences = vec![main];
    sentences.extend(how(evidence));
    Some(Finding { kind, back_ns: evidence.blame.imbalance_ns, confidence, sentences })
}

/// Returns a sentence on how the other threads waited (spinning, yielding or asleep); `None` if none of these reaches the least share.
fn how(evidence: &Evidence) -> Option<crate::verdict::Sentence> {
    let workers = &evidence.worker_sums;
    let ways = [
        (workers.spin_ns, "spinning"),
        (workers.yield_wait_ns, "yielding"),
        (workers.kernel_sync_ns, "in futex system calls"),
        (workers.blocked_by[Cause::Futex], "asleep on a futex"),
    ];
    let parts: Vec<String> = ways
        .iter()
        .filter(|(ns, _)| evidence.worker_share(*ns as f64) >= WORTH_SHARE)
        .map(|(ns, way)| format!("{} {way}", about_percent(evidence.worker_share(*ns as f64))))
        .collect();
    if parts.is_empty() {
        return None;
    }
    let policy = if openmp::is_openmp(evidence) { "OMP_WAIT_POLICY" } else { "another waiting policy" };
    let parts = parts.join(", ");
    let step = openmp::spin_again(evidence, Kind::Imbalance);
    let text = match step {
        Some(_) => format!("They waited {parts}. Going to sleep and waking up take much of their time."),
        None => format!("They waited {parts}; {policy} would not help: they wait for work, not for a CPU."),
    };
    let figures = [
        Sum(thread::spin_ns),
        Sum(thread::kernel_sync_ns),
        Sum(thread::yield_wait_ns),
        BlockedBy(Cause::Futex),
        Whole(ThreadNs),
    ];
    let mut sentence = say(evidence, text, &figures);
    sentence.next.extend(step);
    Some(sentence)
}

fn remedy(evidence: &Evidence, tid: u32) -> String {
    if evidence.ranks_of_one_thread().is_some() {
        let processes = evidence.account.programs.iter().flat_map(|program| &program.processes);
        let mut processes = processes.filter(|process| process.threads.iter().any(|thread| thread.tid == tid));
        let pid = processes.next().map_or(tid, |process| process.pid);
        return format!("give part of the work of process {pid} to the other ranks");
    }
    if !openmp::is_openmp(evidence) {
        return format!("give part of thread {tid}'s work to the others");
    }
    match evidence.facts.variable("OMP_SCHEDULE") {
        Some(schedule) if schedule.contains("dynamic") || schedule.contains("guided") => {
            "use smaller chunks in OMP_SCHEDULE, or split the largest iteration".to_owned()
        }
        _ => "schedule(dynamic) or schedule(guided) on the loops (OMP_SCHEDULE if they have schedule(runtime))"
            .to_owned(),
    }
}
