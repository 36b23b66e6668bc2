//! The rank-sum test of Wilcoxon (1945), Mann and Whitney (1947): whether two groups of runs differ by more than chance
//! explains.
//!
//! All runs are sorted together. If the groups do not differ, each choice of ranks for the second group is equally
//! likely. The probability of a rank sum at least as extreme as the observed one is counted exactly
//! ([`chance`](crate::chance)). Equal values share the mean of their ranks, and the count uses these shared ranks:
//! switch counts are often equal, and a table for distinct values would be wrong.
//!
//! Ranks limit the influence of a run that the machine disturbed: it has the last rank, no matter how far off it is. On
//! normal noise, 15 runs have the power of 14.3 runs with a t-test (efficiency 3/π).

use crate::chance::{counts, two_sided};

/// Returns whether the second group has the higher ranks, which is the direction of the difference.
pub fn is_higher(first: &[f64], second: &[f64]) -> bool {
    let above = |a: &[f64], b: &[f64]| a.iter().map(|a| b.iter().filter(|b| *b < a).count()).sum::<usize>();
    above(second, first) > above(first, second)
}

/// Returns the p-value: the probability that groups without a real difference differ at least as much as these.
pub fn p_value(first: &[f64], second: &[f64]) -> f64 {
    // Count the choices for the smaller group. There are as many as for the larger group, but the table for counting
    // them is smaller.
    let (chosen, rest) = if second.len() <= first.len() { (second, first) } else { (first, second) };
    let pooled: Vec<f64> = chosen.iter().chain(rest).copied().collect();
    let ranks = doubled_ranks(&pooled);
    // If all values differ, all doubled ranks are even. Halving the ranks then halves the number of different sums to
    // count.
    let step = if ranks.iter().all(|rank| rank % 2 == 0) { 2 } else { 1 };
    let ranks: Vec<usize> = ranks.into_iter().map(|rank| rank / step).collect();
    two_sided(&ranks, chosen.len(), ranks[..chosen.len()].iter().sum())
}

/// Returns the ranks, doubled: equal values share the mean of their ranks, and twice that mean is an integer.
fn doubled_ranks(pooled: &[f64]) -> Vec<usize> {
    let rank = |value: &f64| {
        let below = pooled.iter().filter(|other| *other < value).count();
        let equal = pooled.iter().filter(|other| *other == value).count();
        2 * below + equal + 1
    };
    pooled.iter().map(rank).collect()
}

/// The pairwise differences of two groups are all values of one group minus all values of the other. Some of them are
/// below the true difference. This is the probability distribution of their number, for two groups of given sizes.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Element n: the probability that at most n of the differences are below the true difference.
    at_most: Vec<f64>,
}

impl Reach {
    /// Computes the distribution for two groups of these sizes.
    pub fn new(first: usize, second: usize) -> Reach {
        let smaller = first.min(second);
        let ranks: Vec<usize> = (0..first + second).collect();
        // U is the rank sum minus the smallest possible rank sum.
        let least = smaller * smaller.saturating_sub(1) / 2;
        let counts = counts(&ranks, smaller).split_off(least);
        let all: f64 = counts.iter().sum();
        let mut sum = 0.0;
        let cumulated = counts.into_iter().map(|count| {
            sum += count;
            sum / all
        });
        Reach { at_most: cumulated.collect() }
    }

    /// Returns the number r such that the confidence interval goes from the r-th smallest to the r-th largest pairwise
    /// difference. `missed` is the largest allowed probability that the interval does not contain the true difference.
    /// Returns `None` if even the interval from the smallest to the largest difference misses it with a higher
    /// probability.
    pub fn left_out(&self, missed: f64) -> Option<usize> {
        let within = |chance: &&f64| 2.0 * **chance <= missed * (1.0 + 1e-9);
        // The test rejects a difference if only 0 to n of the pairwise differences are below it: these are n + 1
        // counts. So the interval begins at the (n + 1)-th smallest difference.
        Some(self.at_most.iter().take_while(within).count()).filter(|out| *out > 0)
    }

    /// Returns the smallest p-value that the test can give: the p-value of groups that do not overlap.
    pub fn least_p(&self) -> f64 {
        (2.0 * self.at_most.first().copied().unwrap_or(1.0)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Counted by hand: of 20 choices of 3 ranks, one has the sum 6 and one 15; 7 and 14 have one each, too.
    #[test]
    fn three_beside_three() {
        for (second, expected) in [([4.0, 5.0, 6.0], 0.1), ([3.0, 5.0, 6.0], 0.2)] {
            let first: Vec<f64> = (1..=6).map(f64::from).filter(|value| !second.contains(value)).collect();
            assert!((p_value(&first, &second) - expected).abs() < 1e-12, "{second:?}");
            assert!((p_value(&second, &first) - expected).abs() < 1e-12, "{second:?}");
        }
    }

    /// Ranks 1.5, 1.5, 3 and 4: of the 6 pairs, sums 3, 4.5, 5.5, 4.5, 5.5, 7 around 5.
    #[test]
    fn equal_values_share_their_ranks() {
        assert!((p_value(&[1.0, 1.0], &[2.0, 3.0]) - 2.0 / 6.0).abs() < 1e-12);
        assert!((p_value(&[1.0, 2.0], &[1.0, 3.0]) - 1.0).abs() < 1e-12);
        // Ranks 1, four of 3.5, and 6, around 7: of 15 pairs, four have 4.5 and four 9.5.
        assert!((p_value(&[1.0, 2.0, 2.0, 2.0], &[2.0, 3.0]) - 8.0 / 15.0).abs() < 1e-12);
        assert_eq!(p_value(&[0.0; 5], &[0.0; 5]), 1.0);
    }

    /// Below the 22nd of 36 differences, from the table: U of 5 and less are rejected at 5 %, so 6 are left out.
    #[test]
    fn an_interval_leaves_out_what_the_test_rejects() {
        for (n, m, u) in [(4, 4, 0), (5, 5, 2), (6, 6, 5), (10, 10, 23), (15, 15, 64), (8, 12, 22), (12, 8, 22)] {
            assert_eq!(Reach::new(n, m).left_out(0.05), Some(u + 1), "{n} and {m}");
        }
        assert_eq!(Reach::new(3, 3).left_out(0.05), None);
        assert!((Reach::new(4, 4).least_p() - 2.0 / 70.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn neither_order_nor_scale_matters(
            mut first in prop::collection::vec(1.0..9.0_f64, 2..12), second in prop::collection::vec(1.0..9.0_f64, 2..12),
        ) {
            let before = p_value(&first, &second);
            first.reverse();
            let squared = |values: &[f64]| values.iter().map(|value| value * value).collect::<Vec<_>>();
            prop_assert!((before - p_value(&squared(&first), &squared(&second))).abs() < 1e-9);
            prop_assert!((before - p_value(&second, &first)).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&before));
        }
    }
}
