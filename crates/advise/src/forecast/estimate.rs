//! A figure and what it may be wrong by.

/// A figure from several windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    /// Weighted mean.
    pub value: f64,
    /// One standard error of it.
    pub error: f64,
}

impl Estimate {
    /// The mean of `(value, weight)`, and its standard error from how much the values differ. `None` with
    /// fewer than two values, or without weight.
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

    /// With an error of another kind, in the same unit: never less than either.
    pub fn with_error(self, other: f64) -> Estimate {
        Estimate { error: self.error.max(other), ..self }
    }

    /// Error ÷ value.
    pub fn relative(self) -> f64 {
        if self.value > 0.0 { self.error / self.value } else { f64::INFINITY }
    }
}

/// One standard error of a part `p` of so many samples.
pub(super) fn sampling_error(p: f64, samples: u64) -> f64 {
    // The rule of succession: also a part of 0 of few samples is not certain.
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
