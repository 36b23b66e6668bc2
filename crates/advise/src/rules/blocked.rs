//! Blocked threads: waits for storage, sockets, pages and file locks, and waiting that the program intends.
//!
//! For the ranges see `expected`. The thread bound prevents a false finding for a thread that does I/O while others keep the CPUs busy. Waits for
//! sockets, terminals, timers and unknown causes have no range, because nothing in the account shows how much of them can be removed (see `floor`).
//!
//! A program can also do other work during a wait. At most as much of the wait is then hidden as the other work takes. The forecast needs no extra
//! limit for that: the same CPUs do the other work, and the work bound already contains it.

use ledger::account::thread;
use ledger::summary::Sums;
use ledger::{Process, Thread, summary};
use wire::Cause;

use super::finding::Finding;
use crate::blame::Delay;
use crate::evidence::Evidence;
use crate::expected::Expected;
use crate::facts::Facts;
use crate::figures::Figure::{BlockedBy, Sum, Whole};
use crate::figures::Whole::{ThreadNs, WallNs};
use crate::figures::{Figure, say};
use crate::openmp::is_openmp;
use crate::thresholds::{INTENDED_SHARE, WORKER_WORK};
use crate::verdict::{Confidence, Kind, NextStep, Sentence};

/// The step to run other tasks during a wait.
const OVERLAP: &str = "cox run --overlap -- …";

/// Children run one at a time if this many threads of the program ran on average.
const ONE_RAN: (f64, f64) = (0.8, 1.2);

/// If other work is done during a wait, the shorter of the two is hidden at best, so the speed-up is at most a factor of two.
const OVERLAP_BOUND: f64 = 2.0;

/// Detects waiting for storage. Running other tasks during the wait is a step if this version of cox supports it.
pub(crate) fn disk(evidence: &Evidence) -> Option<Finding> {
    // Fewer requests take less work, too: SQLite with one transaction instead of 400 was 41 times faster, with a work bound of 2.1.
    let steps =
        Steps { without_number: Some("make fewer and larger requests"), with_number: Some("use faster storage") };
    let mut finding = delay(evidence, Delay::Disk, "waited for storage", &steps)?;
    if evidence.facts.has_verb("overlap") && is_openmp(evidence) {
        let all = evidence.without_delay(evidence.sums.blocked_by[Cause::Disk] as f64);
        let bound = all.bound().min(OVERLAP_BOUND);
        let expected = evidence.beside_others(Expected::new(1.0, bound, bound));
        let step = NextStep::if_worth(evidence, OVERLAP, expected, finding.kind, "any waiting for storage");
        finding.sentences[0].next.extend(step);
    }
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
    if evidence.facts.has_verb("overlap") && is_openmp(evidence) {
        main.next.push(NextStep::plain(OVERLAP, kind));
    }
    let back_ns = evidence.blame.total_ns(Delay::Network);
    Some(Finding { kind, back_ns, confidence: Confidence::Medium, sentences: vec![main] })
}

/// Detects waiting for pages.
pub(crate) fn page_faults(evidence: &Evidence) -> Option<Finding> {
    let say = "waited in page faults for memory to be read in, or for the lock on the address space";
    let step = "read ahead (MAP_POPULATE, madvise, readahead), or use less memory if pages were swapped out";
    // A page fault that does not happen saves its work, too.
    delay(evidence, Delay::PageFault, say, &Steps { without_number: Some(step), with_number: None })
}

/// Detects waiting for file locks.
pub(crate) fn file_locks(evidence: &Evidence) -> Option<Finding> {
    let steps = Steps { without_number: None, with_number: Some(SHORTER_HOLD) };
    delay(evidence, Delay::FileLock, FOR_LOCK, &steps).or_else(|| held_by_a_sleeper(evidence))
}

/// What threads do that wait for a file lock, and what to do about it.
const FOR_LOCK: &str = "waited for a file lock";
const SHORTER_HOLD: &str = "hold the file lock for a shorter time, or use one file per process";

/// Detects that a worker thread waits for a file lock for most of the run, and that the wait has no forecast: the holder of the lock waits for something
/// itself, such as a timer, and the account does not show how long it would hold the lock otherwise.
fn held_by_a_sleeper(evidence: &Evidence) -> Option<Finding> {
    let waits = |thread: &&Thread| thread.blocked_by[Cause::FileLock] as f64 >= INTENDED_SHARE * evidence.wall_ns;
    let ns = evidence.sums.blocked_by[Cause::FileLock];
    if !evidence.workers.iter().any(waits) || !evidence.held_up(ns as f64) {
        return None;
    }
    let kind = Kind::FileLock;
    let mut main = blocked_sentence(evidence, ns, Cause::FileLock, FOR_LOCK);
    main.next.push(NextStep::plain(SHORTER_HOLD, kind));
    let back_ns = evidence.blame.total_ns(Delay::FileLock);
    Some(Finding { kind, back_ns, confidence: Confidence::Medium, sentences: vec![main] })
}

/// What to do about waiting for a resource.
struct Steps {
    /// A step that saves work, too. The work bound does not hold then, so it has no number.
    without_number: Option<&'static str>,
    /// A step that only saves the waiting.
    with_number: Option<&'static str>,
}

fn delay(evidence: &Evidence, delay: Delay, what: &str, steps: &Steps) -> Option<Finding> {
    let (kind, cause, waiting) = match delay {
        Delay::PageFault => (Kind::PageFaults, Cause::PageFault, "any waiting for pages"),
        Delay::FileLock => (Kind::FileLock, Cause::FileLock, "any waiting for file locks"),
        _ => (Kind::DiskBound, Cause::Disk, "any waiting for storage"),
    };
    let ns = evidence.sums.blocked_by[cause];
    let expected = evidence.without_delay(ns as f64);
    if ns == 0 || !expected.is_worth_trying() {
        return None;
    }
    let mut main = blocked_sentence(evidence, ns, cause, what);
    main.next.extend(steps.without_number.map(|step| NextStep::plain(step, kind)));
    let expected = evidence.beside_others(expected);
    main.next.extend(steps.with_number.map(|step| NextStep::expecting(evidence, step, expected, kind, waiting)));
    let back_ns = evidence.blame.total_ns(delay);
    Some(Finding { kind, back_ns, confidence: Confidence::High, sentences: vec![main] })
}

fn blocked_sentence(evidence: &Evidence, ns: u64, cause: Cause, what: &str) -> Sentence {
    let text = format!(
        "{} of thread time {what}; {:.1} CPUs did work on average.",
        evidence.percent(ns),
        evidence.concurrency.working
    );
    say(evidence, text, &[BlockedBy(cause), Whole(ThreadNs), Sum(thread::work_ns), Whole(WallNs)])
}

/// Detects blocked time whose cause the backend does not see.
pub(crate) fn unseen(evidence: &Evidence) -> Option<Finding> {
    let sums = &evidence.sums;
    let ns = if evidence.sees.causes { sums.blocked_by[Cause::Other] } else { sums.blocked_ns };
    if evidence.share(ns) < INTENDED_SHARE || (evidence.sees.causes && !evidence.held_up(ns as f64)) {
        return None;
    }
    let why = if evidence.sees.causes {
        " in other system calls (ioctl, read of a terminal)."
    } else {
        ". Only eBPF shows the cause: a lock, storage, a socket, or an intended wait."
    };
    let text = format!("{} of thread time was blocked{why}", evidence.percent(ns));
    let mut main = say(evidence, text, &[Sum(thread::blocked_ns), Whole(ThreadNs)]);
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
    if one_child_at_a_time(evidence).is_some() {
        return None;
    }
    intended(evidence, Kind::ChildWait, &[Cause::ChildWait], "waited for child processes")
}

/// Returns the step to run several child processes at the same time, for a program (a shell script, `make -j1`) that runs one after another while CPUs
/// are idle. The step has no forecast: the account does not show whether a child needs what another has made.
pub(crate) fn one_child_at_a_time(evidence: &Evidence) -> Option<NextStep> {
    let cpus = evidence.whole_cpus() as u64;
    let waits = |thread: &Thread| {
        thread.wall_ns as f64 >= INTENDED_SHARE * evidence.wall_ns
            && summary::share(thread.blocked_by[Cause::ChildWait], thread.wall_ns) >= INTENDED_SHARE
    };
    let one = (ONE_RAN.0..ONE_RAN.1).contains(&evidence.concurrency.running);
    let processes = evidence.account.programs.iter().flat_map(|program| &program.processes);
    let (parents, children): (Vec<&Process>, Vec<&Process>) =
        processes.partition(|process| process.threads.iter().any(waits));
    let work_ns: Vec<u64> = children
        .iter()
        .map(|process| process.threads.iter().map(Thread::work_ns).fold(0, u64::saturating_add))
        .collect();
    let most_ns = work_ns.iter().copied().max().unwrap_or(0);
    let working = work_ns.iter().filter(|ns| **ns as f64 >= WORKER_WORK * most_ns as f64).count() as u64;
    // At least three children: two that take equally long may need one another, such as a compiler and a linker.
    let several = most_ns < evidence.sums.work_ns() / 2;
    if cpus < 2 || parents.is_empty() || !one || !several || working < 3 || evidence.unused().is_none() {
        return None;
    }
    let cpus = cpus.min(working);
    let action = format!(
        "run {cpus} children at the same time, if none needs what another makes (such as make -j{cpus}, xargs -P{cpus})"
    );
    Some(NextStep::plain(action, Kind::NothingToGain))
}

/// Returns a finding of intended waiting. A change of scheduling cannot save this time, so `back_ns` is not a saving here: it only ranks such
/// findings.
fn intended(evidence: &Evidence, kind: Kind, causes: &[Cause], what: &str) -> Option<Finding> {
    let ns = evidence.sums.blocked_by.of(causes);
    // The finding depends on the share `blocked time ÷ (lifetimes − waits for child processes)` of the threads that do the work. Threads without
    // work, such as the idle helpers of a server, wait for these. Waits for child processes are left out, because the children's own accounts explain
    // them. Only the rule that detects these waits divides by the whole lifetimes.
    let least_ns = WORKER_WORK * evidence.largest_work_ns();
    let working = Sums::over(evidence.workers.iter().copied().filter(|thread| thread.work_ns() as f64 >= least_ns));
    let sums = if evidence.workers.is_empty() { &evidence.sums } else { &working };
    let for_members = if kind == Kind::ChildWait { 0 } else { sums.blocked_by[Cause::ChildWait] };
    let part = summary::share(sums.blocked_by.of(causes), sums.wall_ns.saturating_sub(for_members)).min(1.0);
    if part < INTENDED_SHARE {
        return None;
    }
    let text = format!("{} of thread time {what}: scheduling cannot change that.", evidence.percent(ns));
    let mut figures: Vec<Figure> = causes.iter().map(|cause| BlockedBy(*cause)).collect();
    figures.push(Whole(ThreadNs));
    let main = say(evidence, text, &figures);
    Some(Finding { kind, back_ns: part, confidence: Confidence::High, sentences: vec![main] })
}
