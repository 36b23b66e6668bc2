//! What an observer yields at the end of a session: plain data, one shape for all backends.

use serde::{Deserialize, Serialize};

use crate::cells::Levels;
use crate::{Clock, Cpu, Crew, Pair, PairSum, Taker};

/// Who observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// eBPF programs on the scheduler's tracepoints: everything is seen.
    Bpf,
    /// perf context-switch records: no wakings (wake delay is inside blocked), no causes, no CPUs.
    Perf,
    /// /proc polled: run and run delay of what lives long enough; no division of the delay.
    Proc,
    /// A recording of `perf sched record`: switches and wakings; no causes, and nothing of what CPUs did but by threads.
    PerfData,
}

impl Backend {
    /// `bpf`, `perf`, `proc`, `perf-data`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Bpf => "bpf",
            Backend::Perf => "perf",
            Backend::Proc => "proc",
            Backend::PerfData => "perf-data",
        }
    }
}

/// Why the code at a place counts as waiting for other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// An OpenMP runtime's barrier, lock or idle loop.
    OpenMp,
    /// An MPI library's progress loop.
    Mpi,
    /// A pthread spin lock, or the spinning phase of an adaptive mutex.
    PthreadSpin,
    /// A loop that does nothing but test memory: found in the machine code.
    TightLoop,
    /// Inside sched_yield.
    Yield,
}

impl Waiting {
    /// All, in order.
    pub const ALL: [Waiting; 5] =
        [Waiting::OpenMp, Waiting::Mpi, Waiting::PthreadSpin, Waiting::TightLoop, Waiting::Yield];

    /// What the report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Waiting::OpenMp => "OpenMP runtime",
            Waiting::Mpi => "MPI progress",
            Waiting::PthreadSpin => "pthread spin lock",
            Waiting::TightLoop => "tight loop",
            Waiting::Yield => "sched_yield",
        }
    }
}

/// Samples of one thread at one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleSite {
    /// Thread.
    pub tid: u32,
    /// Process.
    pub tgid: u32,
    /// How many samples.
    pub samples: u64,
    /// … of which in the kernel, on behalf of this place.
    pub in_kernel: u64,
    /// File name of the mapping, without its folders; `[unknown]` when the process was gone first.
    pub module: String,
    /// Function, when the file names it.
    pub function: Option<String>,
    /// Why this counts as waiting; `None`: work, as far as anybody can tell.
    pub waiting: Option<Waiting>,
}

/// What could not be kept, by kind. All zero in a good session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Scheduler events that were not handled (recursion in BPF, LOST records of perf).
    pub events: u64,
    /// Threads that could not be enrolled.
    pub members: u64,
    /// Threads whose final account found no room; their times are in the program's `unlisted` sum.
    pub finals: u64,
    /// Samples that found no room.
    pub samples: u64,
    /// Wake-ups whose pair found no room.
    pub pairs: u64,
    /// Thread-time behind strangers whose name found no room, ns.
    pub takers_ns: u64,
    /// Updates of the idle split given up under contention, or under too many distinct masks.
    pub idle_split: u64,
    /// Moments of a trace that found no room.
    pub moments: u64,
}

impl Losses {
    /// Whether time or identity of a thread was lost (not merely a name or a sample).
    pub fn spoil_accounts(&self) -> bool {
        self.events > 0 || self.members > 0 || self.finals > 0
    }
}

/// A living thread's clock as it was read; its open interval ends at `until_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Living {
    /// The clock.
    pub clock: Clock,
    /// When it was read.
    pub until_ns: u64,
}

/// Everything an observer saw.
#[derive(Clone, Debug)]
pub struct Record {
    /// Who observed.
    pub backend: Backend,
    /// Begin and end of the window.
    pub start_ns: u64,
    /// End of the window.
    pub end_ns: u64,
    /// Final clocks of threads that died, and clocks that the observer has closed itself.
    pub clocks: Vec<Clock>,
    /// Clocks of threads that live, each with the moment it was read.
    pub living: Vec<Living>,
    /// By CPU number; empty where the backend cannot see CPUs.
    pub cpus: Vec<Cpu>,
    /// Cells that are open at `end_ns`, and loss counters.
    pub crew: Crew,
    /// For how long how many CPUs were busy with tracked threads, from a backend that sees events but not CPUs. Else `cpus` and `crew` have it.
    pub levels: Levels,
    /// Strangers that held CPUs members waited for, by tid.
    pub takers: Vec<(u32, Taker)>,
    /// Who woke whom.
    pub pairs: Vec<(Pair, PairSum)>,
    /// Sums of the clocks that found no room (see [`Losses::finals`]).
    pub unlisted: Clock,
    /// Sampled places, symbolised.
    pub sample_sites: Vec<SampleSite>,
    /// Time between samples on a CPU, 0 when none were taken.
    pub sample_period_ns: u64,
    /// Scheduler events seen.
    pub events: u64,
    /// Time the observer's own kernel code took, estimated from timed events; `None`: not measurable.
    pub kernel_cost_ns: Option<u64>,
    /// What was lost.
    pub losses: Losses,
}

impl Record {
    /// Returns for each k how long more than k CPUs were busy with tracked threads; `None` if that is not known.
    pub fn busy_more_than_ns(&self) -> Option<Vec<u64>> {
        let kept = Levels { busy: self.crew.busy as usize, words: self.cpus.iter().map(|cpu| cpu.level).collect() };
        let levels = if self.cpus.is_empty() { &self.levels } else { &kept };
        levels.more_than_ns(self.start_ns, self.end_ns)
    }

    /// An empty record of `backend` over a window.
    pub fn new(backend: Backend, start_ns: u64, end_ns: u64) -> Record {
        Record {
            backend,
            start_ns,
            end_ns,
            clocks: Vec::new(),
            living: Vec::new(),
            cpus: Vec::new(),
            crew: bytemuck::Zeroable::zeroed(),
            levels: Levels::default(),
            takers: Vec::new(),
            pairs: Vec::new(),
            unlisted: Clock::default(),
            sample_sites: Vec::new(),
            sample_period_ns: 0,
            events: 0,
            kernel_cost_ns: None,
            losses: Losses::default(),
        }
    }
}
