//! Sentences that belong to no finding: where the time went, how busy the CPUs were, what limits any gain, and "nothing to gain".

use ledger::account::{cpu, thread};
use wire::Cause;

use super::blocked;
use crate::alone;
use crate::evidence::Evidence;
use crate::figures::Figure::{Cpus, Sum, Whole};
use crate::figures::Whole::{ProgramCpus, ThreadNs, WallNs, WorkerThreads};
use crate::figures::say;
use crate::numbers::{about_percent, counted, duration, factor};
use crate::thresholds::{CLEAR_LOAD, INTENDED_SHARE, WORTH_FACTOR, WORTH_SHARE};
use crate::verdict::{Confidence, Kind, Sentence};

/// Returns the sentence on where the thread time went.
pub(crate) fn overview(evidence: &Evidence) -> Sentence {
    let sums = &evidence.sums;
    let text = format!(
        "Of {} of thread time, {} did work, {} waited for other threads and {} for a CPU.",
        duration(sums.wall_ns),
        evidence.percent(sums.work_ns()),
        evidence.percent(sums.waiting_for_threads_ns()),
        evidence.percent(sums.waiting_for_cpu_ns()),
    );
    let figures =
        [Whole(ThreadNs), Sum(thread::work_ns), Sum(thread::waiting_for_threads_ns), Sum(thread::waiting_for_cpu_ns)];
    say(evidence, text, &figures)
}

/// Returns the sentence on how many CPUs did work on average.
pub(crate) fn busy(evidence: &Evidence) -> Sentence {
    let text = format!(
        "On average {:.1} of {} did this program's work.",
        evidence.concurrency.working,
        counted(evidence.cpus as u64, "CPU")
    );
    say(evidence, text, &[Sum(thread::work_ns), Whole(WallNs), Whole(ProgramCpus)])
}

/// Returns the sentence on what limits the gain of any scheduling.
pub(crate) fn bound(evidence: &Evidence) -> Sentence {
    let parallelism = evidence.parallelism(evidence.cpus);
    let ideal = duration(evidence.ideal_ns(evidence.cpus) as u64);
    let cpus = counted(parallelism as u64, "CPU");
    let mut figures = vec![Sum(thread::work_ns), Whole(WallNs), Whole(WorkerThreads), Whole(ProgramCpus)];
    if evidence.sums.work_ns() == 0 {
        return say(
            evidence,
            "cox saw no work in this run, so there is no work that scheduling could finish sooner.".to_owned(),
            &figures,
        );
    }
    if evidence.is_bound_by_waits() {
        figures.extend([Sum(thread::blocked_ns), Sum(thread::unknown_ns)]);
        let text = format!(
            "The work itself needs {ideal} on {cpus}. In the rest of the {}, the program waited for {}; \
             nothing measured shows how to shorten these waits.",
            duration(evidence.wall_ns as u64),
            fixed_waits(evidence),
        );
        return say(evidence, text, &figures);
    }
    if !evidence.sees.spin {
        let text = format!("The work itself needs at most {ideal} on {cpus}: any spinning is counted as work here.");
        return say(evidence, text, &figures);
    }
    let alone = evidence.work_bound().max(1.0);
    let bound = factor(alone);
    let taken = evidence.cpus_of_others() / evidence.cpus;
    let loaded = (taken >= WORTH_SHARE).then(|| {
        figures.push(Cpus(cpu::busy_others_ns));
        let left = factor(evidence.work_bound_on(evidence.cpus_left()).max(1.0));
        format!("{left} at the present load (others took {} of these CPUs)", about_percent(taken))
    });
    let shrinks = match (evidence.work_can_shrink(), &loaded) {
        (true, _) => Some("With fewer switches"),
        (false, Some(_)) => Some("With the CPUs to itself"),
        (false, None) => None,
    };
    let text = if let Some(shrinks) = shrinks {
        let loaded = loaded.map_or_else(String::new, |loaded| format!(" on idle CPUs, {loaded}"));
        format!(
            "The work itself needs {ideal} on {cpus}. Without any waiting, the program would be {bound} faster{loaded}. {shrinks}, the \
             work can also need less CPU time."
        )
    } else if alone > evidence.cpus {
        format!(
            "The work itself needs {ideal} on {cpus}. Upper bound of the speed-up: {bound}, reached only if threads \
             waited for nothing but CPUs and the work of other threads."
        )
    } else {
        format!("The work itself needs {ideal} on {cpus}. Upper bound of the speed-up by scheduling: {bound}.")
    };
    say(evidence, text, &figures)
}

/// Returns, for a sentence, what the program waited for in its fixed waits (waits that nothing in the account shows how to shorten). The longest
/// waits come first.
fn fixed_waits(evidence: &Evidence) -> String {
    let sums = &evidence.sums;
    let mut waits = [
        (sums.blocked_by[Cause::Sleep], "timers"),
        (sums.blocked_by[Cause::Poll].saturating_add(sums.blocked_by[Cause::Pipe]), "input"),
        (sums.blocked_by[Cause::Network], "the network"),
        (sums.blocked_by[Cause::ChildWait], "child processes"),
        (sums.blocked_by[Cause::Stopped], "a signal to continue"),
        (sums.blocked_by[Cause::Other], "other system calls (ioctl, read of a terminal)"),
        (sums.blocked_by[Cause::Unspecified], "causes that this backend does not see"),
        (sums.blocked_by[Cause::Futex], "threads that were waiting themselves"),
        (sums.unknown_ns, "events that cox did not see"),
    ];
    waits.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let much = waits.iter().filter(|(ns, _)| evidence.share(*ns) >= INTENDED_SHARE / 5.0);
    let names: Vec<&str> = much.map(|(_, name)| *name).collect();
    match names.split_last() {
        None => "events that cox did not see".to_owned(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the confidence in the headline `kind` under the load of other programs: `confidence`, or the next lower one and a sentence that says why.
/// Even a small load can change which of two losses is the larger one.
pub(crate) fn beside_load(evidence: &Evidence, kind: Kind, confidence: Confidence) -> (Confidence, Option<Sentence>) {
    let taken = evidence.cpus_of_others() / evidence.cpus;
    // A thread that sleeps or waits for input would do so on an idle machine, too. So the load does not make these headlines less certain.
    let is_wait = matches!(kind, Kind::Sleeping | Kind::WaitingForInput | Kind::ChildWait | Kind::Blocked);
    if taken < WORTH_SHARE || is_wait || (kind == Kind::CpuHog && taken >= CLEAR_LOAD) {
        return (confidence, None);
    }
    let confidence = confidence.lowered();
    let text = format!(
        "Confidence in this diagnosis: {confidence}, because others took {} of these CPUs. Measure again on idle CPUs.",
        about_percent(taken)
    );
    (confidence, Some(say(evidence, text, &[Cpus(cpu::busy_others_ns), Whole(ProgramCpus)])))
}

/// Returns the sentence "nothing to gain" with the reason, or the sentence that the program does not use all the CPUs it may use.
pub(crate) fn nothing(evidence: &Evidence) -> Sentence {
    let sums = &evidence.sums;
    let mut figures = vec![
        Sum(thread::work_ns),
        Sum(thread::waiting_for_threads_ns),
        Sum(thread::waiting_for_cpu_ns),
        Whole(ThreadNs),
    ];
    let shares = format!(
        "{} of thread time did work, {} waited for other threads, {} for a CPU",
        evidence.percent(sums.work_ns()),
        evidence.percent(sums.waiting_for_threads_ns()),
        evidence.percent(sums.waiting_for_cpu_ns()),
    );
    let text = match evidence.unused() {
        Some(unused) => {
            figures.extend([Sum(thread::run_ns), Whole(WallNs), Whole(ProgramCpus), Cpus(cpu::idle_ns)]);
            format!(
                "Nothing to gain from scheduling, but parallelism is missing: on average {:.1} of {} ran this program's \
                 threads, and {} of the CPUs' time was idle while none of its threads wanted a CPU ({shares}).",
                evidence.concurrency.running,
                counted(evidence.cpus as u64, "CPU"),
                about_percent(unused),
            )
        }
        None => format!("Nothing to gain from scheduling: {shares}."),
    };
    let mut sentence = say(evidence, text, &figures);
    let children = blocked::one_child_at_a_time(evidence);
    sentence.next.extend(children.or_else(|| alone::use_more(evidence, Kind::NothingToGain)));
    sentence
}

/// Returns the sentence on why the waiting for CPUs or for other threads is no loss here; `None` if there is little waiting.
pub(crate) fn shared_cpus(evidence: &Evidence) -> Option<Sentence> {
    let sums = &evidence.sums;
    let waited = evidence.share(sums.waiting_for_cpu_ns().saturating_add(sums.waiting_for_threads_ns()));
    let bound = evidence.work_bound();
    if waited < WORTH_FACTOR - 1.0 || sums.work_ns() == 0 {
        return None;
    }
    let cpus = counted(evidence.cpus as u64, "CPU");
    let text = if bound < WORTH_FACTOR * WORTH_FACTOR {
        format!(
            "The waiting cost little: {cpus} did work nearly all the time, and only more CPUs or less work would help."
        )
    } else {
        format!("Even so, {:.1} of {cpus} did work on average.", evidence.concurrency.working)
    };
    Some(say(evidence, text, &[Sum(thread::work_ns), Whole(WallNs), Whole(ProgramCpus)]))
}
