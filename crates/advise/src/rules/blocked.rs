//! Blocked threads: waits for storage, sockets, pages and file locks, and waiting that the program intends.
//!
//! For the ranges see `expected`. The thread bound prevents a false finding for a thread that does I/O while others keep the CPUs busy. Waits for
//! sockets, terminals, timers and unknown causes have no range, because nothing in the account shows how much of them can be removed (see `floor`).
//! If a wait is overlapped with other work, the hidden part of the wait is at most as long as that work. The work bound includes this limit already,
//! since the same CPUs have to do the other work.

use ledger::account::thread;
use ledger::summary;
use wire::Cause;

use super::finding::Finding;
use crate::blame::Delay;
use crate::evidence::Evidence;
use crate::facts::Facts;
use crate::figures::{Figure, Whole, say};
use crate::numbers::about_percent;
use crate::thresholds::INTENDED_SHARE;
use crate::verdict::{Confidence, Kind, NextStep, Sentence};

/// Overlapping a wait with work can at best hide the smaller of the two: a factor of two.
const OVERLAP_BOUND: f64 = 2.0;

/// Detects waiting for storage.
pub(crate) fn disk(evidence: &Evidence) -> Option<Finding> {
    let say = "waited for storage";
    let mut finding = delay(
        evidence,
        Kind::DiskBound,
        Delay::Disk,
        Cause::Disk,
        say,
        "make fewer and larger requests, or use faster storage",
    )?;
    overlap(evidence, &mut finding, Cause::Disk);
    Some(finding)
}

/// Detects waiting for sockets. The account does not show how long the other end takes, so the step has no forecast.
pub(crate) fn network(evidence: &Evidence) -> Option<Finding> {
    let ns = evidence.sums.blocked_by[Cause::Network];
    if ns == 0 || !evidence.held_up(ns as f64) {
        return None;
    }
    let kind = Kind::NetworkBound;
    let mut main = blocked_sentence(evidence, ns, Cause::Network, "waited for the network");
    let step = "send fewer and larger messages, or request each message before it is needed";
    main.next.push(NextStep::plain(step, kind));
    if evidence.facts.has_verb("overlap") && crate::openmp::is_openmp(evidence) {
        main.next.push(NextStep::plain("cox run --overlap -- …", kind));
    }
    let back_ns = evidence.blame.total_ns(Delay::Network);
    Some(Finding { kind, back_ns, confidence: Confidence::Medium, sentences: vec![main] })
}

/// Detects waiting for pages.
pub(crate) fn page_faults(evidence: &Evidence) -> Option<Finding> {
    let say = "waited in page faults for memory to be read in, or for the lock on the address space";
    let step = "read ahead (MAP_POPULATE, madvise, readahead), or use less memory if pages were swapped out";
    delay(evidence, Kind::PageFaults, Delay::PageFault, Cause::PageFault, say, step)
}

/// Detects waiting for file locks.
pub(crate) fn file_locks(evidence: &Evidence) -> Option<Finding> {
    let step = "hold the file lock for a shorter time, or use one file per process";
    delay(evidence, Kind::FileLock, Delay::FileLock, Cause::FileLock, "waited for a file lock", step)
}

fn delay(evidence: &Evidence, kind: Kind, delay: Delay, cause: Cause, what: &str, step: &str) -> Option<Finding> {
    let ns = evidence.sums.blocked_by[cause];
    let expected = evidence.without_delay(ns as f64);
    if ns == 0 || !expected.is_worth_trying() {
        return None;
    }
    let mut main = blocked_sentence(evidence, ns, cause, what);
    let step = NextStep::expecting(step, &evidence.beside_others(expected), kind);
    main.next.push(step.without(waiting_name(delay), evidence.cpus));
    let back_ns = evidence.blame.total_ns(delay);
    Some(Finding { kind, back_ns, confidence: Confidence::High, sentences: vec![main] })
}

/// Returns the name of the waiting that would have to disappear to reach the bound, for a sentence.
fn waiting_name(delay: Delay) -> &'static str {
    match delay {
        Delay::PageFault => "any waiting for pages",
        Delay::FileLock => "any waiting for file locks",
        _ => "any waiting for storage",
    }
}

fn blocked_sentence(evidence: &Evidence, ns: u64, cause: Cause, what: &str) -> Sentence {
    let text = format!(
        "{} of thread time {what}; {:.1} CPUs did work on average.",
        about_percent(evidence.share(ns)),
        evidence.concurrency.working
    );
    say(
        evidence,
        text,
        &[
            Figure::BlockedBy(cause),
            Figure::Whole(Whole::ThreadNs),
            Figure::Sum(thread::work_ns),
            Figure::Whole(Whole::WallNs),
        ],
    )
}

/// Adds the step to run other tasks during the wait, if this version of cox supports it.
fn overlap(evidence: &Evidence, finding: &mut Finding, cause: Cause) {
    if !evidence.facts.has_verb("overlap") || !crate::openmp::is_openmp(evidence) {
        return;
    }
    let all = evidence.without_delay(evidence.sums.blocked_by[cause] as f64);
    let bound = all.bound().min(OVERLAP_BOUND);
    let expected = evidence.beside_others(crate::expected::Expected::new(1.0, bound, bound));
    let step = NextStep::expecting("cox run --overlap -- …", &expected, finding.kind)
        .without("any waiting for storage", evidence.cpus);
    if let Some(main) = finding.sentences.first_mut().filter(|_| step.bound.is_some()) {
        main.next.push(step);
    }
}

/// Detects blocked time whose cause the backend does not see.
pub(crate) fn unseen(evidence: &Evidence) -> Option<Finding> {
    let sums = &evidence.sums;
    let ns = if evidence.sees.causes { sums.blocked_by[Cause::Other] } else { sums.blocked_ns };
    if evidence.share(ns) < INTENDED_SHARE || (evidence.sees.causes && !evidence.held_up(ns as f64)) {
        return None;
    }
    let text = if evidence.sees.causes {
        format!(
            "{} of thread time was blocked in other system calls (ioctl, read of a terminal).",
            about_percent(evidence.share(ns))
        )
    } else {
        format!(
            "{} of thread time was blocked. Only eBPF shows the cause: a lock, storage, a socket, or an intended wait.",
            about_percent(evidence.share(ns))
        )
    };
    let mut main = say(evidence, text, &[Figure::Sum(thread::blocked_ns), Figure::Whole(Whole::ThreadNs)]);
    if !evidence.sees.causes && !evidence.facts.is_denied(Facts::EBPF) {
        main.next.push(NextStep::plain("cox run --backend bpf -- …", Kind::Blocked));
    }
    Some(Finding { kind: Kind::Blocked, back_ns: ns as f64, confidence: Confidence::Low, sentences: vec![main] })
}

/// Detects intended sleep.
pub(crate) fn sleeping(evidence: &Evidence) -> Option<Finding> {
    intended(evidence, Kind::Sleeping, &[Cause::Sleep], "slept because the program asked to (nanosleep, timers)")
}

/// Detects waiting for pipes and poll.
pub(crate) fn input(evidence: &Evidence) -> Option<Finding> {
    intended(evidence, Kind::WaitingForInput, &[Cause::Poll, Cause::Pipe], "waited for input (poll, pipes, events)")
}

/// Detects waiting for child processes that do the work or are not in the account.
pub(crate) fn children(evidence: &Evidence) -> Option<Finding> {
    intended(evidence, Kind::ChildWait, &[Cause::ChildWait], "waited for child processes")
}

/// Returns a finding of intended waiting, which saves no time: its `back_ns` only ranks it among such findings.
fn intended(evidence: &Evidence, kind: Kind, causes: &[Cause], what: &str) -> Option<Finding> {
    let ns = evidence.sums.blocked_by.of(causes);
    // The accounts of child processes explain the waits for these processes. When the share of another kind of waiting is computed, the time of these
    // waits is therefore subtracted from the threads' lifetimes.
    let workers = if evidence.workers.is_empty() { &evidence.sums } else { &evidence.worker_sums };
    let for_members = if kind == Kind::ChildWait { 0 } else { workers.blocked_by[Cause::ChildWait] };
    let of_workers = workers.blocked_by.of(causes);
    let part = summary::share(of_workers, workers.wall_ns.saturating_sub(for_members)).min(1.0);
    if part < INTENDED_SHARE {
        return None;
    }
    let text = format!("{} of thread time {what}: scheduling cannot change that.", about_percent(evidence.share(ns)));
    let mut figures: Vec<Figure> = causes.iter().map(|cause| Figure::BlockedBy(*cause)).collect();
    figures.push(Figure::Whole(Whole::ThreadNs));
    let main = say(evidence, text, &figures);
    Some(Finding { kind, back_ns: part, confidence: Confidence::High, sentences: vec![main] })
}
