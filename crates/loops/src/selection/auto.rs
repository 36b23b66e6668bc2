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

/// Selection by rounds of trials.
#[derive(Clone, Debug)]
pub struct Auto {
    schedules: usize,
    /// Schedules in question, with the logarithm of the time of an iteration in each round.
    candidates: Vec<(usize, Vec<f64>)>,
    /// Candidates that are still to be tried in this round, the next one last.
    round: Vec<usize>,
    selected: Option<usize>,
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
            selected: None,
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
        self.selected
    }

    /// Puts all schedules in question.
    fn open(&mut self) {
        self.candidates = (0..self.schedules).map(|schedule| (schedule, Vec::new())).collect();
        self.selected = None;
        self.change = Change::default();
        self.round = (0..self.schedules).rev().collect();
    }

    fn begin_round(&mut self) {
        self.round = (0..self.candidates.len()).collect();
        self.random.shuffle(&mut self.round);
    }

    /// Drops slow schedules, and selects or begins the next round.
    fn end_round(&mut self) {
        let medians = self.candidates.iter().map(|(_, times)| median(times)).enumerate();
        let Some((leader, _)) = medians.min_by(|one, other| one.1.total_cmp(&other.1)) else { return };
        let (schedule, best) = self.candidates[leader].clone();
        self.candidates.retain(|(_, times)| !is_slower(times, &best));
        if self.candidates.len() == 1 || best.len() >= ROUNDS {
            self.selected = Some(schedule);
        } else {
            self.begin_round();
        }
    }
}

impl Select for Auto {
    fn select(&mut self) -> usize {
        let trial = || self.round.last().map_or(0, |candidate| self.candidates[*candidate].0);
        self.selected.unwrap_or_else(trial)
    }

    fn record(&mut self, record: &Record) {
        if self.selected.is_some() {
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

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[half - 1] + sorted[half]) / 2.0 } else { sorted[half] }
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
        assert_eq!(auto.selected(), Some(1));
    }
}
