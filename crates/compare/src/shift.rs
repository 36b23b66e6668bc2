//! The size of the difference between two groups: the estimator of Hodges and Lehmann (1963).
//!
//! The estimate is the median of all pairwise differences. The ends of its interval are the two outermost differences
//! that the rank-sum test would not reject (Moses 1965), so the interval and the test agree. The only assumption about
//! the noise is that it has the same shape in both groups.
//!
//! If all values are above 0, the differences are those of logarithms, because a disturbance lengthens a run by a
//! certain share, whether the run is short or long.

use crate::ranks::Reach;
use crate::stats::{median, quantile, sorted};

/// The pairwise differences of two groups, relative to the first.
#[derive(Clone, Debug)]
pub struct Shift {
    /// Pairwise differences of logarithms or of values, in ascending order.
    differences: Vec<f64>,
    scale: Scale,
}

/// What is subtracted: the values or their logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Logarithms,
    /// Values. Differences are divided by the first group's median, which this variant holds.
    Values(f64),
}

impl Shift {
    /// Computes the differences from `first` to `second`; `None` if the first group's median is 0, so that there is no
    /// relative change.
    pub fn between(first: &[f64], second: &[f64]) -> Option<Shift> {
        let positive = first.iter().chain(second).all(|value| *value > 0.0);
        let middle = median(first);
        let scale = match positive {
            true => Scale::Logarithms,
            false if middle > 0.0 => Scale::Values(middle),
            false => return None,
        };
        let of = |value: &f64| if positive { value.ln() } else { *value };
        let pairs = second.iter().flat_map(|to| first.iter().map(move |from| of(to) - of(from)));
        Some(Shift { differences: sorted(&pairs.collect::<Vec<_>>()), scale })
    }

    /// Returns the relative change: 0.03 is 3 % more.
    pub fn change(&self) -> f64 {
        self.relative(quantile(&self.differences, 0.5))
    }

    /// Returns an interval that misses the true change with at most the probability `missed`; `None` if there are too
    /// few runs.
    pub fn interval(&self, reach: &Reach, missed: f64) -> Option<(f64, f64)> {
        let out = reach.left_out(missed)?;
        let last = self.differences.len().checked_sub(out).filter(|last| *last >= out)?;
        Some((self.relative(self.differences[out - 1]), self.relative(self.differences[last])))
    }

    fn relative(&self, difference: f64) -> f64 {
        match self.scale {
            Scale::Logarithms => difference.exp_m1(),
            // A value cannot decrease by more than 100 %, but a difference between two runs can be larger than the
            // median.
            Scale::Values(middle) => (difference / middle).max(-1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 4/1, 4/2, 8/1, 8/2 in order: 2, 4, 4, 8; the median is 4 times, 300 % more.
    #[test]
    fn the_median_of_all_quotients() {
        let shift = Shift::between(&[1.0, 2.0], &[4.0, 8.0]).unwrap();
        assert!((shift.change() - 3.0).abs() < 1e-12);
        assert_eq!(shift.interval(&Reach::new(2, 2), 0.05), None);
    }

    #[test]
    fn with_a_zero_differences_of_values() {
        // 1-0, 3-0, 1-2, 3-2 = 1, 3, -1, 1: the median is 1, in parts of (0 + 2) / 2.
        assert_eq!(Shift::between(&[0.0, 2.0], &[1.0, 3.0]).unwrap().change(), 1.0);
        assert_eq!(Shift::between(&[4.0, 5.0, 9.0], &[0.0, 0.0, 0.0]).unwrap().change(), -1.0);
        let all = Shift::between(&[4.0, 5.0, 6.0, 9.0], &[0.0; 4]).unwrap();
        assert_eq!(all.interval(&Reach::new(4, 4), 0.05).unwrap().0, -1.0);
        assert!(Shift::between(&[0.0, 0.0, 5.0], &[1.0, 3.0]).is_none());
    }

    /// Ten beside ten: the table of the test has 23 for 5 %, so the interval begins with the 24th of 100 differences
    /// (Hollander and Wolfe, Nonparametric Statistical Methods, 4.3).
    #[test]
    fn the_interval_is_between_the_differences_of_the_table() {
        let first: Vec<f64> = (0..10).map(|i| 1e6 + f64::from(i)).collect();
        let second: Vec<f64> = (0..10).map(|i| 1e6 + 10.0 * f64::from(i)).collect();
        let mut by_hand: Vec<f64> = second.iter().flat_map(|b| first.iter().map(move |a| b / a - 1.0)).collect();
        by_hand.sort_by(f64::total_cmp);
        let shift = Shift::between(&first, &second).unwrap();
        let (low, high) = shift.interval(&Reach::new(10, 10), 0.05).unwrap();
        assert!((low - by_hand[23]).abs() < 1e-12 && (high - by_hand[76]).abs() < 1e-12, "{low} {high}");
    }

    proptest! {
        #[test]
        fn a_factor_is_found_and_the_interval_is_around_it(
            first in prop::collection::vec(0.5..2.0_f64, 6..16), factor in 0.2..5.0_f64,
        ) {
            let second: Vec<f64> = first.iter().map(|value| value * factor).collect();
            let reach = Reach::new(first.len(), first.len());
            let shift = Shift::between(&first, &second).unwrap();
            prop_assert!((shift.change() - (factor - 1.0)).abs() < 1e-9 * factor);
            let (low, high) = shift.interval(&reach, 0.05).unwrap();
            prop_assert!(low <= shift.change() && shift.change() <= high);
        }
    }
}
