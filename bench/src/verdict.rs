//! Compares a figure's confidence interval with its limit.

use serde::Serialize;

use crate::stats::Estimate;

/// Exit code of an experiment that failed and therefore has no answer.
pub const FAILED: u8 = 125;

/// The outcome of one comparison with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The whole 95 % interval is within the limit.
    Pass,
    /// The whole interval is beyond the limit.
    Fail,
    /// The limit is inside the interval, or there were too few values for an interval. More runs or a quieter machine are needed.
    Undecided,
    /// A value that the criterion needs could not be measured.
    NotMeasured,
}

impl Outcome {
    /// Returns the word that is printed for this outcome.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Pass => "PASS",
            Outcome::Fail => "FAIL",
            Outcome::Undecided => "UNDECIDED",
            Outcome::NotMeasured => "NOT MEASURED",
        }
    }
}

/// One criterion and its outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The outcome.
    pub outcome: Outcome,
    /// The criterion and the figures, as printed.
    pub text: String,
}

/// Compares an estimate with an upper limit.
pub fn at_most(estimate: &Estimate, limit: f64) -> Outcome {
    match estimate.interval {
        Some((_, high)) if high <= limit => Outcome::Pass,
        Some((low, _)) if low > limit => Outcome::Fail,
        _ => Outcome::Undecided,
    }
}

/// Combines the outcomes of two criteria of which only one must be met.
pub fn either(a: Outcome, b: Outcome) -> Outcome {
    match (a, b) {
        (Outcome::Pass, _) | (_, Outcome::Pass) => Outcome::Pass,
        (Outcome::Fail, Outcome::Fail) => Outcome::Fail,
        (Outcome::NotMeasured, Outcome::NotMeasured) => Outcome::NotMeasured,
        _ => Outcome::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(low: f64, high: f64) -> Estimate {
        Estimate { median: f64::midpoint(low, high), interval: Some((low, high)) }
    }

    #[test]
    fn the_whole_interval_decides() {
        assert_eq!(at_most(&estimate(1.0, 1.1), 1.1), Outcome::Pass);
        assert_eq!(at_most(&estimate(1.0, 1.11), 1.1), Outcome::Undecided);
        assert_eq!(at_most(&estimate(1.1, 1.2), 1.1), Outcome::Undecided);
        assert_eq!(at_most(&estimate(1.11, 1.2), 1.1), Outcome::Fail);
        assert_eq!(at_most(&Estimate { median: 1.0, interval: None }, 1.1), Outcome::Undecided);
    }

    #[test]
    fn one_of_two_is_enough() {
        use Outcome::{Fail, Pass, Undecided};
        assert_eq!(either(Fail, Pass), Pass);
        assert_eq!(either(Pass, Undecided), Pass);
        assert_eq!(either(Fail, Undecided), Undecided);
        assert_eq!(either(Fail, Fail), Fail);
    }
}
