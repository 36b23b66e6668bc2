//! Pinned to too few CPUs: threads of the program wait for one another's CPUs while the machine has CPUs that they may not use.
//!
//! There are three signs. The program narrowed its own affinity mask; or the mask it inherited is smaller than the machine, and a CPU outside it was
//! mostly idle; or the mask is wide, but the threads queued on only a few of its CPUs. A load balancer would spread such threads, so the mask of each
//! single thread must be narrow.
//!
//! The rule does not apply to a packed program: cox sets its masks, on CPUs that its user chose.
//!
//! Bound: the work bound on the used and the free CPUs together, with the serial parts as they are. If there are more worker threads than CPUs, threads will still take turns, and those
//! that spin will still hold CPUs that others want; then the bound is at most the number of CPUs divided by the number of used CPUs. Otherwise, such
//! spinning ends, too, and the busiest thread's work is the second bound. A CPU of which other programs used a part counts only as the part that they
//! left.
//!
//! More CPUs shorten only the time in which some thread queued for a CPU, and the time in which others waited because of that, `Q`: no more than the run,
//! `W`. In that time the `u` used CPUs did work and spun. With `f` more CPUs, the same work takes at least `(Q × u − spin) / (u + f)`, so that
//! `W' ≥ W − Q + (Q × u − spin) / (u + f)`.

use std::collections::BTreeSet;

use ledger::account::{cpu, thread};

use super::finding::Finding;
use crate::blame::Delay;
use crate::elsewhere::{Elsewhere, elsewhere, room};
use crate::evidence::Evidence;
use crate::expected::Expected;
use crate::figures::Figure::{Cpus, Sum, Whole};
use crate::figures::Whole::{OnlineCpus, ProgramCpus, TookSiblingNs, WorkerThreads};
use crate::figures::say;
use crate::numbers::cpu_list;
use crate::openmp;
use crate::thresholds::WORTH_SHARE;
use crate::verdict::{Confidence, Kind, NextStep, Sentence};

/// With more CPUs, a program reaches at least this part of the speed-up that its work allows. The rest is lost to memory bandwidth and to load
/// imbalance, which matter more with more CPUs. Programs of the corpus (`cox-bench verdicts`) reached 0.8 to 1.03 of it with two CPUs instead of one.
const REACHED: f64 = 0.75;

/// At least this part of the time that more CPUs can save is saved if the threads queued for only a part of the run: several of them may have queued at
/// the same time.
const SURE: f64 = 0.5;

/// A second hardware thread of a core adds about this much of a CPU.
const SMT_PART: f64 = 0.5;

/// Detects that threads queue although CPUs are free.
pub(crate) fn too_few_cpus(evidence: &Evidence) -> Option<Finding> {
    let elsewhere = elsewhere(evidence)?;
    let kind = Kind::PinnedTooFew;
    let all: BTreeSet<u32> = elsewhere.used.iter().chain(&elsewhere.free).copied().collect();
    let all: Vec<u32> = all.into_iter().collect();
    let after = After::of(evidence, all.len());
    let mut action = widen(evidence, &all, elsewhere.inside);
    if after == After::FewerThreads {
        let setting = openmp::workers(evidence, all.len() as f64);
        action = format!("{action}, with {}", setting.strip_prefix("run it with ").unwrap_or(&setting));
    }
    let expected = with_more_cpus(evidence, &elsewhere, after);
    let mut main = shared(evidence, &elsewhere);
    main.next.extend(NextStep::if_worth(evidence, action, expected, kind, "any waiting for a CPU"));
    if after != After::OneForEach {
        main.next.extend(openmp::threads(evidence, elsewhere.used.len() as f64, kind));
    }
    if main.next.is_empty() {
        return None;
    }
    let back_ns = evidence.blame.total_ns(Delay::Sibling) + evidence.blame.total_ns(Delay::Unseen);
    let confidence = if elsewhere.seen { Confidence::High } else { Confidence::Medium };
    Some(Finding { kind, back_ns, confidence, sentences: vec![main] })
}

/// How the threads share the CPUs after the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// Each thread has a CPU.
    OneForEach,
    /// Threads share CPUs, as before.
    Shared,
    /// The step also reduces the number of threads to that of the CPUs: threads that wait for one another on CPUs that are still too few can lose as
    /// much as they gain.
    FewerThreads,
}

impl After {
    fn of(evidence: &Evidence, cpus: usize) -> After {
        let waited_ns = evidence.worker_sums.waiting_for_threads_ns();
        if evidence.workers.len() <= cpus {
            After::OneForEach
        } else if evidence.worker_share(waited_ns as f64) >= WORTH_SHARE {
            After::FewerThreads
        } else {
            After::Shared
        }
    }
}

/// Returns the forecast for a run that may also use the free CPUs.
fn with_more_cpus(evidence: &Evidence, elsewhere: &Elsewhere, after: After) -> Expected {
    let (used, free) = (room(evidence, &elsewhere.used), room(evidence, &elsewhere.free));
    let added = if evidence.facts.smt { free * SMT_PART } else { free };
    let limit = |cpus: f64| match after {
        After::OneForEach => busiest_thread_bound(evidence),
        After::Shared => cpus / used,
        After::FewerThreads => f64::INFINITY,
    };
    let queued_ns = evidence.queued_ns() as f64;
    let induced_ns = evidence.blame.induced_ns(Delay::Sibling) + evidence.blame.induced_ns(Delay::Unseen);
    let faster = |cpus: f64, delayed_ns: f64| {
        let by_queues = without_queues(evidence, delayed_ns, used, cpus, 1.0);
        evidence.bound_with_serial_parts(cpus).min(limit(cpus)).min(by_queues)
    };
    // Threads that queue at the same time delay the program only once. They may also have queued one after another: that is the bound.
    let at_once = (evidence.workers.len() as f64 - used).max(1.0);
    let bound = faster(used + free, queued_ns + induced_ns);
    let reached = faster(used + added, (queued_ns + induced_ns) / at_once);
    // Spinning may have been for something else than preempted threads. Unless there are fewer threads, the low end is that without spinning.
    let sure = if after == After::FewerThreads { reached } else { reached.min((used + added) / used) };
    let surely_saved = without_queues(evidence, queued_ns / at_once, used, used + added, SURE);
    let low = (sure * REACHED).max(sure.min(surely_saved));
    Expected::new(low, bound, bound)
}

/// Returns the speed-up factor on `cpus` CPUs instead of `used`, if `part` of the time is saved that can be saved in `delayed_ns`, the time in which threads
/// queued (see the top of the file).
fn without_queues(evidence: &Evidence, delayed_ns: f64, used: f64, cpus: f64, part: f64) -> f64 {
    let delayed_ns = delayed_ns.min(evidence.wall_ns);
    let worked_ns = (delayed_ns * used - evidence.sums.spin_ns as f64).max(0.0);
    let saved_ns = delayed_ns - worked_ns / cpus;
    evidence.wall_ns / (evidence.wall_ns - part * saved_ns).max(1.0)
}

/// Returns the largest speed-up factor that the busiest thread's work allows. Few samples can miss work among the spinning, so its error counts, too.
fn busiest_thread_bound(evidence: &Evidence) -> f64 {
    let missed_ns = evidence.busiest().map_or(0.0, |busiest| busiest.work_error_ns());
    evidence.wall_ns / (evidence.largest_work_ns() + missed_ns).max(1.0)
}

/// Returns the sentence that threads shared CPUs while others were free.
fn shared(evidence: &Evidence, elsewhere: &Elsewhere) -> Sentence {
    let text = format!(
        "{threads} shared CPU {used} while CPU {free} {idle}: threads waited for a CPU for {} of thread time.",
        evidence.percent(evidence.sums.waiting_for_cpu_ns()),
        threads = evidence.workers_counted("thread"),
        used = cpu_list(&elsewhere.used),
        free = cpu_list(&elsewhere.free),
        idle = if elsewhere.seen { "stood idle" } else { "was unused" },
    );
    let figures = [
        Whole(WorkerThreads),
        Whole(ProgramCpus),
        Whole(OnlineCpus),
        Sum(thread::waiting_for_cpu_ns),
        Whole(TookSiblingNs),
        Cpus(cpu::idle_ns),
        Cpus(cpu::idle_while_waiting_ns),
    ];
    say(evidence, text, &figures)
}

/// Returns what to do so that the program can use `cpus`. `inside`: its affinity mask contains them, so that something narrowed its threads' masks.
fn widen(evidence: &Evidence, cpus: &[u32], inside: bool) -> String {
    let binding = ["OMP_PLACES", "GOMP_CPU_AFFINITY", "OMP_PROC_BIND"];
    let is_set = |name: &&str| openmp::is_openmp(evidence) && evidence.facts.environment.contains_key(*name);
    let launcher = evidence.ranks.as_ref().and_then(|ranks| ranks.launcher.as_ref()).filter(|_| inside);
    match (binding.into_iter().find(is_set), launcher) {
        (Some(name), _) => format!("unset {name}, or let it include CPU {}", cpu_list(cpus)),
        (None, Some(launcher)) => {
            format!("{launcher} --bind-to none, or a binding that includes CPU {}", cpu_list(cpus))
        }
        (None, None) => format!("allow CPU {} (taskset -c {0}, cpuset or job request)", cpu_list(cpus)),
    }
}
