//! Sentences that belong to no finding: where the time went, how busy the CPUs were, what bounds any
//! gain, and "nothing to gain".

use crate::figures::{Figure, say};
use crate::numbers::{about_percent, counted, duration, factor};
use crate::picture::Picture;
use crate::thresholds::WORTH_FACTOR;
use crate::verdict::Sentence;

/// Where the thread time went, in one breath.
pub(crate) fn overview(picture: &Picture) -> Sentence {
    let sums = &picture.sums;
    let text = format!(
        "Of {} of thread time, {} did work, {} waited for other threads and {} for a CPU.",
        duration(sums.wall_ns),
        about_percent(picture.share(sums.work_ns)),
        about_percent(picture.share(sums.waiting_for_threads_ns())),
        about_percent(picture.share(sums.waiting_for_cpu_ns())),
    );
    let figures = [Figure::ThreadNs, Figure::WorkNs, Figure::WaitingForThreadsNs, Figure::WaitingForCpuNs];
    say(picture, text, &figures)
}

/// How many CPUs did work on average.
pub(crate) fn busy(picture: &Picture) -> Sentence {
    let text = format!(
        "On average {:.1} of {} did this program's work.",
        picture.concurrency.working,
        counted(picture.cpus as u64, "CPU")
    );
    say(picture, text, &[Figure::WorkNs, Figure::WallNs, Figure::ProgramCpus])
}

/// What bounds any gain from scheduling.
pub(crate) fn bound(picture: &Picture) -> Sentence {
    let parallelism = picture.parallelism(picture.cpus);
    let ideal_ns = (picture.sums.work_ns as f64 / parallelism) as u64;
    let cpus = counted(parallelism as u64, "CPU");
    let figures = [Figure::WorkNs, Figure::WallNs, Figure::CrewThreads, Figure::ProgramCpus];
    if picture.sums.work_ns == 0 {
        return say(picture, "No work was seen that could be done faster.".to_owned(), &figures);
    }
    let text = format!(
        "The work itself needs {} on {cpus}: on these CPUs no scheduling can make the program more than about {} faster.",
        duration(ideal_ns),
        factor(picture.work_bound().max(1.0)),
    );
    say(picture, text, &figures)
}

/// "Nothing to gain", and why.
pub(crate) fn nothing(picture: &Picture) -> Sentence {
    let sums = &picture.sums;
    let text = format!(
        "Nothing to gain from scheduling: {} of thread time did work, {} waited for other threads, {} for a CPU.",
        about_percent(picture.share(sums.work_ns)),
        about_percent(picture.share(sums.waiting_for_threads_ns())),
        about_percent(picture.share(sums.waiting_for_cpu_ns())),
    );
    let figures = [Figure::WorkNs, Figure::WaitingForThreadsNs, Figure::WaitingForCpuNs, Figure::ThreadNs];
    say(picture, text, &figures)
}

/// Why waiting for a CPU, or for threads that only wait, is no loss here; only said when it is much.
pub(crate) fn shared_cpus(picture: &Picture) -> Option<Sentence> {
    let sums = &picture.sums;
    let waited = picture.share(sums.waiting_for_cpu_ns().saturating_add(sums.waiting_for_threads_ns()));
    let bound = picture.work_bound();
    if waited < WORTH_FACTOR - 1.0 || sums.work_ns == 0 {
        return None;
    }
    let cpus = counted(picture.cpus as u64, "CPU");
    let text = if bound < WORTH_FACTOR * WORTH_FACTOR {
        format!(
            "The waiting cost little: {cpus} did work nearly all the time, and only more CPUs or less work would help."
        )
    } else {
        format!("Still {:.1} of {cpus} did work on average.", picture.concurrency.working)
    };
    Some(say(picture, text, &[Figure::WorkNs, Figure::WallNs, Figure::ProgramCpus]))
}
