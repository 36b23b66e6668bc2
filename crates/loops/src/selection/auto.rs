//! Trials in rounds: finds the fastest schedule with evidence, and with few instances of slow ones.
//!
//!  1. A *round* is one instance with each schedule that is still in question. The first round is in the order of the
//!     portfolio, from the lowest overhead on. No schedule can save more than imbalance and requests cost. So if these
//!     cost less than [`LITTLE`] with a schedule, and again when it is repeated, those with more overhead are not tried.
//!  2. Later rounds are in random order, so that a change of the machine or of the program hits all schedules.
//!  3. After each round, every schedule is compared with the *leader*, the one with the smallest median. The
//!     logarithms of the quotients of their times, one per round, have a mean and a 95 % interval (Student). If the
//!     interval is above 0, the schedule is dropped. A schedule that takes more than [`GROSS`] times as long as the
//!     leader is dropped after the first round.
//!  4. When one schedule is left, or after [`ROUNDS`] rounds, the leader is selected. Those that are left then are so
//!     similar that more trials would cost more than they could gain.
//!  5. When the loop has changed ([`super::change`]), all schedules are in question again.
//!
//! Time counts per iteration, so the number of iterations may vary between instances.

use random::Random;

use crate::selection::change::Change;
use crate::selection::median;
use crate::selection::record::{Record, Select};

/// Largest number of rounds.
pub const ROUNDS: usize = 8;

/// Quotient of times that needs no second trial.
pub const GROSS: f64 = 1.4;

/// Part of the time below which imbalance and requests are not worth a trial.
pub const LITTLE: f64 = 0.02;

/// Smallest standard deviation of the logarithm of a quotient that is believed: 1 %. Two rounds may agree by chance.
const LEAST_DEVIATION: f64 = 0.01;

/// Quantiles 97.5 % of Student's distribution with 1 to 7 degrees of freedom.
const STUDENT: [f64; ROUNDS - 1] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365];

/// Why a schedule was selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// By the evidence of the rounds, all others are slower.
    Fastest,
    /// Imbalance and requests cost little with it; those with more overhead were not tried.
    Balanced,
    /// After all rounds it has the smallest median, and others are so similar that more trials would cost more than they gain.
    Similar,
}

impl Reason {
    /// All reasons. The number of one is its place here.
    pub const ALL: [Reason; 3] = [Reason::Fastest, Reason::Balanced, Reason::Similar];
}

/// What was selected, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The schedule.
    pub schedule: usize,
    /// Why.
    pub reason: Reason,
    /// Rounds of trials.
    pub rounds: usize,
    /// The second of the last round, and by which factor its median is larger; `None` if no other was tried then.
    pub second: Option<(usize, f64)>,
}

/// Selection by rounds of trials.
#[derive(Clone, Debug)]
pub struct Auto {
    schedules: usize,
    /// Schedules in question, with the logarithm of the time of an iteration in each round.
    candidates: Vec<(usize, Vec<f64>)>,
    /// Candidates that are still to be tried in this round, the next one last.
    round: Vec<usize>,
    verdict: Option<Verdict>,
    /// Selections so far.
    selections: u64,
    /// Whether imbalance and requests cost little in the last instance, which is now repeated: a thread that lost its CPU
    /// may have balanced it by chance.
    repeated: bool,
    change: Change,
    random: Random,
}

impl Auto {
    /// Begins with a number of schedules. Zero count as one.
    #[must_use]
    pub fn new(schedules: usize, seed: u64) -> Auto {
        let mut auto = Auto {
            schedules: schedules.max(1),
            candidates: Vec::new(),
            round: Vec::new(),
            verdict: None,
            selections: 0,
            repeated: false,
            change: Change::default(),
            random: Random::new(seed),
        };
        auto.open();
        auto
    }

    /// Returns the schedule that was selected; `None` during trials.
    #[must_use]
    pub fn selected(&self) -> Option<usize> {
        self.verdict.map(|verdict| verdict.schedule)
    }

    /// Returns what was selected, and why; `None` during trials.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    /// Returns how often a schedule was selected: more than once if the loop has changed.
    #[must_use]
    pub fn selections(&self) -> u64 {
        self.selections
    }

    /// Puts all schedules in question.
    fn open(&mut self) {
        self.candidates = (0..self.schedules).map(|schedule| (schedule, Vec::new())).collect();
        self.verdict = None;
        self.change = Change::default();
        self.round = (0..self.schedules).rev().collect();
    }

    fn begin_round(&mut self) {
        self.round = (0..self.candidates.len()).collect();
        self.random.shuffle(&mut self.round);
    }

    /// Drops slow schedules, and selects or begins the next round.
    fn end_round(&mut self) {
        let medians = self.candidates.iter().map(|(_, times)| median(&mut times.clone())).enumerate();
        let mut order: Vec<(usize, f64)> = medians.collect();
        order.sort_by(|one, other| one.1.total_cmp(&other.1));
        let Some(&(leader, least)) = order.first() else { return };
        let second = order.get(1).map(|(second, median)| (self.candidates[*second].0, (median - least).exp()));
        let (schedule, best) = self.candidates[leader].clone();
        let (rounds, is_cut) = (best.len(), self.candidates.len() < self.schedules);
        self.candidates.retain(|(_, times)| !is_slower(times, &best));
        let reason = match (self.candidates.len(), rounds) {
            (1, 1) if is_cut => Reason::Balanced,
            (1, _) => Reason::Fastest,
            (_, ROUNDS..) => Reason::Similar,
            _ => return self.begin_round(),
        };
        self.verdict = Some(Verdict { schedule, reason, rounds, second });
        self.selections += 1;
    }
}

impl Select for Auto {
    fn select(&mut self) -> usize {
        let trial = || self.round.last().map_or(0, |candidate| self.candidates[*candidate].0);
        self.selected().unwrap_or_else(trial)
    }

    fn record(&mut self, record: &Record) {
        if self.verdict.is_some() {
            if self.change.record(record) {
                self.open();
            }
            return;
        }
        // Without a time, the trial is repeated.
        let Some(time) = record.per_iteration_ns() else { return };
        let is_first_round = self.candidates.iter().any(|(_, times)| times.is_empty());
        let costs_little = is_first_round && record.lib + record.dispatch < LITTLE;
        if costs_little && !std::mem::replace(&mut self.repeated, true) {
            return;
        }
        self.repeated = false;
        if let Some(candidate) = self.round.pop() {
            self.candidates[candidate].1.push(time.ln());
        }
        if costs_little {
            self.candidates.retain(|(_, times)| !times.is_empty());
            self.round.clear();
        }
        if self.round.is_empty() {
            self.end_round();
        }
    }
}

/// Returns true if `times` are larger than those of the leader, round by round.
fn is_slower(times: &[f64], best: &[f64]) -> bool {
    let differences: Vec<f64> = times.iter().zip(best).map(|(time, best)| time - best).collect();
    let n = differences.len();
    let mean = differences.iter().sum::<f64>() / n as f64;
    if n < 2 {
        return mean > GROSS.ln();
    }
    let squares: f64 = differences.iter().map(|difference| (difference - mean).powi(2)).sum();
    let deviation = (squares / (n - 1) as f64).sqrt().max(LEAST_DEVIATION);
    mean > STUDENT[(n - 2).min(STUDENT.len() - 1)] * deviation / (n as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_are_not_slower_and_clear_ones_are() {
        assert!(!is_slower(&[1.0], &[1.0]));
        assert!(is_slower(&[1.0 + GROSS.ln() + 0.01], &[1.0]));
        assert!(!is_slower(&[1.1, 1.3], &[1.0, 1.0]));
        assert!(is_slower(&[1.1, 1.12, 1.11], &[1.0, 1.0, 1.0]));
        assert!(!is_slower(&[1.0, 1.4, 0.9], &[1.0, 1.0, 1.0]));
    }

    #[test]
    fn every_candidate_is_tried_once_in_a_round() {
        let mut auto = Auto::new(5, 1);
        let mut tried: Vec<usize> = (0..5)
            .map(|_| {
                let schedule = auto.select();
                auto.record(&Record { trips: 10, time_ns: 100.0, lib: 0.1, dispatch: 0.0 });
                schedule
            })
            .collect();
        tried.sort_unstable();
        assert_eq!(tried, [0, 1, 2, 3, 4]);
    }

    /// The thread with less work lost its CPU for as long as the other one had more to do.
    #[test]
    fn balance_by_chance_ends_no_trial() {
        let mut auto = Auto::new(3, 1);
        for (schedule, lib) in [(0, 0.01), (0, 0.3), (1, 0.1), (2, 0.2)] {
            assert_eq!(auto.select(), schedule);
            auto.record(&Record { trips: 10, time_ns: 100.0, lib, dispatch: 0.0 });
        }
        assert_eq!(auto.selected(), None);
    }

    #[test]
    fn a_balanced_loop_needs_no_trial_of_dearer_schedules() {
        let mut auto = Auto::new(5, 1);
        for (schedule, lib) in [(0, 0.3), (1, 0.01), (1, 0.01)] {
            assert_eq!(auto.select(), schedule);
            auto.record(&Record { trips: 10, time_ns: 100.0 * (1.0 + 2.0 * lib), lib, dispatch: 0.0 });
        }
        let verdict = auto.verdict().unwrap();
        assert_eq!((verdict.schedule, verdict.reason, verdict.rounds), (1, Reason::Balanced, 1));
        let (second, factor) = verdict.second.unwrap();
        assert!(second == 0 && (factor - 1.6 / 1.02).abs() < 1e-9, "{factor}");
    }

    #[test]
    fn a_verdict_says_why() {
        let run = |times: fn(usize) -> f64| {
            let mut auto = Auto::new(3, 1);
            while auto.verdict().is_none() {
                let time_ns = times(auto.select());
                auto.record(&Record { trips: 10, time_ns, lib: 0.2, dispatch: 0.0 });
            }
            let verdict = auto.verdict().unwrap();
            (verdict.schedule, verdict.reason, verdict.rounds, verdict.second.map(|second| second.0), auto.selections())
        };
        assert_eq!(run(|schedule| [100.0, 90.0, 200.0][schedule]), (1, Reason::Fastest, 2, Some(0), 1));
        assert_eq!(run(|schedule| [100.0, 100.1, 100.2][schedule]), (0, Reason::Similar, ROUNDS, Some(1), 1));
    }
}
