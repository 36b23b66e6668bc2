//! The ratio of two figures that were measured in the same rounds: each round has one value of both.
//!
//! A disturbance that lasts longer than a run, such as another program or a slower clock, changes both values of a round, so it cancels in their
//! ratio. From six rounds on, the estimate is that of Hodges and Lehmann for one sample: the median of all means of two logarithms (Walsh averages).
//! The ends of its interval are the outermost of these means that the signed-rank test (Wilcoxon 1945) would not reject (Tukey 1949). It only assumes
//! that the noise of the logarithms is symmetric. Fewer rounds have no such interval; see [`few`](crate::few).

use crate::few;
use crate::stats::{CONFIDENCE, Estimate, quantile, sorted};

/// Returns the ratio `first` ÷ `second` with its 95 % interval. Only the rounds that both have count, and all values must be above 0. `None` with
/// fewer than two common rounds.
pub fn ratio(first: &[f64], second: &[f64]) -> Option<Estimate> {
    let logarithms: Vec<f64> = first.iter().zip(second).map(|(first, second)| (first / second).ln()).collect();
    if logarithms.len() < few::MANY {
        let (mean, half) = few::mean(&logarithms)?;
        return Some(Estimate { median: mean.exp(), interval: Some(((mean - half).exp(), (mean + half).exp())) });
    }
    let walsh = walsh_averages(&logarithms);
    let out = left_out(logarithms.len(), 1.0 - CONFIDENCE).max(1);
    let ends = (walsh[out - 1].exp(), walsh[walsh.len() - out].exp());
    Some(Estimate { median: quantile(&walsh, 0.5).exp(), interval: Some(ends) })
}

/// Returns the means of each two values, and of each value with itself, in ascending order.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let pairs =
        values.iter().enumerate().flat_map(|(at, one)| values[at..].iter().map(move |two| f64::midpoint(*one, *two)));
    sorted(&pairs.collect::<Vec<_>>())
}

/// Returns the number r such that the confidence interval goes from the r-th smallest to the r-th largest Walsh average of `n` values. It misses the
/// truth with at most the probability `missed`. 0: even the interval from the smallest to the largest misses it with a higher probability.
fn left_out(n: usize, missed: f64) -> usize {
    // `counts[w]`: for how many of the 2^n choices of signs the ranks with a positive sign have the sum w. Divided by 2^n from the start.
    let most = n * (n + 1) / 2;
    let mut counts = vec![0.0; most + 1];
    counts[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..=most).rev() {
            let with = if sum >= rank { counts[sum - rank] } else { 0.0 };
            counts[sum] = f64::midpoint(counts[sum], with);
        }
    }
    let mut tail = 0.0;
    let at_most = counts.iter().map(|count| {
        tail += count;
        2.0 * tail
    });
    at_most.take_while(|tails| *tails <= missed * (1.0 + 1e-9)).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use random::Random;

    /// Critical values of the signed-rank test at 5 %, two-sided (Wilcoxon and Wilcox 1964): with a sum of at most this, it rejects.
    #[test]
    fn the_interval_leaves_out_what_the_table_rejects() {
        for (n, critical) in [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89)] {
            assert_eq!(left_out(n, 0.05), critical + 1, "n = {n}");
        }
        assert_eq!(left_out(5, 0.05), 0);
    }

    #[test]
    fn what_disturbs_a_whole_round_cancels() {
        let first = [1.0, 3.0, 1.0, 2.0];
        let second = first.map(|time| time / 0.8);
        let ratio = ratio(&first, &second).unwrap();
        let (low, high) = ratio.interval.unwrap();
        assert!((ratio.median - 0.8).abs() < 1e-9 && high - low < 1e-9, "{ratio:?}");
    }

    #[test]
    fn only_common_rounds_count() {
        let ratio = |first: &[f64], second: &[f64]| super::ratio(first, second).map(|ratio| ratio.median);
        assert!((ratio(&[1.0, 1.0, 100.0], &[2.0, 2.0]).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(ratio(&[1.0], &[2.0]), None);
        assert_eq!(ratio(&[], &[]), None);
    }

    /// By hand: means of the logarithms of 2, 1 and so on: six equal ratios but one, which is off.
    #[test]
    fn one_disturbed_round_of_ten_does_not_decide() {
        let first = [1.0; 10];
        let mut second = [1.1, 1.11, 1.09, 1.1, 1.12, 1.1, 1.08, 1.1, 1.1, 1.1];
        let quiet = ratio(&first, &second).unwrap();
        second[3] = 5.0;
        let disturbed = ratio(&first, &second).unwrap();
        assert!((quiet.median - disturbed.median).abs() < 0.02, "{quiet:?} {disturbed:?}");
        assert!(disturbed.interval.unwrap().1 < 1.0);
    }

    #[test]
    fn the_interval_holds_the_truth_in_nineteen_of_twenty() {
        let mut random = Random::new(11);
        for n in [3, 5, 6, 12] {
            let missed = (0..1000).filter(|_| {
                let mut times = || -> Vec<f64> {
                    let noise =
                        |random: &mut Random| (0..12).map(|_| random.below(1001) as f64 / 1e3).sum::<f64>() - 6.0;
                    (0..n).map(|_| (0.02 * noise(&mut random)).exp()).collect()
                };
                let (first, second) = (times(), times());
                let (low, high) = ratio(&first, &second).unwrap().interval.unwrap();
                !(low..=high).contains(&1.0)
            });
            let missed = missed.count();
            assert!((15..=80).contains(&missed), "{n}: {missed} of 1000");
        }
    }

    proptest! {
        #[test]
        fn a_ratio_and_its_inverse_agree(
            pairs in prop::collection::vec((0.5..2.0_f64, 0.5..2.0_f64), 2..14),
        ) {
            let (first, second): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let (one, other) = (ratio(&first, &second).unwrap(), ratio(&second, &first).unwrap());
            let ((low, high), (inverse_low, inverse_high)) = (one.interval.unwrap(), other.interval.unwrap());
            prop_assert!((one.median * other.median - 1.0).abs() < 1e-9);
            prop_assert!((low * inverse_high - 1.0).abs() < 1e-9 && (high * inverse_low - 1.0).abs() < 1e-9);
            prop_assert!(low <= one.median && one.median <= high);
        }
    }
}
