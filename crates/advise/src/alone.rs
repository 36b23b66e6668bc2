//! Programs in which one thread does all the work.

use ledger::Thread;

use crate::adding;
use crate::evidence::{Evidence, share};
use crate::openmp;
use crate::pools;
use crate::thresholds::{ONE_THREAD_WORK, TEAM_SPIN};
use crate::verdict::{Kind, NextStep};

/// A program works in one thread if this thread works for at least this part of the run.
const WORKS: f64 = 0.5;

/// Returns whether one thread does all the work: there is only one worker thread, or the others hardly have parallel work. (A reader and a writer beside
/// one worker are no parallelism.)
pub(crate) fn works_in_one_thread(evidence: &Evidence) -> bool {
    let all = evidence.worker_sums.work_ns() as f64;
    evidence.workers.len() == 1
        || (all > 0.0 && evidence.worker_sums.serial_ns as f64 >= ONE_THREAD_WORK * all)
        || (evidence.largest_work_ns() >= ONE_THREAD_WORK * all && !openmp::is_team(evidence) && !are_a_team(evidence))
}

/// Returns whether a worker thread waits for its part of the work, as threads of a team do: it spins for much of its life, or sleeps on futexes and is
/// woken often.
fn are_a_team(evidence: &Evidence) -> bool {
    let spins = |thread: &Thread| {
        let spun_ns = thread.spin_ns.saturating_add(thread.yield_wait_ns);
        share(spun_ns as f64, thread.wall_ns as f64) >= TEAM_SPIN
    };
    evidence.workers.iter().any(|thread| adding::meets(thread) || spins(thread))
}

/// Returns the step "use a thread for each CPU", for a program in which one thread does all the work while CPUs are idle; `None` for other programs, or
/// if the quota allows only one CPU. The step has no forecast: the account of one thread does not show which part of its work can be divided.
pub(crate) fn use_more(evidence: &Evidence, kind: Kind) -> Option<NextStep> {
    let cpus = evidence.whole_cpus();
    let works = evidence.largest_work_ns() >= WORKS * evidence.wall_ns;
    if !works_in_one_thread(evidence) || cpus < 2.0 || !works || evidence.unused().is_none() {
        return None;
    }
    let setting = openmp::workers(evidence, cpus);
    let action = if openmp::is_openmp(evidence) || evidence.ranks.is_some() || pools::variable(evidence).is_some() {
        setting
    } else {
        format!("{setting}, if it has an option for that (such as -j, -p, -T or --threads)")
    };
    Some(NextStep::plain(action, kind))
}
