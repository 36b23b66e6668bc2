//! The figures on which a verdict may rest. Each has one name, as in `docs/figures.md`, and one value from the account or the facts. Evidence
//! consists of these figures only.

use ledger::account::{cpu, thread};
use ledger::figures::{Figure as Declared, Unit};
use ledger::{CpuAccount, Thread};
use wire::Cause;

use crate::efficiency::Efficiency;
use crate::evidence::Evidence;
use crate::verdict::{CitedFigure, Sentence};

/// A figure that a verdict can cite as evidence.
#[derive(Clone, Copy, Debug)]
pub enum Figure {
    /// A figure of threads, summed over all threads.
    Sum(Declared<Thread>),
    /// Time blocked by a cause, summed over all threads.
    BlockedBy(Cause),
    /// A figure of CPUs, summed over all CPUs.
    Cpus(Declared<CpuAccount>),
    /// A figure of the whole report, or of the facts about the machine and the program's environment.
    Whole(Whole),
}

/// Declares figures that are not sums: for each its documentation, the name under which a verdict cites it as evidence, and how its value is
/// computed.
macro_rules! whole {
    ($( #[doc = $about:literal] $Name:ident = $name:literal, |$evidence:ident| $value:expr; )*) => {
        /// A figure of the whole report, or of the facts about the machine and the program's environment.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Whole {
            $( #[doc = $about] $Name, )*
        }

        impl Whole {
            /// All figures of this kind.
            pub const ALL: &[Whole] = &[$( Whole::$Name, )*];

            /// Returns the name under which a verdict cites the figure as evidence.
            pub fn name(self) -> &'static str {
                match self {
                    $( Whole::$Name => $name, )*
                }
            }

            /// Returns the figure's description.
            pub fn meaning(self) -> &'static str {
                match self {
                    $( Whole::$Name => $about, )*
                }
            }

            fn value(self, evidence: &Evidence) -> Option<f64> {
                match self {
                    $( Whole::$Name => { let $evidence = evidence; ($value).into() } )*
                }
            }
        }
    };
}

whole! {
    /// Threads, over all processes.
    Threads = "threads", |evidence| evidence.sums.threads as f64;
    /// Worker threads: those that did at least 2 % of the busiest thread's work, or spun, or slept waiting for other threads and were woken often. A main thread that only joins does not count.
    WorkerThreads = "worker_threads", |evidence| evidence.workers.len() as f64;
    /// Thread time: the lifetimes of all threads, added up.
    ThreadNs = "thread_ns", |evidence| evidence.sums.wall_ns as f64;
    /// Wall time of the program that ran longest.
    WallNs = "wall_ns", |evidence| evidence.wall_ns;
    /// The work of the thread that worked most.
    LargestWorkNs = "largest_work_ns", |evidence| evidence.largest_work_ns();
    /// The largest parallel work of a worker thread: its work without serial work, and without the part in which the hypervisor ran something else.
    LargestParallelWorkNs = "largest_parallel_work_ns", |evidence| evidence.largest_parallel_work_ns();
    /// CPUs in use on average: run time of all threads ÷ `wall_ns`.
    AverageCpus = "average_cpus", |evidence| evidence.concurrency.running;
    /// Parallel efficiency (POP), from 0 to 1: the worker threads' work ÷ (worker threads × `wall_ns`). If there are more worker threads than CPUs: the work of all threads ÷ (CPUs that the program may use × `wall_ns`). Absent if there are fewer than two worker threads or several programs, or if spinning is not seen.
    ParallelEfficiency = "parallel_efficiency", |evidence| Efficiency::of(evidence).map(|efficiency| efficiency.parallel);
    /// Load balance (POP), from 0 to 1: mean ÷ largest work of the worker threads. Absent if parallel efficiency is absent, or if that was computed with the number of CPUs instead of worker threads.
    LoadBalance = "load_balance", |evidence| Some(Efficiency::of(evidence)?.parts()?.0);
    /// Serialisation (POP), from 0 to 1: largest work of a worker thread ÷ `wall_ns`. In the rest of the wall time even this thread waited, for other threads or for a CPU. If no messages are transferred, this is POP's communication efficiency. Load balance × serialisation = parallel efficiency. Absent if load balance is absent.
    Serialisation = "serialisation", |evidence| Some(Efficiency::of(evidence)?.parts()?.1);
    /// Thread time spent waiting for CPUs that other tracked threads held.
    TookSiblingNs = "preemptors.sibling", |evidence| evidence.behind.siblings_ns as f64;
    /// Thread time spent waiting for CPUs that cox itself held.
    TookCoxNs = "preemptors.cox", |evidence| evidence.behind.cox_ns as f64;
    /// Thread time spent waiting for CPUs that other programs held.
    TookOtherNs = "preemptors.other", |evidence| evidence.behind.others_ns as f64;
    /// Thread time spent waiting for a CPU that was idle.
    TookIdleNs = "preemptors.idle", |evidence| evidence.behind.idle_ns as f64;
    /// Scheduler events.
    Events = "events", |evidence| evidence.account.events as f64;
    /// Events and records lost.
    LostEvents = "lost_events", |evidence| evidence.account.lost.total() as f64;
    /// How many CPUs the program may use.
    ProgramCpus = "facts.program_cpus", |evidence| evidence.facts.program_cpus().len() as f64;
    /// How many CPUs are online.
    OnlineCpus = "facts.online_cpus", |evidence| evidence.facts.online_cpus.len() as f64;
    /// The control group's quota in CPUs; 0 without a quota.
    CpuQuota = "facts.cpu_quota", |evidence| evidence.facts.quota().unwrap_or(0.0);
    /// Time that the control group's CPUs were throttled.
    ThrottledNs = "facts.throttled_ns", |evidence| evidence.facts.throttled_ns as f64;
    /// Periods in which the control group was throttled.
    NrThrottled = "facts.nr_throttled", |evidence| evidence.facts.nr_throttled as f64;
}

/// The sums that are computed from samples.
const FROM_SAMPLES: [&str; 10] = [
    thread::spin_ns.name,
    thread::spin_error_ns.name,
    thread::kernel_sync_ns.name,
    thread::kernel_sync_error_ns.name,
    thread::kernel_ns.name,
    thread::serial_ns.name,
    thread::serial_error_ns.name,
    thread::samples.name,
    thread::work_ns.name,
    thread::waiting_for_threads_ns.name,
];

impl Figure {
    /// Returns every figure. Figures that are not numbers, or were not read, have no value.
    pub fn all() -> impl Iterator<Item = Figure> {
        let whole = Whole::ALL.iter().copied().map(Figure::Whole);
        // Two sums are left out: lifetimes have a name of their own (`thread_ns`), and blocked time is listed by cause.
        let others = [thread::wall_ns.name, thread::blocked_by.name];
        let sums = thread::ALL.into_iter().filter(move |figure| !others.contains(&figure.name)).map(Figure::Sum);
        let causes = Cause::ALL.into_iter().map(Figure::BlockedBy);
        whole.chain(sums).chain(cpu::ALL.into_iter().map(Figure::Cpus)).chain(causes)
    }

    /// Returns the name under which a verdict cites the figure as evidence.
    pub fn name(&self) -> String {
        match self {
            Figure::Sum(figure) => figure.name.to_owned(),
            Figure::BlockedBy(cause) => format!("blocked_by.{}", cause.name()),
            Figure::Cpus(figure) => format!("cpus.{}", figure.name),
            Figure::Whole(figure) => figure.name().to_owned(),
        }
    }

    /// Returns whether the figure is computed from samples: without any, it says nothing.
    pub fn needs_samples(&self) -> bool {
        match self {
            Figure::Sum(figure) => FROM_SAMPLES.contains(&figure.name),
            Figure::Whole(figure) => matches!(figure, Whole::LargestWorkNs | Whole::LargestParallelWorkNs),
            Figure::BlockedBy(_) | Figure::Cpus(_) => false,
        }
    }

    /// Returns the figure's unit. Times by cause and by preemptor are in nanoseconds, although their names do not end in a unit.
    pub fn unit(&self) -> Unit {
        match self {
            Figure::BlockedBy(_)
            | Figure::Whole(Whole::TookSiblingNs | Whole::TookCoxNs | Whole::TookOtherNs | Whole::TookIdleNs) => {
                Unit::Ns
            }
            other => Unit::of(&other.name()),
        }
    }

    /// Returns the figure's value as a figure of the run; `None` if it is not a number or not known.
    pub fn known(&self, evidence: &Evidence) -> Option<f64> {
        let is_unsampled = evidence.sees.unsampled.is_some() && self.needs_samples();
        self.value(evidence).filter(|_| !is_unsampled)
    }

    /// Returns the value with which a sentence computes: without samples, all run time counts as work, which the sentence says. `None` if the figure is
    /// not a number or not known.
    pub fn value(&self, evidence: &Evidence) -> Option<f64> {
        match self {
            Figure::Sum(figure) => (figure.value)(&evidence.sums).map(|value| value as f64),
            Figure::BlockedBy(cause) => Some(evidence.sums.blocked_by[*cause] as f64),
            Figure::Cpus(figure) => (figure.value)(&evidence.all_cpus).map(|value| value as f64),
            Figure::Whole(figure) => figure.value(evidence),
        }
    }
}

/// Builds a sentence with the figures that support it, without a next step.
pub(crate) fn say(evidence: &Evidence, text: String, figures: &[Figure]) -> Sentence {
    let cited =
        figures.iter().filter_map(|figure| Some(CitedFigure { figure: figure.name(), value: figure.value(evidence)? }));
    Sentence { text, evidence: cited.collect(), next: Vec::new() }
}
