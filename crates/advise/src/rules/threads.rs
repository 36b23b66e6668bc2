//! Oversubscription: more threads than CPUs, and the threads wait for one another.
//!
//! Threads that queue for CPUs but never wait for one another (a parallel make) lose nothing: the CPUs are busy with work all the time. A queue
//! delays other threads only if the threads also meet (spinning, yielding or asleep). In that case the number of threads is the cause.
//!
//! Bound: the work bound. With one thread per CPU no thread queues and no thread spins for a queued one, so `wall / (Σ work / CPUs)` can be reached.
//! For n threads that wait only by spinning, this is n / CPUs if all turns are equally long. If the step gains nothing, the rule reports nothing.
//!
//! If the backend does not see spinning, threads that are alive at the same time and queue count as oversubscription as well, because most such
//! threads meet somewhere. How they wait is then unknown, and the step has no forecast.

use ledger::account::thread;
use ledger::summary;
use wire::Cause;

use super::finding::Finding;
use crate::blame::Delay;
use crate::elsewhere::elsewhere;
use crate::figures::{Figure, Whole, say};
use crate::numbers::{about_percent, counted};
use crate::openmp;
use crate::picture::Picture;
use crate::thresholds::{QUEUE_UTILISATION, TEAM_ALIVE, THREADS_PER_CPU, WORTH_SHARE};
use crate::verdict::{Confidence, Kind, NextStep};

/// Detects more threads than CPUs that wait for one another.
pub(crate) fn too_many(picture: &Picture) -> Option<Finding> {
    let crew = &picture.crew_sums;
    let queued = queued_ns(picture);
    let unspecified = if picture.sees.causes { 0 } else { crew.blocked_by[Cause::Unspecified] };
    let spinning = crew.spin_ns.saturating_add(crew.yield_wait_ns);
    let asleep = crew.blocked_by[Cause::Futex].saturating_add(unspecified);
    let crowded = picture.crew.len() as f64 > picture.cpus && picture.crew_alive() >= THREADS_PER_CPU * picture.cpus;
    // The share of spinning is relative to run time: with a queue, it is only a small part of all thread time.
    let spun_part = summary::share(crew.spin_ns, crew.run_ns);
    let met = picture.crew_share(spinning.saturating_add(asleep) as f64).max(spun_part) >= WORTH_SHARE;
    let meet = if picture.sees.spin { met } else { side_by_side(picture) };
    let queue = picture.share(queued) >= WORTH_SHARE && has_queue(picture);
    let explains = picture.blame.queues_explain() || !picture.sees.takers;
    if !crowded || !meet || !queue || !explains || elsewhere(picture).is_some() {
        return None;
    }
    let slept = if picture.sees.spin { asleep > spinning } else { picture.crew_share(asleep as f64) >= WORTH_SHARE };
    let kind = if slept { Kind::TooManyThreadsSleeping } else { Kind::TooManyThreadsSpinning };
    let confidence = match (picture.sees.takers, picture.sees.spin) {
        (true, true) => Confidence::High,
        (false, true) => Confidence::Medium,
        (_, false) => Confidence::Low,
    };
    let back_ns = picture.blame.total_ns(Delay::Sibling) + picture.blame.total_ns(Delay::Unseen);

    let mut main = say(picture, turns(picture, kind, queued), &figures(kind));
    if picture.sees.spin {
        main.next.extend(openmp::threads(picture, picture.cpus, kind));
        if kind == Kind::TooManyThreadsSpinning {
            main.next.extend(openmp::passive(picture, kind));
        }
        if !main.next.is_empty() {
            main.next.extend(openmp::turns(picture, kind));
        }
    } else {
        main.next.push(NextStep::plain(openmp::fewer(picture, picture.cpus), kind));
    }
    if main.next.is_empty() {
        return None;
    }
    Some(Finding { kind, back_ns, confidence, sentences: vec![main] })
}

/// Returns whether the threads run side by side rather than one after another: on average half of them are alive.
fn side_by_side(picture: &Picture) -> bool {
    picture.crew_alive() >= TEAM_ALIVE * picture.crew.len() as f64
}

/// Returns whether there were too few CPUs: they were busy, or, if the backend does not see that, more threads wanted a CPU than there are.
fn has_queue(picture: &Picture) -> bool {
    let wanted = !picture.sees.takers && picture.concurrency.runnable >= picture.cpus;
    wanted || picture.utilisation() >= QUEUE_UTILISATION
}

/// Returns the thread time queued behind siblings; all waiting for a CPU if the backend does not see which thread held it.
fn queued_ns(picture: &Picture) -> u64 {
    if picture.sees.takers {
        picture.behind.siblings_ns
    } else {
        picture.sums.wake_delay_ns.saturating_add(picture.sums.preempt_wait_ns)
    }
}

fn turns(picture: &Picture, kind: Kind, queued: u64) -> String {
    let threads = counted(picture.crew.len() as u64, "thread");
    let pack = if picture.facts.is_packed() { " of the pack" } else { "" };
    let cpus = counted(picture.cpus as u64, "CPU") + pack;
    let crew = &picture.crew_sums;
    if !picture.sees.spin {
        return format!(
            "{threads} share {cpus}: {} of thread time waited for a CPU. This backend does not see whether threads \
             wait for one another meanwhile, and how.",
            about_percent(picture.share(queued))
        );
    }
    let waiting = match kind {
        Kind::TooManyThreadsSpinning => {
            let spun = picture.share(crew.spin_ns.saturating_add(crew.yield_wait_ns));
            let way = if crew.yield_wait_ns > crew.spin_ns / 10 { "spin and yield" } else { "spin" };
            format!(
                "running threads {way}, waiting for threads that were preempted ({} of thread time)",
                about_percent(spun)
            )
        }
        _ => {
            let slept = crew.blocked_by[Cause::Futex].saturating_add(crew.blocked_by[Cause::Unspecified]);
            format!(
                "threads that are done sleep until the last one has run ({} of thread time)",
                about_percent(picture.share(slept))
            )
        }
    };
    let all = picture.sums.wake_delay_ns.saturating_add(picture.sums.preempt_wait_ns).max(queued).max(1);
    let behind = if picture.sees.takers {
        format!("Of the waiting for a CPU, {} was behind a sibling", about_percent(queued as f64 / all as f64))
    } else {
        format!("Threads waited for a CPU for {} of thread time", about_percent(picture.share(queued)))
    };
    format!("{threads} share {cpus}: {waiting}. {behind}.")
}

fn figures(kind: Kind) -> Vec<Figure> {
    let mut figures = vec![
        Figure::Whole(Whole::CrewThreads),
        Figure::Whole(Whole::ProgramCpus),
        Figure::Whole(Whole::TookSiblingNs),
        Figure::Sum(thread::waiting_for_cpu_ns),
    ];
    figures.extend([Figure::Sum(thread::yield_wait_ns), Figure::Whole(Whole::ThreadNs)]);
    if kind == Kind::TooManyThreadsSpinning {
        figures.push(Figure::Sum(thread::spin_ns));
    } else {
        figures.push(Figure::BlockedBy(Cause::Futex));
    }
    figures
}
