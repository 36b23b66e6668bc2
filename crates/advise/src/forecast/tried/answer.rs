//! From run times to an answer: which way is fastest, if the runs show it, and which ways need more runs if they do not.

use compare::stats::{Estimate, median};
use compare::{few, paired};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::order::{ROUNDS_BEFORE_GIVING_UP, floats};
use super::starts::Start;
use crate::forecast::{Basis, Choice, Forecast, Way};

/// Ways that differ by at most this part take equally long.
const EQUAL: f64 = 0.05;

/// The result of trying the ways. The first way in the list of choices is the fastest one, or may be. The second is the one that may be faster
/// than it by most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// Number of rounds. Each round ran every way once, except those that were slower for certain.
    pub rounds: u64,
    /// What the runs show.
    pub answer: Answer,
    /// The fastest way; absent unless the answer is `fastest`.
    pub fastest: Option<Way>,
    /// Time of the first way ÷ time of the second, estimated from the ratios of all rounds that both have.
    pub ratio: f64,
    /// Ends of the 95 % confidence interval of this ratio.
    pub interval: (f64, f64),
    /// Why other ways were not tried.
    pub notes: Vec<String>,
}

/// What the runs show about the first way and all others, by the intervals of the ratios of their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is fastest: all intervals are below 1.
    Fastest,
    /// No significant difference to the second way, and the interval excludes a difference of more than 5 %.
    Equal,
    /// It may be slower than the fastest way, but by at most 5 %: no interval reaches further.
    NearFastest,
    /// Another way may be faster by more than 5 %: more runs are needed.
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

/// How one way compares with the others.
struct Standing {
    /// The way that takes least time, of those with the most runs: others were given up.
    first: usize,
    /// The other ways, with their ratios to it; the one that may be faster by most comes first.
    others: Vec<(usize, Estimate)>,
    /// Whether all others were given up.
    is_alone: bool,
}

impl Standing {
    /// Compares the ways. `None` if fewer than two have two runs.
    fn of(times_ns: &[&[u64]]) -> Option<Standing> {
        let most = times_ns.iter().map(|times| times.len()).max()?;
        let times: Vec<Vec<f64>> = times_ns.iter().map(|times| floats(times)).collect();
        let candidates = (0..times.len()).filter(|at| times[*at].len() == most);
        let first = candidates.min_by(|one, two| median(&times[*one]).total_cmp(&median(&times[*two])))?;
        let ratio = |at: usize| paired::ratio(&times[first], &times[at]).filter(|ratio| ratio.interval.is_some());
        let others = (0..times.len()).filter(|at| *at != first).filter_map(|at| Some((at, ratio(at)?)));
        // Ways that were given up have wide intervals, but are three times slower. They count if there are no others.
        let is_given_up = |at: usize| most > ROUNDS_BEFORE_GIVING_UP && times[at].len() <= ROUNDS_BEFORE_GIVING_UP;
        let (given_up, mut others): (Vec<_>, Vec<_>) = others.partition(|(at, _)| is_given_up(*at));
        let is_alone = others.is_empty();
        if is_alone {
            others = given_up;
        }
        others.sort_by(|(_, one), (_, two)| high(two).total_cmp(&high(one)));
        (!others.is_empty()).then_some(Standing { first, others, is_alone })
    }
}

/// Returns the upper end of an interval.
fn high(ratio: &Estimate) -> f64 {
    ratio.interval.map_or(f64::INFINITY, |(_, high)| high)
}

/// Returns for each way whether more runs may change the answer: the first way, and all that may be faster than it by more than 5 %. All `false`: it is
/// decided.
#[must_use]
pub fn contenders(times_ns: &[&[u64]]) -> Vec<bool> {
    let mut all = vec![false; times_ns.len()];
    if let Some(Standing { first, others, is_alone: false }) = Standing::of(times_ns) {
        for (at, _) in others.iter().filter(|(_, ratio)| high(ratio) > 1.0 + EQUAL) {
            all[first] = true;
            all[*at] = true;
        }
    }
    all
}

/// Compares the ways of a program with `workers` worker threads on `cpus` CPUs. `None` if fewer than two ways have two runs.
#[must_use]
pub fn answer(workers: u64, cpus: u64, ways: Vec<Timed>, notes: Vec<String>) -> Option<(Forecast, Tried)> {
    let times_ns: Vec<&[u64]> = ways.iter().map(|way| &way.times_ns[..]).collect();
    let Standing { first, others, .. } = Standing::of(&times_ns)?;
    let rounds = times_ns[first].len() as u64;
    let (second, ratio) = *others.first()?;
    let interval = ratio.interval?;
    let answer = match interval {
        (_, high) if high < 1.0 => Answer::Fastest,
        (low, high) if low >= 1.0 / (1.0 + EQUAL) && high <= 1.0 + EQUAL => Answer::Equal,
        (_, high) if high <= 1.0 + EQUAL => Answer::NearFastest,
        _ => Answer::Undecided,
    };
    let mut choices: Vec<(usize, Choice)> = ways.into_iter().map(choice).enumerate().collect();
    let place = |at: usize| [first, second].iter().position(|one| *one == at).unwrap_or(2);
    choices.sort_by_key(|(at, choice)| (place(*at), choice.time_ns, choice.way));
    let choices: Vec<Choice> = choices.into_iter().map(|(_, choice)| choice).collect();
    let fastest = (answer == Answer::Fastest).then_some(choices.first()?.way);
    let tried = Tried { rounds, answer, fastest, ratio: ratio.median, interval, notes };
    Some((Forecast { threads: workers, cpus, bound_ns: 0, choices }, tried))
}

fn choice(Timed { start, times_ns }: Timed) -> Choice {
    let estimate = few::of_times(&floats(&times_ns));
    let extremes = || {
        let ends = (times_ns.iter().min(), times_ns.iter().max());
        (ends.0.map_or(0.0, |ns| *ns as f64), ends.1.map_or(0.0, |ns| *ns as f64))
    };
    let (low, high) = estimate.interval.unwrap_or_else(extremes);
    let runs = times_ns.len() as u64;
    let given_up = runs <= ROUNDS_BEFORE_GIVING_UP as u64;
    let given_up = given_up.then(|| format!("far slower, so only {runs} runs"));
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
    fn no_other_way_is_much_faster() {
        let ways = vec![way(Way::Taskset, &[1000, 1100, 1050]), way(Way::Passive, &[980, 1000, 1000])];
        let (_, tried) = tried(ways);
        assert_eq!((tried.answer, tried.fastest), (Answer::NearFastest, None));
        assert!(tried.interval.0 < 1.0 / 1.05 && (1.0..1.05).contains(&tried.interval.1), "{tried:?}");
    }

    #[test]
    fn the_way_that_may_be_faster_by_most_decides() {
        // The second by its median is slower for certain, the third may be faster.
        let ways = vec![
            way(Way::FewerThreads, &[1000, 1000, 1000]),
            way(Way::Taskset, &[1100, 1101, 1102]),
            way(Way::Passive, &[900, 1200, 1300]),
        ];
        let (forecast, tried) = tried(ways);
        let order: Vec<Way> = forecast.choices.iter().map(|choice| choice.way).collect();
        assert_eq!(tried.answer, Answer::Undecided);
        assert_eq!(order, [Way::FewerThreads, Way::Passive, Way::Taskset]);
    }

    #[test]
    fn only_ways_that_may_be_fastest_need_more_runs() {
        let (fast, slow, wide) = ([1000, 1001, 1002], [1300, 1310, 1305], [900, 1200, 1010]);
        assert_eq!(contenders(&[&slow, &fast, &wide]), [false, true, true]);
        assert_eq!(contenders(&[&slow, &fast]), [false, false]);
        // Of few runs in a fast moment, nobody is first.
        assert!(contenders(&[&[500, 501, 502], &[1000, 1001, 1002, 1003], &[1000, 1300, 900, 1100]])[0]);
        assert_eq!(contenders(&[&fast]), [false]);
        // One that was given up does not contend, however much its two runs differ.
        assert_eq!(contenders(&[&fast, &[3000, 4200], &slow]), [false, false, false]);
        assert_eq!(contenders(&[&fast, &[3000, 4200]]), [false, false]);
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
