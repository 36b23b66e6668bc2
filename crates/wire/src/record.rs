//! The result of an observation: plain data, in the same shape for all backends.

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

use crate::cells::Levels;
use crate::{Clock, Cpu, LatencyCount, Pair, PairSum, Preemptor, TrackedThreads};

/// The backend that observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// eBPF programs on the scheduler's tracepoints: everything is seen.
    #[default]
    Bpf,
    /// perf's context-switch records: no wake-ups (wake delay is part of blocked), no causes, no account of what each CPU did.
    Perf,
    /// Polling of /proc: run time and run delay of threads that live long enough; run delay is not split into wake delay and preempt wait.
    Proc,
    /// A recording of `perf sched record`: switches and wake-ups. No causes; of a CPU, only the threads that ran on it are known.
    PerfData,
}

impl Backend {
    /// Returns the backend's name: `bpf`, `perf`, `proc`, `perf-data`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Bpf => "bpf",
            Backend::Perf => "perf",
            Backend::Proc => "proc",
            Backend::PerfData => "perf-data",
        }
    }
}

/// Why the code at a sampled place counts as waiting for other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// An OpenMP runtime's barrier, lock or idle loop.
    OpenMp,
    /// An MPI library's progress loop.
    Mpi,
    /// A pthread spin lock, or the spinning phase of an adaptive mutex.
    PthreadSpin,
    /// A loop that only tests memory, recognised from the machine code.
    TightLoop,
    /// Inside sched_yield.
    Yield,
    /// In the kernel, inside a futex system call: going to sleep until another thread wakes this one, or waking another thread.
    Futex,
}

impl Waiting {
    /// All values, in order.
    pub const ALL: [Waiting; 6] =
        [Waiting::OpenMp, Waiting::Mpi, Waiting::PthreadSpin, Waiting::TightLoop, Waiting::Yield, Waiting::Futex];

    /// Returns whether the thread would go on waiting like this until another thread does something: spinning. False for a futex system call, which
    /// only begins or ends a wait.
    pub fn is_spinning(self) -> bool {
        self != Waiting::Futex
    }

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Waiting::OpenMp => "OpenMP runtime",
            Waiting::Mpi => "MPI progress",
            Waiting::PthreadSpin => "pthread spin lock",
            Waiting::TightLoop => "tight loop",
            Waiting::Yield => "sched_yield",
            Waiting::Futex => "futex system call",
        }
    }
}

/// Samples of one thread at one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleSite {
    /// The thread's id.
    pub tid: u32,
    /// The thread's process.
    pub tgid: u32,
    /// Number of samples.
    pub samples: u64,
    /// How many of `samples` were taken in the kernel: in a system call of this function, in a page fault, or in an interrupt.
    pub in_kernel: u64,
    /// How many of `samples` show serial work: the function ran in this thread alone, while no other observed thread worked. 0 if the samples of
    /// different CPUs were not taken at the same time.
    pub serial: u64,
    /// File name of the mapping, without its folder; `[unknown]` if the process was gone before it could be read.
    pub module: String,
    /// Name of the function, if the file contains it.
    pub function: Option<String>,
    /// Why the code at this place counts as waiting for other threads; `None`: it counts as work, as far as is known.
    pub waiting: Option<Waiting>,
}

/// What was lost, by kind. All zero in a good session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Pod, Zeroable)]
#[repr(C)]
pub struct Losses {
    /// Scheduler events that were not handled (recursion in BPF, LOST records of perf).
    pub events: u64,
    /// Threads that cox could not begin to track (enrol).
    pub members: u64,
    /// Threads whose final account was lost because the ring was full; their times are in [`Record::unlisted`].
    pub finals: u64,
    /// Samples that were lost because the ring was full.
    pub samples: u64,
    /// Wake-ups that are missing in [`Record::pairs`] because the table was full.
    pub pairs: u64,
    /// Thread time spent waiting for untracked threads that are missing in [`Record::preemptors`] because the table was full, nanoseconds.
    pub preemptors_ns: u64,
    /// How often an update of CPUs' idle times was given up, because of contention or because there were too many distinct affinity masks. (Idle time
    /// is divided into idle while a tracked thread waited, idle while one was blocked, and the rest.)
    pub idle_split: u64,
    /// Trace events that were lost, because the ring was full.
    pub trace_events: u64,
}

impl Losses {
    /// Returns whether the time or identity of a thread was lost, not just a name or a sample.
    pub fn spoil_accounts(&self) -> bool {
        self.events > 0 || self.members > 0 || self.finals > 0
    }
}

/// The clock (account of times) of a living thread. Its last interval is still open; it is counted up to `until_ns`, the time at which the clock was
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Living {
    /// Time at which the clock was read.
    pub until_ns: u64,
    /// The clock.
    pub clock: Clock,
}

/// Everything that an observer saw.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The backend that observed.
    pub backend: Backend,
    /// Start of the window, nanoseconds on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// End of the window, nanoseconds on CLOCK_MONOTONIC.
    pub end_ns: u64,
    /// Complete clocks (accounts of threads, without an open interval): those of threads that died, and those that the backend itself has brought up
    /// to `end_ns`.
    pub clocks: Vec<Clock>,
    /// Clocks (accounts of times) of living threads. Each has an interval that is still open, and comes with the time at which the clock
    /// was read.
    pub living: Vec<Living>,
    /// The accounts of CPUs, by number; empty if the backend does not see CPUs.
    pub cpus: Vec<Cpu>,
    /// The state of all tracked threads together at `end_ns`: time integrals, and counters of what was lost.
    pub tracked: TrackedThreads,
    /// For each number of CPUs, the time for which more CPUs than that were busy with tracked threads. Filled by backends that report events but
    /// have no accounts of CPUs; for the others, `cpus` and `tracked` contain these times.
    pub levels: Levels,
    /// Untracked threads that held CPUs for which tracked threads waited, by tid.
    pub preemptors: Vec<(u32, Preemptor)>,
    /// Ids of cox's own processes in this session: cox itself, and each cox-observe that it started.
    pub own_processes: Vec<u32>,
    /// Which thread woke which.
    pub pairs: Vec<(Pair, PairSum)>,
    /// Sum of the clocks of threads that ended while the ring buffer was full (see [`Losses::finals`]).
    pub unlisted: Clock,
    /// Histograms of interval lengths: one set for each thread that has its own ([`Clock::place`]), and one set for each program, for all other
    /// threads.
    pub latencies: Vec<LatencyCount>,
    /// Number of programs that have histograms, the first ones; 0 if the backend does not see intervals.
    pub latencies_of_programs: u32,
    /// Whether the observer was asked for histograms of threads.
    pub latencies_of_threads: bool,
    /// True if the record was made from a recording without wake-ups. Blocked time then contains the wake delay.
    pub lacks_wakings: bool,
    /// Sampled places, symbolised.
    pub sample_sites: Vec<SampleSite>,
    /// Time between samples on a CPU, nanoseconds; 0 if no samples were taken.
    pub sample_period_ns: u64,
    /// Number of scheduler events seen.
    pub events: u64,
    /// Time in the observer's own kernel code, estimated from the events that were timed; `None`: not measurable.
    pub kernel_cost_ns: Option<u64>,
    /// What was lost.
    pub losses: Losses,
}

impl Record {
    /// Element k of the result is the time for which more than k CPUs were busy with tracked threads; `None` if these times are not known.
    pub fn busy_more_than_ns(&self) -> Option<Vec<u64>> {
        let kept = Levels { busy: self.tracked.busy as usize, words: self.cpus.iter().map(|cpu| cpu.level).collect() };
        let levels = if self.cpus.is_empty() { &self.levels } else { &kept };
        levels.more_than_ns(self.start_ns, self.end_ns)
    }

    /// Makes an empty record of `backend` over a window.
    pub fn new(backend: Backend, start_ns: u64, end_ns: u64) -> Record {
        Record { backend, start_ns, end_ns, ..Record::default() }
    }
}
