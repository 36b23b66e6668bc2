//! The speed-up by a change, from interleaved runs.

use compare::stats::{CONFIDENCE, median, quantile};
use random::Random;

use super::result::Speedup;

/// Number of bootstrap resamples.
const RESAMPLES: usize = 4_000;

/// Returns median(base) ÷ median(change) with a 95 % interval by resampling whole rounds (percentile bootstrap), so that a disturbance of a round
/// stays with both. The same times give the same interval.
pub fn speedup(base: &[f64], change: &[f64]) -> Option<Speedup> {
    let rounds = base.len().min(change.len());
    if rounds == 0 {
        return None;
    }
    let (base, change) = (&base[..rounds], &change[..rounds]);
    let mut random = Random::new(rounds as u64);
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let picked: Vec<usize> = (0..rounds).map(|_| random.below(rounds)).collect();
        let of = |values: &[f64]| median(&picked.iter().map(|&round| values[round]).collect::<Vec<_>>());
        ratios.push(of(base) / of(change));
    }
    ratios.sort_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let ends = (quantile(&ratios, tail), quantile(&ratios, 1.0 - tail));
    Some(Speedup { ratio: median(base) / median(change), low: ends.0, high: ends.1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_medians_is_inside_its_interval() {
        let base: Vec<f64> = (0..9).map(|round| 2.0 + 0.01 * f64::from(round)).collect();
        let change: Vec<f64> = (0..9).map(|round| 1.0 + 0.02 * f64::from(round % 3)).collect();
        let found = speedup(&base, &change).unwrap();
        assert_eq!(found.ratio, 2.04 / 1.02);
        assert!(
            1.9 < found.low && found.low < found.ratio && found.ratio < found.high && found.high < 2.1,
            "{found:?}"
        );
        assert!(found.width() > 0.0 && found.width() < 0.1);
        assert_eq!(speedup(&base, &change), Some(found), "the same every time");
    }

    #[test]
    fn only_common_rounds_count() {
        let found = speedup(&[1.0, 1.0, 9.0, 9.0, 9.0], &[2.0, 2.0]).unwrap();
        assert_eq!((found.ratio, found.low, found.high), (0.5, 0.5, 0.5));
        assert_eq!(speedup(&[], &[1.0]), None);
    }
}
