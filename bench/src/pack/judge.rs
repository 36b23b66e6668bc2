//! Medians, paired ratios, and whether a target is met.
//!
//! A target is met if the median meets it; the interval is printed as well. *No worse than taskset* is met if the 95 % interval of the paired ratio's
//! median includes 1.02 or lies below it.

use serde::Serialize;

use crate::stats::{Estimate, median_estimate};
use crate::verdict::{Outcome, Verdict};

/// Largest `elapsed time ÷ elapsed time with taskset` that counts as no worse than taskset.
pub const NO_WORSE: f64 = 1.02;

/// The values of one treatment, by round.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Median and 95 % interval.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// All values in order of time.
    pub values: Vec<f64>,
}

impl Series {
    /// Makes a series of these values.
    pub fn of(values: Vec<f64>) -> Series {
        Series { estimate: median_estimate(&values), values }
    }

    /// Divides each value by the other series' value of the same round.
    pub fn over(&self, other: &Series) -> Series {
        Series::of(self.values.iter().zip(&other.values).map(|(a, b)| a / b).collect())
    }
}

/// Returns whether the median is at most `target`.
pub fn median_at_most(estimate: &Estimate, target: f64) -> Outcome {
    decided(!estimate.median.is_nan(), estimate.median <= target)
}

/// Returns whether the median is at least `target`.
pub fn median_at_least(estimate: &Estimate, target: f64) -> Outcome {
    decided(!estimate.median.is_nan(), estimate.median >= target)
}

/// Returns whether `ratio` (elapsed time ÷ elapsed time with taskset) counts as no worse than taskset: its interval begins at [`NO_WORSE`] or below.
pub fn no_worse(ratio: &Estimate) -> Outcome {
    match ratio.interval {
        Some((low, _)) => decided(true, low <= NO_WORSE),
        None => Outcome::Undecided,
    }
}

fn decided(is_known: bool, is_met: bool) -> Outcome {
    match (is_known, is_met) {
        (false, _) => Outcome::NotMeasured,
        (true, true) => Outcome::Pass,
        (true, false) => Outcome::Fail,
    }
}

/// Combines the outcomes of several targets that one result must meet: the worst outcome counts.
pub fn all(outcomes: &[Outcome]) -> Outcome {
    let worst = [Outcome::Fail, Outcome::NotMeasured, Outcome::Undecided];
    worst.into_iter().find(|outcome| outcomes.contains(outcome)).unwrap_or(Outcome::Pass)
}

/// Makes the verdict of a criterion that was not measured.
pub fn not_measured(criterion: &str, why: &str) -> Verdict {
    Verdict { outcome: Outcome::NotMeasured, text: format!("{criterion}: {why}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(low: f64, median: f64, high: f64) -> Estimate {
        Estimate { median, interval: Some((low, high)) }
    }

    #[test]
    fn the_median_decides_about_targets() {
        assert_eq!(median_at_most(&estimate(1.3, 1.35, 1.5), 1.35), Outcome::Pass);
        assert_eq!(median_at_most(&estimate(1.3, 1.36, 1.5), 1.35), Outcome::Fail);
        assert_eq!(median_at_least(&estimate(1.0, 1.5, 2.0), 1.5), Outcome::Pass);
        assert_eq!(median_at_least(&estimate(1.0, 1.49, 2.0), 1.5), Outcome::Fail);
        assert_eq!(median_at_most(&Series::of(Vec::new()).estimate, 1.0), Outcome::NotMeasured);
    }

    #[test]
    fn the_interval_decides_about_harm() {
        assert_eq!(no_worse(&estimate(1.0, 1.05, 1.1)), Outcome::Pass);
        assert_eq!(no_worse(&estimate(0.5, 0.6, 0.7)), Outcome::Pass);
        assert_eq!(no_worse(&estimate(1.021, 1.05, 1.1)), Outcome::Fail);
        assert_eq!(no_worse(&Estimate { median: 1.0, interval: None }), Outcome::Undecided);
    }

    #[test]
    fn pairs_are_of_one_round() {
        let ratio = Series::of(vec![1.0, 20.0, 3.0]).over(&Series::of(vec![2.0, 10.0, 3.0]));
        assert_eq!(ratio.values, [0.5, 2.0, 1.0]);
        assert_eq!(ratio.estimate.median, 1.0);
    }

    #[test]
    fn the_worst_of_several_counts() {
        use Outcome::{Fail, Pass, Undecided};
        assert_eq!(all(&[Pass, Undecided]), Undecided);
        assert_eq!(all(&[Undecided, Fail, Pass]), Fail);
        assert_eq!(all(&[Pass]), Pass);
    }
}
