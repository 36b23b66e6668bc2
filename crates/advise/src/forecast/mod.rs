//! What a program would take on fewer CPUs than it has threads: with fewer threads, packed, waiting asleep,
//! or just put there by taskset. Pure: what was measured or simulated is handed in.
//!
//! Two ways to know:
//!
//! - [`measured`]: the program runs once, on those CPUs, and the ways that can be changed while it runs have
//!   windows in turn. Each way's *efficiency* is the useful part of the CPUs' time in its windows, and its time
//!   is the run's useful work divided by that. Useful is what was neither spent waiting in loops nor on going
//!   to sleep and waking others.
//! - [`modelled`]: only an account of `cox run` is there. It says how much work there is and how threads wait,
//!   and, if they sleep, how long phases are; a simulator says the rest.
//!
//! *Turned down:* running the program once for each option: advice on a job of hours would take as many times
//! as long as the job. The model also for a command: phases of threads that wait in loops show in no
//! account, and what the kernel makes of such threads differs by a factor of ten between 0.2 and 10 ms.
//! Comparing elapsed times of windows without samples: windows do different parts of the work, and a thread
//! that waits in a loop is as busy as one that works.

mod estimate;
pub mod measured;
pub mod modelled;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A way to run a program on fewer CPUs, the simpler ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// As many threads as CPUs.
    FewerThreads,
    /// taskset(1): the kernel places the threads.
    Taskset,
    /// OMP_WAIT_POLICY=passive: threads wait asleep.
    Passive,
    /// `cox pack`.
    Packing,
}

/// Whether the program can be told how many threads to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Accepts {
    /// It uses an OpenMP runtime or was given OMP_NUM_THREADS.
    Yes,
    /// Nothing says so.
    #[default]
    Unknown,
}

/// How a forecast's figures are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// From windows of a run.
    Measured,
    /// From a model.
    Modelled,
}

/// What one way would take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// Which.
    pub way: Way,
    /// Threads it would run with.
    pub threads: u64,
    /// Most likely.
    pub time_ns: u64,
    /// It should not be less …
    pub low_ns: u64,
    /// … nor more.
    pub high_ns: u64,
    /// Bound ÷ time.
    pub of_bound: f64,
    /// Whether this figure was measured, or modelled.
    pub basis: Basis,
    /// What there is to know about it.
    pub note: Option<String>,
}

/// What a program would take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// Threads that carry it.
    pub threads: u64,
    /// CPUs it is to have.
    pub cpus: u64,
    /// All useful work on all those CPUs: nothing is faster.
    pub bound_ns: u64,
    /// The ways, fastest first.
    pub choices: Vec<Choice>,
}

/// Why there is no forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// One thread does the work.
    SingleThreaded,
    /// There is a CPU for each thread.
    NothingToPack {
        /// Threads.
        threads: u64,
        /// CPUs.
        cpus: u64,
    },
    /// The program ended before all ways had their windows.
    TooShort {
        /// How long there were more threads than CPUs.
        crowded_ns: u64,
    },
    /// Waiting in loops cannot be told from work.
    Blind,
    /// What the account holds cannot be relied on.
    Lossy,
    /// The run was packed: what the kernel makes of the program did not show.
    Packed,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::numbers::{counted, duration};
        match *self {
            Refusal::SingleThreaded => write!(f, "the work is done by one thread: nothing to pack"),
            Refusal::NothingToPack { threads, cpus } => {
                write!(f, "{} on {}: nothing to pack", counted(threads, "working thread"), counted(cpus, "CPU"))
            }
            Refusal::TooShort { crowded_ns } => write!(
                f,
                "too short to tell: it had more threads than CPUs for {}; trying each way takes up to 2 s",
                duration(crowded_ns)
            ),
            Refusal::Blind => {
                write!(f, "the run's backend does not see waiting in loops; record it with cox run --backend bpf")
            }
            Refusal::Packed => write!(f, "the run was packed; record it with cox run, without --pack-cpus"),
            Refusal::Lossy => write!(f, "the run lost threads or events: its sums say nothing; record it again"),
        }
    }
}

impl Forecast {
    /// Sorts ways by time; of ways that take the same the simpler comes first.
    fn new(threads: u64, cpus: u64, bound_ns: f64, mut choices: Vec<Choice>) -> Forecast {
        // A thousandth is no difference.
        let time = |choice: &Choice| (choice.time_ns as f64 / bound_ns.max(1.0) * 1e3).round() as u64;
        choices.sort_by_key(|choice| (time(choice), choice.way));
        Forecast { threads, cpus, bound_ns: bound_ns as u64, choices }
    }
}

impl Choice {
    /// `low`, `likely` and `high` in ns; nothing is below the bound.
    fn new(way: Way, threads: u64, bound_ns: f64, [low, likely, high]: [f64; 3], basis: Basis) -> Choice {
        let likely = likely.max(bound_ns);
        let (low, high) = (low.clamp(bound_ns, likely), high.max(likely));
        let of_bound = bound_ns / likely.max(1.0);
        let [low_ns, time_ns, high_ns] = [low, likely, high].map(|ns| ns as u64);
        Choice { way, threads, time_ns, low_ns, high_ns, of_bound, basis, note: None }
    }

    fn noting(mut self, note: impl Into<String>) -> Choice {
        self.note = Some(note.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simpler_of_equals_comes_first_and_nothing_beats_the_bound() {
        let choice = |way, ns: f64| Choice::new(way, 3, 100e6, [ns * 0.9, ns, ns * 1.1], Basis::Measured);
        let ways = [choice(Way::Packing, 120.01e6), choice(Way::Taskset, 120e6), choice(Way::FewerThreads, 90e6)];
        let forecast = Forecast::new(3, 2, 100e6, ways.to_vec());
        let order: Vec<Way> = forecast.choices.iter().map(|choice| choice.way).collect();
        assert_eq!(order, [Way::FewerThreads, Way::Taskset, Way::Packing]);
        let fewer = &forecast.choices[0];
        assert_eq!((fewer.low_ns, fewer.time_ns, fewer.high_ns), (100_000_000, 100_000_000, 100_000_000));
        assert_eq!(forecast.choices[1].of_bound, 100.0 / 120.0);
    }

    #[test]
    fn refusals_take_one_line() {
        let refusals = [
            (Refusal::SingleThreaded, "one thread"),
            (Refusal::NothingToPack { threads: 2, cpus: 4 }, "2 working threads on 4 CPUs"),
            (Refusal::TooShort { crowded_ns: 300_000_000 }, "for 0.30 s"),
            (Refusal::Blind, "--backend bpf"),
            (Refusal::Lossy, "lost"),
            (Refusal::Packed, "without --pack-cpus"),
        ];
        for (refusal, part) in refusals {
            let text = refusal.to_string();
            assert!(text.contains(part) && !text.contains('\n') && !text.contains("  "), "{text}");
        }
    }
}
