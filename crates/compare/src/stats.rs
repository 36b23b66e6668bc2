//! Medians and their intervals.
//!
//! All estimates are medians, because one run in ten that lost its CPU to the hypervisor must not change the result.
//! Intervals have 95 % confidence and assume nothing about the shape of the distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Confidence level of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// A median with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The median, or a quotient of medians.
    pub median: f64,
    /// Ends of the 95 % confidence interval; `None` if there are too few values.
    pub interval: Option<(f64, f64)>,
}

/// Returns the middle value, or the mean of the two middle values if their number is even. NaN for no values.
pub fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values), 0.5)
}

/// Returns the median with an interval between two order statistics that contains the true median with at least 95 %
/// probability, for any distribution. The ends are the r-th smallest and the r-th largest value, with the largest r for
/// which Binomial(n, 1/2) is below r with at most 2.5 % probability (the inverted sign test). With fewer than six
/// values there is no interval.
pub fn median_estimate(values: &[f64]) -> Estimate {
    let sorted = sorted(values);
    let n = sorted.len();
    let interval = order_statistic_rank(n).map(|rank| (sorted[rank - 1], sorted[n - rank]));
    Estimate { median: quantile(&sorted, 0.5), interval }
}

/// Returns the largest r with P(Binomial(n, 1/2) < r) <= 2.5 %; `None` if it is 0.
fn order_statistic_rank(n: usize) -> Option<usize> {
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let mut ln_binomial = -(n as f64) * std::f64::consts::LN_2;
    let mut cumulated = 0.0;
    let mut rank = 0;
    for k in 0..n {
        cumulated += ln_binomial.exp();
        if cumulated > tail {
            break;
        }
        rank = k + 1;
        ln_binomial += ((n - k) as f64 / (k + 1) as f64).ln();
    }
    (rank > 0).then_some(rank)
}

/// Returns the values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns a quantile, interpolated linearly between order statistics; NaN for no values.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use random::Random;

    #[test]
    fn medians_and_quartiles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
        let quartiles = |values: &[f64]| [0.25, 0.5, 0.75].map(|share| quantile(&sorted(values), share));
        assert_eq!(quartiles(&[5.0, 1.0, 2.0, 4.0, 3.0]), [2.0, 3.0, 4.0]);
        assert_eq!((quartiles(&[1.0, 2.0]), quartiles(&[7.0])), ([1.25, 1.5, 1.75], [7.0; 3]));
    }

    /// Ranks from the tables for the sign test (Conover, Practical Nonparametric Statistics, 3.1).
    #[test]
    fn ranks_are_those_of_the_sign_test() {
        for (n, rank) in [(0, None), (1, None), (5, None), (6, Some(1)), (8, Some(1)), (9, Some(2)), (10, Some(2))] {
            assert_eq!(order_statistic_rank(n), rank, "n = {n}");
        }
        for (n, rank) in [(20, 6), (30, 10), (60, 22), (100, 40)] {
            assert_eq!(order_statistic_rank(n), Some(rank), "n = {n}");
        }
    }

    /// What the interval promises: it holds the true median in at least 95 % of repetitions.
    #[test]
    fn the_interval_holds_the_true_median() {
        let mut random = Random::new(7);
        let mut held = 0;
        for _ in 0..2000 {
            // Skewed: squares of even numbers; the median of x^2 on 0..1000 is 250,000.
            let values: Vec<f64> = (0..15).map(|_| (random.below(1001) as f64).powi(2)).collect();
            let (low, high) = median_estimate(&values).interval.unwrap();
            held += usize::from((low..=high).contains(&250_000.0));
        }
        // 96.5 % expected for n = 15 and rank 4; five standard deviations below, and not everything.
        assert!((1880..1990).contains(&held), "{held} of 2000");
    }

    proptest! {
        #[test]
        fn the_interval_is_around_the_median_and_inside_the_values(
            values in prop::collection::vec(-1e9..1e9_f64, 6..200),
        ) {
            let estimate = median_estimate(&values);
            let (low, high) = estimate.interval.unwrap();
            prop_assert!(low <= estimate.median && estimate.median <= high);
            prop_assert!(values.contains(&low) && values.contains(&high));
        }
    }
}
