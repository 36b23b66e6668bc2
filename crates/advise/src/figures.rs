//! The figures a verdict may rest on. Each has one name, the one in `docs/figures.md`, and one value,
//! taken from the account or the facts; evidence is made from nothing else.

use ledger::account::{cpu, thread};
use ledger::figures::{Figure as Declared, Unit};
use ledger::{CpuAccount, Thread};
use wire::Cause;

use crate::picture::Picture;
use crate::verdict::{Evidence, Sentence};

/// A figure of the report.
#[derive(Clone, Copy, Debug)]
pub enum Figure {
    /// Of threads, added up over all of them.
    Sum(Declared<Thread>),
    /// Time blocked by a cause, added up over all threads.
    BlockedBy(Cause),
    /// Of CPUs, added up over all of them.
    Cpus(Declared<CpuAccount>),
    /// Of the whole, or of its surroundings.
    Whole(Whole),
}

/// Declares figures that are no sums: each with its name in evidence and how it is taken.
macro_rules! whole {
    ($( #[doc = $about:literal] $Name:ident = $name:literal, |$picture:ident| $value:expr; )*) => {
        /// A figure of the whole report, or of its surroundings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Whole {
            $( #[doc = $about] $Name, )*
        }

        impl Whole {
            /// All of them.
            pub const ALL: &[Whole] = &[$( Whole::$Name, )*];

            /// Its name in evidence.
            pub fn name(self) -> &'static str {
                match self {
                    $( Whole::$Name => $name, )*
                }
            }

            /// What it is.
            pub fn meaning(self) -> &'static str {
                match self {
                    $( Whole::$Name => $about, )*
                }
            }

            fn value(self, picture: &Picture) -> f64 {
                match self {
                    $( Whole::$Name => { let $picture = picture; $value } )*
                }
            }
        }
    };
}

whole! {
    /// Threads, over all processes.
    Threads = "threads", |picture| picture.sums.threads as f64;
    /// Worker threads, which carry the program: they did at least 2 % of the busiest thread's work, or spun, or slept for other threads and were woken often. A main thread that only joins is not one.
    CrewThreads = "crew_threads", |picture| picture.crew.len() as f64;
    /// Thread time: the lifetimes of all threads, added up.
    ThreadNs = "thread_ns", |picture| picture.sums.wall_ns as f64;
    /// Wall time of the longest program.
    WallNs = "wall_ns", |picture| picture.wall_ns;
    /// The work of the thread that worked most.
    LargestWorkNs = "largest_work_ns", |picture| picture.busiest().map_or(0, Thread::work_ns) as f64;
    /// Thread time waited behind siblings.
    TookSiblingNs = "preemptors.sibling", |picture| picture.behind.siblings_ns as f64;
    /// Thread time waited behind other programs.
    TookOtherNs = "preemptors.other", |picture| picture.behind.others_ns as f64;
    /// Thread time waited on idle CPUs.
    TookIdleNs = "preemptors.idle", |picture| picture.behind.idle_ns as f64;
    /// Scheduler events.
    Events = "events", |picture| picture.account.events as f64;
    /// Events and records lost.
    LostEvents = "lost_events", |picture| picture.account.lost.total() as f64;
    /// How many CPUs the program may use.
    ProgramCpus = "facts.program_cpus", |picture| picture.facts.program_cpus().len() as f64;
    /// How many CPUs are online.
    OnlineCpus = "facts.online_cpus", |picture| picture.facts.online_cpus.len() as f64;
    /// The control group's quota in CPUs; without one 0.
    CpuQuota = "facts.cpu_quota", |picture| picture.facts.quota().unwrap_or(0.0);
    /// Time that the control group's CPUs were throttled.
    ThrottledNs = "facts.throttled_ns", |picture| picture.facts.throttled_ns as f64;
    /// Periods in which the control group was throttled.
    NrThrottled = "facts.nr_throttled", |picture| picture.facts.nr_throttled as f64;
}

impl Figure {
    /// Every figure. Those that are no numbers, or were not read, have no value.
    pub fn all() -> impl Iterator<Item = Figure> {
        let whole = Whole::ALL.iter().copied().map(Figure::Whole);
        // Of the sums, lifetimes have a name of their own, and causes of blocks have one each.
        let others = [thread::wall_ns.name, thread::blocked_by.name];
        let sums = thread::ALL.into_iter().filter(move |figure| !others.contains(&figure.name)).map(Figure::Sum);
        let causes = Cause::ALL.into_iter().map(Figure::BlockedBy);
        whole.chain(sums).chain(cpu::ALL.into_iter().map(Figure::Cpus)).chain(causes)
    }

    /// Its name in evidence.
    pub fn name(&self) -> String {
        match self {
            Figure::Sum(figure) => figure.name.to_owned(),
            Figure::BlockedBy(cause) => format!("blocked_by.{}", cause.name()),
            Figure::Cpus(figure) => format!("cpus.{}", figure.name),
            Figure::Whole(figure) => figure.name().to_owned(),
        }
    }

    /// Its unit. Times by cause and by holder are called by those alone.
    pub fn unit(&self) -> Unit {
        match self {
            Figure::BlockedBy(_) | Figure::Whole(Whole::TookSiblingNs | Whole::TookOtherNs | Whole::TookIdleNs) => {
                Unit::Ns
            }
            other => Unit::of(&other.name()),
        }
    }

    /// Its value; `None` of what is no number, or is not known.
    pub fn value(&self, picture: &Picture) -> Option<f64> {
        match self {
            Figure::Sum(figure) => (figure.value)(&picture.sums).map(|value| value as f64),
            Figure::BlockedBy(cause) => Some(picture.sums.blocked_by[*cause] as f64),
            Figure::Cpus(figure) => (figure.value)(&picture.all_cpus).map(|value| value as f64),
            Figure::Whole(figure) => Some(figure.value(picture)),
        }
    }
}

/// A sentence with the figures it rests on, and no next step yet.
pub(crate) fn say(picture: &Picture, text: String, figures: &[Figure]) -> Sentence {
    let evidence =
        figures.iter().filter_map(|figure| Some(Evidence { figure: figure.name(), value: figure.value(picture)? }));
    Sentence { text, evidence: evidence.collect(), next: Vec::new() }
}
