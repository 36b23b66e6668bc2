//! Decides whether `cox advise` predicted the ways to run a program in the right order, from fastest to slowest.

use crate::stats::median;

/// Two measured times that differ by less than this share count as equal.
pub const SAME: f64 = 0.05;
/// If two ways to run a program are predicted to take the same time, the prediction counts as right if their measured times differ by less than
/// this share.
const PREDICTED_SAME: f64 = 0.15;

/// Predicted and measured times of one way to run a program.
#[derive(Debug)]
pub struct Times {
    /// Predicted time.
    pub predicted: f64,
    /// Measured time of each round. All ways are measured in the same rounds.
    pub measured: Vec<f64>,
}

impl Times {
    /// Returns the median, over the rounds, of the measured time of `self` ÷ the measured time of `other`.
    fn of(&self, other: &Times) -> f64 {
        median(&self.measured.iter().zip(&other.measured).map(|(own, other)| own / other).collect::<Vec<_>>())
    }
}

/// Returns whether every two ways to run a program are predicted in the right order.
pub fn is_right(ways: &[Times]) -> bool {
    let wrong = |fast: &Times, slow: &Times| {
        let same = (fast.predicted / slow.predicted - 1.0).abs() < 0.01;
        let part = if same { PREDICTED_SAME } else { SAME };
        fast.of(slow) < 1.0 - part && (same || fast.predicted > slow.predicted)
    };
    !ways.iter().any(|fast| ways.iter().any(|slow| wrong(fast, slow)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(times: &[(f64, f64)]) -> bool {
        let ways = times.iter().map(|&(predicted, measured)| Times { predicted, measured: vec![measured] });
        is_right(&ways.collect::<Vec<_>>())
    }

    #[test]
    fn a_pair_the_wrong_way_round_is_wrong() {
        assert!(right(&[(1.0, 1.0), (2.0, 3.0), (4.0, 9.0)]));
        assert!(!right(&[(1.0, 3.0), (2.0, 1.0)]));
        assert!(!right(&[(1.0, 1.0), (2.0, 5.0), (3.0, 4.0)]), "also among the slow ones");
    }

    #[test]
    fn what_hardly_differs_has_no_order() {
        assert!(right(&[(1.0, 1.04), (1.3, 1.0)]));
        assert!(!right(&[(1.0, 1.06), (1.3, 1.0)]));
        // Predicted the same: they must not differ by much.
        assert!(right(&[(1.0, 1.1), (1.0, 1.0)]));
        assert!(!right(&[(1.0, 1.2), (1.0, 1.0)]));
        assert!(right(&[]));
    }

    #[test]
    fn runs_are_compared_with_those_of_their_own_rounds() {
        // The machine was slow in the second and third round, and the last way's median came of fast ones.
        let way = |predicted, measured: [f64; 3]| Times { predicted, measured: measured.to_vec() };
        assert!(is_right(&[way(1.0, [1.0, 2.0, 2.0]), way(1.1, [1.02, 2.04, 1.2])]));
        assert!(!is_right(&[way(1.0, [1.0, 2.0, 2.0]), way(1.1, [0.9, 1.8, 1.8])]));
    }
}
