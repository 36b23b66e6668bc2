//! The statistics that only interleaved experiments need. The crate `compare` has those that cox uses as well.

pub use compare::stats::{Estimate, median, median_estimate};

use compare::stats::{CONFIDENCE, quantile, sorted};
use random::Random;

/// Number of bootstrap resamples. With 4,000, the ends of the interval differ by about 1 % of its width between random seeds.
const RESAMPLES: usize = 4_000;

/// Returns the quartiles, first and third, interpolated linearly between order statistics.
pub fn quartiles(values: &[f64]) -> (f64, f64) {
    let sorted = sorted(values);
    (quantile(&sorted, 0.25), quantile(&sorted, 0.75))
}

/// Returns an estimate as text, with its interval: `1.23 (1.10 to 1.40)`.
pub fn shown(estimate: &Estimate, digits: usize) -> String {
    let ends = estimate.interval.map(|(low, high)| format!(" ({low:.digits$} to {high:.digits$})"));
    format!("{:.digits$}{}", estimate.median, ends.unwrap_or_default())
}

/// A measurement of a treatment (a way to run the program) between two plain ones, which are without the treatment. A steady drift (clock frequency,
/// temperature, other tenants) cancels in the comparison with the mean of the plain ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket<V> {
    /// Plain measurement (the baseline) just before the treated one.
    pub before: V,
    /// Measurement of the treatment.
    pub treated: V,
    /// Plain measurement (the baseline) just after the treated one.
    pub after: V,
}

impl<V> Bracket<V> {
    /// Applies `figure` to all three measurements.
    pub fn map<W>(&self, figure: impl Fn(&V) -> W) -> Bracket<W> {
        Bracket { before: figure(&self.before), treated: figure(&self.treated), after: figure(&self.after) }
    }
}

impl Bracket<f64> {
    fn plain(&self) -> f64 {
        f64::midpoint(self.before, self.after)
    }

    /// Returns the measurement of the treatment ÷ the mean of the two plain measurements.
    pub fn ratio(&self) -> f64 {
        self.treated / self.plain()
    }

    /// Returns the measurement of the treatment − the mean of the two plain measurements, in the unit of the values.
    pub fn added(&self) -> f64 {
        self.treated - self.plain()
    }
}

/// Returns the median time that treatment `ours` adds ÷ the median time that `theirs` adds. Both lists are from the same rounds. The interval is
/// found by resampling whole rounds (percentile bootstrap), so that disturbances that both share stay paired. Returns `None` if `theirs` adds no
/// significant time, because the quotient has no meaning then.
pub fn quotient_of_additions(ours: &[Bracket<f64>], theirs: &[Bracket<f64>]) -> Option<Estimate> {
    let rounds = ours.len().min(theirs.len());
    let ours: Vec<f64> = ours[..rounds].iter().map(Bracket::added).collect();
    let theirs: Vec<f64> = theirs[..rounds].iter().map(Bracket::added).collect();
    if median_estimate(&theirs).interval.is_none_or(|(low, _)| low <= 0.0) {
        return None;
    }
    let mut random = Random::new(rounds as u64);
    let mut quotients = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let picked: Vec<usize> = (0..rounds).map(|_| random.below(rounds)).collect();
        let of = |values: &[f64]| median(&picked.iter().map(|&i| values[i]).collect::<Vec<_>>());
        quotients.push(of(&ours) / of(&theirs));
    }
    quotients.sort_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Some(Estimate {
        median: median(&ours) / median(&theirs),
        interval: Some((quantile(&quotients, tail), quantile(&quotients, 1.0 - tail))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_shown_with_its_interval_if_it_has_one() {
        let estimate = |interval| Estimate { median: 1.234, interval };
        assert_eq!(shown(&estimate(Some((1.0, 2.5))), 2), "1.23 (1.00 to 2.50)");
        assert_eq!(shown(&estimate(None), 1), "1.2");
    }

    fn added(amount: f64) -> Bracket<f64> {
        Bracket { before: 90.0, treated: 100.0 + amount, after: 110.0 }
    }

    #[test]
    fn a_bracket_removes_a_steady_drift() {
        let bracket = added(5.0);
        assert_eq!(bracket.added(), 5.0);
        assert_eq!(bracket.ratio(), 1.05);
    }

    #[test]
    fn quotient_is_that_of_the_medians_and_needs_a_real_addition() {
        let ours: Vec<_> = (0..21).map(|i| added(10.0 + f64::from(i % 3))).collect();
        let theirs: Vec<_> = (0..21).map(|i| added(40.0 + f64::from(i % 5))).collect();
        let quotient = quotient_of_additions(&ours, &theirs).unwrap();
        assert_eq!(quotient.median, 11.0 / 42.0);
        let (low, high) = quotient.interval.unwrap();
        assert!(0.22 < low && low <= quotient.median && quotient.median <= high && high < 0.31, "{quotient:?}");

        let nothing: Vec<_> = (0..21).map(|i| added(f64::from(i % 3) - 1.0)).collect();
        assert_eq!(quotient_of_additions(&ours, &nothing), None);
    }
}
