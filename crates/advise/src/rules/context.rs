//! Sentences that belong to no finding: where the time went, how busy the CPUs were, what bounds any
//! gain, and "nothing to gain".

use crate::figures::{Figure, say};
use crate::numbers::{about_percent, counted, duration, factor};
use crate::picture::Picture;
use crate::thresholds::{WORTH_FACTOR, WORTH_SHARE};
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
    let ideal = duration((picture.sums.work_ns as f64 / parallelism) as u64);
    let cpus = counted(parallelism as u64, "CPU");
    let mut figures = vec![Figure::WorkNs, Figure::WallNs, Figure::CrewThreads, Figure::ProgramCpus];
    if picture.sums.work_ns == 0 {
        return say(picture, "No work was seen that could be done faster.".to_owned(), &figures);
    }
    if !picture.sight.spin {
        let text =
            format!("If all of the run time was work, that needs {ideal} on {cpus}; spinning would be part of it.");
        return say(picture, text, &figures);
    }
    let bound = factor(picture.work_bound().max(1.0));
    let taken = picture.cpus_of_others() / picture.cpus;
    let text = if taken >= WORTH_SHARE {
        figures.push(Figure::CpuBusyOthersNs);
        format!(
            "The work itself needs {ideal} on {cpus}: alone on these CPUs the program can become about {bound} faster, and \
             while others keep {} of them no more than {}.",
            about_percent(taken),
            factor(picture.work_bound_on(picture.cpus_left()).max(1.0)),
        )
    } else {
        format!(
            "The work itself needs {ideal} on {cpus}: on these CPUs no scheduling can make the program more than about \
             {bound} faster."
        )
    };
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
