//! *At least*: a lower bound of the expected maximum that needs no model of the tail.
//!
//! If k of n independent delays reached a value, the probability p of reaching it has a lower confidence limit, for any
//! law. The limit follows from Chernoff's bound (1952): P(k or more of n) ≤ exp(−n KL(k/n ‖ p)) for p ≤ k/n. The bound
//! uses the limits at some dozens of ranks k (1, 2, 3, …, then in steps of a quarter) and divides the error
//! probability of 5 % among them (Bonferroni). So all limits hold at the same time in at least 95 % of recordings, and
//! with them every expected maximum, for all N. A limit for each rank alone held in only 88 to 100 %.

use crate::levels::{Levels, below};

/// Probability that a limit is wrong.
const ERROR: f64 = 0.05;

/// Lower limits of the law's upper tail, all of which hold with 95 % confidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Values in nanoseconds, descending, and lower limits of the probability to reach them.
    limits: Vec<(f64, f64)>,
}

impl Bound {
    /// Computes the limits from a sample.
    #[must_use]
    pub fn new(sample: &Levels) -> Bound {
        let n = sample.count();
        let mut ranks = Vec::new();
        let mut rank = 1.0f64;
        while rank <= n {
            ranks.push(rank);
            rank = (rank * 1.25).max(rank + 1.0).floor();
        }
        let ln_error = (ERROR / ranks.len().max(1) as f64).ln();
        let mut ranks = ranks.into_iter().peekable();
        let mut limits = Vec::new();
        let mut count = 0.0;
        for level in sample.levels() {
            count += level.count;
            // Only whole observations count. The tolerance is larger than the rounding error of the sum.
            let mut reached = None;
            while let Some(rank) = ranks.next_if(|rank| *rank <= count * (1.0 + 1e-9)) {
                reached = Some(rank);
            }
            if let Some(rank) = reached {
                limits.push((level.least, lower_limit(rank, n, ln_error)));
            }
        }
        Bound { limits }
    }

    /// Returns the bound of the expected maximum of `n` independent delays, in nanoseconds.
    #[must_use]
    pub fn expected_maximum(&self, n: f64) -> f64 {
        let below_next = self.limits.iter().skip(1).map(|limit| limit.0).chain([0.0]);
        let steps = self.limits.iter().zip(below_next);
        steps.map(|((value, reached), next)| (value - next) * (1.0 - below(*reached, n))).sum()
    }
}

/// Returns the smallest p for which `k` or more of `n` has a probability of `exp(ln_error)` by Chernoff's bound.
fn lower_limit(k: f64, n: f64, ln_error: f64) -> f64 {
    let share = (k / n).min(1.0);
    let ln_chance = |p: f64| {
        let rest = if share < 1.0 { (1.0 - share) * ((1.0 - share) / (1.0 - p)).ln() } else { 0.0 };
        -n * (share * (share / p).ln() + rest)
    };
    let (mut low, mut high) = (1e-300f64.ln(), share.ln());
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if ln_chance(middle.exp()) < ln_error {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P(k or more of n) by summation.
    fn chance(k: usize, n: usize, p: f64) -> f64 {
        let mut term = (1.0 - p).powi(n as i32);
        let mut below = 0.0;
        for at in 0..k {
            below += term;
            term *= (n - at) as f64 / (at + 1) as f64 * p / (1.0 - p);
        }
        1.0 - below
    }

    #[test]
    fn limits_have_at_most_their_error() {
        for (k, n) in [(1, 1), (1, 50), (3, 50), (50, 50), (7, 400)] {
            for error in [0.05, 0.001] {
                let p = lower_limit(k as f64, n as f64, f64::ln(error));
                let is = chance(k, n, p);
                // Chernoff's bound gives away a factor of some standard deviations.
                assert!(is <= error * 1.0001 && is > error / 25.0, "{k} of {n}: {is} for {error}");
            }
        }
    }

    /// With one observation of 10, the probability to reach it can be as small as the error.
    #[test]
    fn one_observation_supports_little() {
        let bound = Bound::new(&Levels::of_delays(&[10.0], 0, 1.0));
        assert!((bound.expected_maximum(1.0) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn windows_of_the_same_time_support_no_more_than_one() {
        let one = Bound::new(&Levels::of_delays(&[10.0], 9, 1.0)).expected_maximum(1.0);
        let four = Bound::new(&Levels::of_delays(&[10.0; 4], 36, 0.25)).expected_maximum(1.0);
        assert!((one - four).abs() < 1e-9, "{one} {four}");
    }
}
