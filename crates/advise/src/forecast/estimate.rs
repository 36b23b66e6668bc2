//! An estimate from several measurements: their mean, with its standard error.

/// The mean of a figure over several measurement windows of a run, with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    /// Weighted mean.
    pub value: f64,
    /// One standard error of the mean.
    pub error: f64,
}

impl Estimate {
    /// Returns the mean of `(value, weight)` pairs, with its standard error computed from the spread of the values. `None` with fewer than two
    /// values, or if all weights are 0.
    pub fn of(values: &[(f64, f64)]) -> Option<Estimate> {
        let weight: f64 = values.iter().map(|(_, weight)| weight).sum();
        if values.len() < 2 || weight <= 0.0 {
            return None;
        }
        let mean = values.iter().map(|(value, weight)| value * weight).sum::<f64>() / weight;
        let squares: f64 = values.iter().map(|(value, own)| (own * (value - mean)).powi(2)).sum();
        let n = values.len() as f64;
        Some(Estimate { value: mean, error: (squares * n / (n - 1.0)).sqrt() / weight })
    }

    /// Returns the estimate with the larger of its own error and `other`, an error from another source in the same unit.
    pub fn with_error(self, other: f64) -> Estimate {
        Estimate { error: self.error.max(other), ..self }
    }

    /// Returns error ÷ value; infinite if the value is not positive.
    pub fn relative(self) -> f64 {
        if self.value > 0.0 { self.error / self.value } else { f64::INFINITY }
    }
}

/// Returns one standard error of a share `p` that was estimated from `samples` samples.
pub(super) fn sampling_error(p: f64, samples: u64) -> f64 {
    // Laplace's rule of succession: even if none of a few samples is a hit, the true part may be above 0.
    let n = samples as f64 + 2.0;
    let p = (p * samples as f64 + 1.0) / n;
    (p * (1.0 - p) / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_their_errors() {
        // Equal weights: the textbook's s / sqrt(n); 0.6 and 1.0: s = 0.2828, / sqrt(2) = 0.2.
        let estimate = Estimate::of(&[(0.6, 1.0), (1.0, 1.0)]).unwrap();
        assert!((estimate.value - 0.8).abs() < 1e-12 && (estimate.error - 0.2).abs() < 1e-12, "{estimate:?}");
        let weighted = Estimate::of(&[(0.6, 3.0), (1.0, 1.0)]).unwrap();
        assert!((weighted.value - 0.7).abs() < 1e-12);
        assert_eq!(estimate.with_error(0.3).error, 0.3);
        assert_eq!(Estimate::of(&[(0.6, 1.0)]), None);
        assert_eq!(Estimate::of(&[(0.6, 0.0), (0.6, 0.0)]), None);
    }

    #[test]
    fn no_sample_is_no_certainty() {
        assert!((sampling_error(0.5, 998) - (0.25f64 / 1000.0).sqrt()).abs() < 1e-12);
        assert!(sampling_error(0.0, 10) > 0.05 && sampling_error(0.0, 0) > 0.3);
    }
}
