//! From run times to an answer: which way is fastest, if the runs show it.

use compare::{few, paired};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::order::floats;
use super::starts::Start;
use crate::forecast::{Basis, Choice, Forecast, Way};

/// Ways that differ by at most this part take equally long.
const EQUAL: f64 = 0.05;

/// The result of trying the ways. The two fastest ways are the first two in the list of choices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// Number of rounds. Each round ran every way once, except those that were far slower.
    pub rounds: u64,
    /// What the runs show.
    pub answer: Answer,
    /// The fastest way; absent unless the answer is `fastest`.
    pub fastest: Option<Way>,
    /// Time of the fastest way ÷ time of the second fastest, estimated from the ratios of all rounds.
    pub ratio: f64,
    /// Ends of the 95 % confidence interval of this ratio.
    pub interval: (f64, f64),
    /// Why other ways were not tried.
    pub notes: Vec<String>,
}

/// What the runs show about the two fastest ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// One way is fastest: the interval of the ratio is below 1.
    Fastest,
    /// No significant difference, and the interval excludes a difference of more than 5 %.
    Equal,
    /// No significant difference, but there may be one of more than 5 %: more runs are needed.
    Undecided,
}

/// A way with the times of its runs.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The way.
    pub start: Start,
    /// Wall time of each run, in nanoseconds, in the order of the rounds.
    pub times_ns: Vec<u64>,
}

/// Compares the ways of a program with `workers` worker threads on `cpus` CPUs. `None` if fewer than two ways have two runs.
#[must_use]
pub fn answer(workers: u64, cpus: u64, ways: Vec<Timed>, notes: Vec<String>) -> Option<(Forecast, Tried)> {
    let rounds = ways.iter().map(|way| way.times_ns.len()).max().unwrap_or(0) as u64;
    let mut choices: Vec<Choice> = ways.into_iter().map(|way| choice(way, rounds)).collect();
    choices.sort_by_key(|choice| (choice.time_ns, choice.way));
    let [first, second, ..] = &choices[..] else { return None };
    let ratio = paired::ratio(&floats(&first.runs_ns), &floats(&second.runs_ns))?;
    let interval = ratio.interval?;
    let answer = match interval {
        (_, high) if high < 1.0 => Answer::Fastest,
        (low, high) if low >= 1.0 / (1.0 + EQUAL) && high <= 1.0 + EQUAL => Answer::Equal,
        _ => Answer::Undecided,
    };
    let fastest = (answer == Answer::Fastest).then_some(first.way);
    let tried = Tried { rounds, answer, fastest, ratio: ratio.median, interval, notes };
    Some((Forecast { threads: workers, cpus, bound_ns: 0, choices }, tried))
}

fn choice(Timed { start, times_ns }: Timed, rounds: u64) -> Choice {
    let estimate = few::of_times(&floats(&times_ns));
    let extremes = || {
        let ends = (times_ns.iter().min(), times_ns.iter().max());
        (ends.0.map_or(0.0, |ns| *ns as f64), ends.1.map_or(0.0, |ns| *ns as f64))
    };
    let (low, high) = estimate.interval.unwrap_or_else(extremes);
    let runs = times_ns.len() as u64;
    let given_up = (runs < rounds).then(|| format!("far slower, so only {runs} runs"));
    let remarks: Vec<String> = start.note.into_iter().chain(given_up).collect();
    Choice {
        way: start.way,
        threads: start.threads,
        time_ns: estimate.median as u64,
        low_ns: low as u64,
        high_ns: high as u64,
        of_bound: 0.0,
        basis: Basis::Measured,
        note: (!remarks.is_empty()).then(|| remarks.join(", ")),
        runs: Some(runs),
        runs_ns: times_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(way: Way, times_ms: &[u64]) -> Timed {
        let start = Start { way, threads: 3, command: Vec::new(), variables: Vec::new(), note: None };
        Timed { start, times_ns: times_ms.iter().map(|ms| ms * 1_000_000).collect() }
    }

    fn tried(ways: Vec<Timed>) -> (Forecast, Tried) {
        answer(3, 2, ways, Vec::new()).unwrap()
    }

    #[test]
    fn a_way_that_is_faster_in_each_round_is_the_fastest() {
        let ways = vec![way(Way::Taskset, &[1300, 1310, 1290]), way(Way::FewerThreads, &[1000, 1010, 990])];
        let (forecast, tried) = tried(ways);
        assert_eq!((tried.answer, tried.fastest), (Answer::Fastest, Some(Way::FewerThreads)));
        assert!((tried.ratio - 1.0 / 1.3).abs() < 0.01 && tried.interval.1 < 0.8, "{tried:?}");
        let first = &forecast.choices[0];
        assert_eq!((first.time_ns, first.runs), (1_000_000_000, Some(3)));
        assert!(first.low_ns < first.time_ns && first.time_ns < first.high_ns && first.high_ns < 1_030_000_000);
    }

    #[test]
    fn a_slow_machine_in_one_round_hides_nothing() {
        let ways = vec![way(Way::Taskset, &[1100, 2200, 1105]), way(Way::FewerThreads, &[1000, 2000, 1000])];
        assert_eq!(tried(ways).1.answer, Answer::Fastest);
    }

    #[test]
    fn three_rounds_in_one_order_are_not_enough() {
        // Faster each time, which happens by chance in one case of four.
        let ways = vec![way(Way::Taskset, &[1010, 1300, 1050]), way(Way::FewerThreads, &[1000, 1000, 1000])];
        let (_, tried) = tried(ways);
        assert_eq!((tried.answer, tried.fastest), (Answer::Undecided, None));
    }

    #[test]
    fn a_small_difference_is_told_from_an_unknown_one() {
        let ways = vec![way(Way::Taskset, &[1000, 1003, 999]), way(Way::Passive, &[1001, 1000, 1002])];
        let (_, tried) = tried(ways);
        assert_eq!((tried.answer, tried.fastest), (Answer::Equal, None));
    }

    #[test]
    fn a_way_that_was_given_up_counts_with_the_rounds_it_has() {
        let ways = vec![way(Way::Taskset, &[4000, 4100]), way(Way::FewerThreads, &[1000, 1010, 990])];
        let (forecast, tried) = tried(ways);
        assert_eq!((tried.rounds, tried.answer), (3, Answer::Fastest));
        let second = &forecast.choices[1];
        assert_eq!((second.runs, second.low_ns, second.high_ns), (Some(2), 4_000_000_000, 4_100_000_000));
        assert!(forecast.choices[1].note.as_deref().unwrap().contains("only 2 runs"));
        assert!(answer(3, 2, vec![way(Way::Taskset, &[1000, 1000, 1000])], Vec::new()).is_none());
    }
}
