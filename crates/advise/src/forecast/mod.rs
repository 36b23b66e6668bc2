//! Forecasts how long a program takes on fewer CPUs than it has threads: with fewer threads, packed, or only restricted by taskset. Pure:
//! callers provide the measurements or the results of a simulation.
//!
//! There are three bases:
//!
//! - [`measured`]: the program runs once on those CPUs. The ways between which cox can switch at run time take turns in windows. A way's *efficiency*
//!   is the useful part of the CPUs' time in its windows. The forecast time of a way is the run's useful work divided by this efficiency. CPU time is
//!   useful if it is not spent on spinning, on going to sleep or on waking others.
//! - [`modelled`]: there is only an account of `cox run`. It gives the amount of work, how threads wait, and, if they sleep, the length of phases; a
//!   simulator computes the rest.
//! - [`tried`]: the program runs several times in each way, so nothing is forecast: the times are measured. For programs that can be run again.
//!
//! Rejected alternatives:
//!
//! - Always running the program in each way: advice on a job of several hours would take many times as long as the job. So users ask for it.
//! - Using the model for commands, too: no account shows how long the phases of spinning threads are, but the loss of such threads under the kernel's
//!   scheduler differs by a factor of ten between phases of 0.2 and 10 ms.
//! - A model of passive waiting: its cost is the number of waits × the time to wake a thread, and the account of spinning threads shows neither. The
//!   model said 0.47 s for LULESH, which took 2.33 s, and LLVM's runtime was up to five times slower than without the policy.
//! - Comparing the elapsed times of windows without samples: windows do different parts of the work, and a spinning thread is as busy as a working
//!   one.

mod estimate;
pub mod measured;
pub mod modelled;
pub mod tried;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::numbers::{counted, duration};

/// A way to run a program on fewer CPUs. The variants are ordered by simplicity, the simplest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// OMP_NUM_THREADS=1: start one thread. Only if the ways are tried.
    OneThread,
    /// Start as many threads as CPUs.
    FewerThreads,
    /// Start as many ranks as CPUs. Only if the ways are tried.
    Ranks,
    /// taskset(1): the kernel places the threads.
    Taskset,
    /// OMP_WAIT_POLICY=passive: waiting threads sleep. Only if the ways are tried.
    Passive,
    /// OMP_WAIT_POLICY=active: waiting threads spin. Only if the ways are tried.
    Active,
    /// Packing by `cox pack`.
    Packing,
}

/// How the figures of a forecast were obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The figures were measured, in windows of a run or in whole runs.
    Measured,
    /// The figures were computed with a model.
    Modelled,
}

/// The forecast for one way to run the program, such as `cox pack` or fewer threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// The way to run the program.
    pub way: Way,
    /// Number of threads; of ranks, if each rank is one thread.
    pub threads: u64,
    /// Most likely time, in nanoseconds. If the ways were tried, the median of the runs.
    pub time_ns: u64,
    /// Lower end of the range, in nanoseconds. If the ways were tried, of the median's 95 % interval; with two runs, one of these.
    pub low_ns: u64,
    /// Upper end of the range, in nanoseconds. If the ways were tried, of the median's 95 % interval; with two runs, one of these.
    pub high_ns: u64,
    /// Bound ÷ most likely time; 0 if the ways were tried.
    pub of_bound: f64,
    /// Whether this time was measured or modelled.
    pub basis: Basis,
    /// Remark for the reader.
    pub note: Option<String>,
    /// Number of runs in this way; absent unless the ways were tried.
    #[serde(default)]
    pub runs: Option<u64>,
    /// Wall time of each of these runs, in nanoseconds, in the order of the rounds.
    #[serde(default)]
    pub runs_ns: Vec<u64>,
}

/// The forecast for a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// Number of worker threads.
    pub threads: u64,
    /// Number of CPUs that the program would have.
    pub cpus: u64,
    /// Lower bound of the time, in nanoseconds: the time for all useful work if it keeps all CPUs busy. In a measured forecast, parts of the run with
    /// a CPU for each thread keep their measured length. 0 if the ways were tried: measured times need no bound.
    pub bound_ns: u64,
    /// The ways to run the program, fastest first.
    pub choices: Vec<Choice>,
}

/// Why there is no forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// One thread does all the work.
    #[error("the work is done by one thread: nothing to pack")]
    SingleThreaded,
    /// There is a CPU for each thread.
    #[error("{} on {}: nothing to pack", counted(*threads, "working thread"), counted(*cpus, "CPU"))]
    NothingToPack {
        /// Number of threads.
        threads: u64,
        /// Number of CPUs.
        cpus: u64,
    },
    /// The program ended before cox had measured all ways.
    #[error("the run was too short: it had more threads than CPUs for only {}, and to measure each way of running it takes up to 2 s", duration(*oversubscribed_ns))]
    TooShort {
        /// How long there were more threads than CPUs, in nanoseconds.
        oversubscribed_ns: u64,
    },
    /// The backend cannot distinguish spinning from work.
    #[error("the run's backend does not measure spinning; record the run with cox run --backend bpf")]
    Blind,
    /// No samples were taken, so spinning cannot be distinguished from work.
    #[error(
        "the run was recorded with --noise, which takes no samples, so spinning was not measured; record it without --noise"
    )]
    Unsampled,
    /// The account is not reliable: threads or events were lost.
    #[error("threads or events of the run were lost, so its sums are not reliable; record it again")]
    Lossy,
    /// To try the ways: one thread does all the work, and cox does not know how to give it more threads.
    #[error("one thread does all the work, and cox does not know how to start more: there are no ways to try")]
    Serial,
    /// To try the ways: a run is too short to be compared with others.
    #[error("too short: the run took {}; ways are compared from {} on", duration(*elapsed_ns), duration(tried::LEAST_NS))]
    TooBrief {
        /// Length of the run, in nanoseconds.
        elapsed_ns: u64,
    },
    /// To try the ways: there is only one.
    #[error("there is no other way to try: {0}")]
    OneWay(&'static str),
    /// The run was packed, so the account does not show how the program runs under the kernel's scheduler alone.
    #[error("the run was packed; record it with cox run, without --pack-cpus")]
    Packed,
}

impl Forecast {
    /// Sorts the ways by time; of ways with equal times the simpler one comes first.
    fn new(threads: u64, cpus: u64, bound_ns: f64, mut choices: Vec<Choice>) -> Forecast {
        // Times that differ by less than a thousandth of the bound count as equal.
        let time = |choice: &Choice| (choice.time_ns as f64 / bound_ns.max(1.0) * 1e3).round() as u64;
        choices.sort_by_key(|choice| (time(choice), choice.way));
        Forecast { threads, cpus, bound_ns: bound_ns as u64, choices }
    }
}

impl Choice {
    /// Builds the forecast for one way to run the program. `low`, `likely` and `high` are its times in ns; a time below the lower bound `bound_ns` is
    /// raised to this bound.
    fn new(way: Way, threads: u64, bound_ns: f64, [low, likely, high]: [f64; 3], basis: Basis) -> Choice {
        let likely = likely.max(bound_ns);
        let (low, high) = (low.clamp(bound_ns, likely), high.max(likely));
        let of_bound = bound_ns / likely.max(1.0);
        let [low_ns, time_ns, high_ns] = [low, likely, high].map(|ns| ns as u64);
        Choice { way, threads, time_ns, low_ns, high_ns, of_bound, basis, note: None, runs: None, runs_ns: Vec::new() }
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
            (Refusal::TooShort { oversubscribed_ns: 300_000_000 }, "for only 0.30 s"),
            (Refusal::Blind, "--backend bpf"),
            (Refusal::Unsampled, "recorded with --noise"),
            (Refusal::Lossy, "lost"),
            (Refusal::Packed, "without --pack-cpus"),
            (Refusal::Serial, "one thread"),
            (Refusal::TooBrief { elapsed_ns: 51_000_000 }, "took 51 ms; ways are compared from 0.10 s on"),
            (Refusal::OneWay("why"), "no other way to try: why"),
        ];
        for (refusal, part) in refusals {
            let text = refusal.to_string();
            assert!(text.contains(part) && !text.contains('\n') && !text.contains("  "), "{text}");
        }
    }
}
