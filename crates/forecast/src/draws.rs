//! Random numbers with a normal or a gamma law, and quantiles of draws.

use random::Random;

/// Returns a number of the standard normal law (Box and Muller 1958).
pub fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Returns a number of the gamma law with this shape and scale 1 (Marsaglia and Tsang, "A simple method for generating
/// gamma variables", ACM TOMS 2000). The shape must be positive.
pub fn gamma(shape: f64, random: &mut Random) -> f64 {
    if shape < 1.0 {
        return gamma(shape + 1.0, random) * (1.0 - random.unit()).powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - random.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// Returns a quantile of the values, interpolated linearly between order statistics; NaN for no values. Sorts the
/// values.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    let place = share * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    values[below] + (values[above] - values[below]) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of the gamma law both equal its shape.
    #[test]
    fn gamma_has_its_moments() {
        for shape in [0.4, 1.0, 3.0, 500.0] {
            let mut random = Random::new(3);
            let values: Vec<f64> = (0..40_000).map(|_| gamma(shape, &mut random)).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64;
            assert!((mean / shape - 1.0).abs() < 0.03, "{shape}: mean {mean}");
            assert!((variance / shape - 1.0).abs() < 0.06, "{shape}: variance {variance}");
        }
    }

    #[test]
    fn quantiles_are_interpolated() {
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0, 4.0], 0.5), 2.5);
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.25), 1.5);
        assert!(quantile(&mut [], 0.5).is_nan());
    }
}
