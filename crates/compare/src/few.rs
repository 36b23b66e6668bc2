//! Intervals for up to five values, from Student's distribution (1908).
//!
//! So few values have no rank interval of 95 %: six values all lie on one side of their median with probability 2 / 2^6 = 3 %, but five with 6 %.
//! Logarithms of run times are assumed to be normal. If one of the values is far off, the interval becomes wide: a disturbed run hides a difference
//! and does not invent one. Resampling would: of three values, it finds an interval that misses the truth in one case of four.

use crate::stats::{Estimate, median, median_estimate};

/// Quantiles of Student's distribution for a two-sided 95 % interval, with 1 to 4 degrees of freedom.
const STUDENT: [f64; 4] = [12.706, 4.303, 3.182, 2.776];

/// Smallest number of values that need no assumption on their distribution.
pub const MANY: usize = 6;

/// Returns the mean of two to five values, and half the width of its 95 % interval; `None` for another number of values.
pub fn mean(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let quantile = STUDENT.get(values.len().checked_sub(2)?)?;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Some((mean, quantile * (variance / n).sqrt()))
}

/// Returns the median of times, with its interval: from ranks if there are six or more, else from Student's distribution. The times must be above 0.
/// Two times have no interval: it could be a hundred times as wide as their difference, and would say nothing.
pub fn of_times(times: &[f64]) -> Estimate {
    if times.len() >= MANY || times.len() <= 2 {
        return median_estimate(times);
    }
    let logarithms: Vec<f64> = times.iter().map(|time| time.ln()).collect();
    let median = median(times);
    let interval = mean(&logarithms).map(|(mean, half)| {
        // The median of few values may be off their mean, but never by more than the interval, except for rounding.
        ((mean - half).exp().min(median), (mean + half).exp().max(median))
    });
    Estimate { median, interval }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::Random;

    #[test]
    fn the_interval_is_that_of_the_textbook() {
        // 1, 2, 3: mean 2, s = 1, 4.303 / sqrt(3) = 2.484.
        let (mean_of_three, half) = mean(&[1.0, 2.0, 3.0]).unwrap();
        assert!((mean_of_three - 2.0).abs() < 1e-12 && (half - 2.484).abs() < 1e-3, "{half}");
        assert_eq!((mean(&[1.0]), mean(&[]), mean(&[1.0; 6])), (None, None, None));
    }

    #[test]
    fn few_and_many_times_have_intervals_around_the_median() {
        for times in [vec![1.0, 1.0, 1.2], vec![2.0, 2.1, 2.2, 2.3, 9.0], vec![1.0; 7]] {
            let estimate = of_times(&times);
            let (low, high) = estimate.interval.unwrap();
            assert!(low <= estimate.median && estimate.median <= high, "{times:?}: {estimate:?}");
        }
        assert_eq!(of_times(&[1.0, 2.0, 3.0]).median, 2.0);
        assert_eq!(of_times(&[3.0, 5.0]), Estimate { median: 4.0, interval: None });
        // Ranks from six values on.
        assert_eq!(of_times(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).interval, Some((1.0, 6.0)));
    }

    /// A normal variable of mean 0 and variance 1: the sum of twelve uniform ones, less 6.
    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.below(1_000_001) as f64 / 1e6).sum::<f64>() - 6.0
    }

    #[test]
    fn the_interval_misses_the_truth_in_one_case_of_twenty() {
        let mut random = Random::new(3);
        for n in 2..=5 {
            let missed = (0..4000).filter(|_| {
                let values: Vec<f64> = (0..n).map(|_| normal(&mut random)).collect();
                let (mean, half) = mean(&values).unwrap();
                mean.abs() > half
            });
            // 200 expected; five standard deviations are 70.
            let missed = missed.count();
            assert!((130..270).contains(&missed), "{n}: {missed} of 4000");
        }
    }
}
