//! A schedule that challenges the champion.

use crate::selection::median;

/// A gain that is not worth another trial.
const LEAST_GAIN: f64 = 0.01;

/// Most trials of a challenger.
const MOST: usize = 12;

/// A first trial that is clearly slower, and by so much (10 %, as a logarithm), needs no second one.
const GROSS: f64 = 0.1;

/// How many standard errors a median must differ: to replace the champion, and to be dropped.
const TO_WIN: f64 = 1.25;
const TO_LOSE: f64 = 1.96;

/// Standard error of a median of normally distributed values, divided by that of their mean.
const OF_MEDIAN: f64 = 1.25;

/// Whether a challenger is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is.
    InQuestion,
    /// It is slower than the champion.
    Slower,
    /// It was not tried: it cannot gain what its requests cost.
    Excluded,
    /// It may be faster, but so little that more trials would cost more than it could gain.
    Similar,
}

/// A challenger and its trials.
#[derive(Clone, Debug)]
pub struct Challenger {
    pub schedule: usize,
    pub state: State,
    /// Logarithms of its times less those of the champion, since the loop has last changed.
    differences: Vec<f64>,
    /// The median of those before.
    known: Option<f64>,
}

impl Challenger {
    /// Returns a challenger without trials.
    pub fn new(schedule: usize) -> Challenger {
        Challenger { schedule, state: State::InQuestion, differences: Vec::new(), known: None }
    }

    /// Returns the former champion, seen from this challenger, which has replaced it.
    pub fn reversed(&self, champion: usize) -> Challenger {
        let differences = self.differences.iter().map(|difference| -difference).collect();
        Challenger { differences, ..Challenger::new(champion) }
    }

    /// The loop has changed: the trials count no longer, but what they have found may still be expected.
    pub fn forget(&mut self) {
        self.known = self.median();
        self.differences.clear();
        self.state = State::InQuestion;
    }

    /// Adds to all differences: the champion is another one.
    pub fn shift(&mut self, by: f64) {
        self.differences.iter_mut().chain(&mut self.known).for_each(|difference| *difference += by);
    }

    /// Adds a trial.
    pub fn add(&mut self, difference: f64) {
        self.differences.push(difference);
    }

    /// Returns the median difference; `None` if it was never tried.
    pub fn median(&self) -> Option<f64> {
        if self.differences.is_empty() { self.known } else { Some(median(&mut self.differences.clone())) }
    }

    /// Returns what another trial is expected to cost, in instances with the champion; nothing if it was never tried.
    pub fn excess(&self) -> f64 {
        self.median().unwrap_or(0.0).exp_m1().max(0.0)
    }

    /// Returns whether it is clearly faster than the champion. `noise`: standard deviation of a difference.
    pub fn wins(&self, noise: f64) -> bool {
        let Some((_, upper)) = self.middle() else { return false };
        upper < -(TO_WIN * self.error(noise)).max(LEAST_GAIN / 2.0)
    }

    /// Drops it, if it is clearly slower or cannot gain much.
    pub fn judge(&mut self, noise: f64) {
        let Some((lower, _)) = self.middle() else { return };
        let least = lower - TO_LOSE * self.error(noise);
        let count = self.differences.len();
        if count == 1 && lower < GROSS {
            return;
        }
        if least > 0.0 {
            self.state = State::Slower;
        } else if least > -LEAST_GAIN || count >= MOST {
            self.state = State::Similar;
        }
    }

    /// Returns the two middle differences; if their number is odd, both are the same.
    fn middle(&self) -> Option<(f64, f64)> {
        let mut sorted = self.differences.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        Some((sorted[last / 2], sorted[last.div_ceil(2)]))
    }

    fn error(&self, noise: f64) -> f64 {
        OF_MEDIAN * noise / (self.differences.len().max(1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(differences: &[f64]) -> Challenger {
        let mut challenger = Challenger::new(3);
        differences.iter().for_each(|difference| challenger.add(*difference));
        challenger
    }

    fn judged(differences: &[f64], noise: f64) -> State {
        let mut challenger = tried(differences);
        challenger.judge(noise);
        challenger.state
    }

    #[test]
    fn what_is_clear_depends_on_the_noise() {
        assert!(tried(&[-0.1]).wins(0.05) && !tried(&[-0.1]).wins(0.1));
        assert!(tried(&[-0.1; 4]).wins(0.1));
        assert!(!tried(&[-0.001; 8]).wins(0.0), "a gain that is not worth it");
        assert_eq!(judged(&[0.1, 0.1], 0.02), State::Slower);
        assert_eq!(judged(&[0.1, 0.1], 0.1), State::InQuestion);
        assert_eq!(judged(&[0.0; 2], 0.002), State::Similar);
        assert_eq!(judged(&[0.0; MOST], 1.0), State::Similar);
        assert_eq!((judged(&[0.3], 0.01), judged(&[0.5], 0.01)), (State::Slower, State::Slower));
        assert_eq!((judged(&[0.05], 0.01), judged(&[0.3], 0.2)), (State::InQuestion, State::InQuestion));
    }

    /// A thread has once lost its CPU.
    #[test]
    fn one_of_two_trials_decides_nothing() {
        assert_eq!(judged(&[0.0, 2.0], 0.05), State::InQuestion);
        assert!(!tried(&[-2.0, 0.0]).wins(0.05));
    }

    #[test]
    fn what_was_found_is_still_expected_after_a_change() {
        let mut challenger = tried(&[0.2, 0.4]);
        assert!((challenger.excess() - 0.3f64.exp_m1()).abs() < 1e-12);
        challenger.forget();
        challenger.shift(0.1);
        assert!((challenger.median().unwrap() - 0.4).abs() < 1e-12);
        challenger.add(-1.0);
        assert_eq!((challenger.median(), challenger.excess()), (Some(-1.0), 0.0));
        assert!((tried(&[-0.2, -0.4]).reversed(7).median().unwrap() - 0.3).abs() < 1e-12);
        assert_eq!(Challenger::new(1).excess(), 0.0);
    }
}
