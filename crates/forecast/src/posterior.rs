//! How probable the parameters of a generalised Pareto law are after a sample of excesses.
//!
//! With b = ξ/σ and s(b) = mean of ln(1 + b y), the likelihood of k excesses factors: r = s(b)/ξ has a gamma law given b,
//! and the law of b has one dimension, for which a grid is enough. Draws of (ξ, σ) therefore need neither a search nor a
//! second sample. The prior law is uniform in ln σ, and normal in ξ with mean 0.1 and standard deviation [`PRIOR`]. It
//! only matters for a few dozen excesses.

use random::Random;

use crate::draws::gamma;
use crate::excesses::Excesses;
use crate::pareto::Pareto;

/// Standard deviation of the prior law of the shape.
const PRIOR: f64 = 0.5;

/// The law of the parameters after the sample.
pub(crate) struct Posterior {
    /// Grid over b, with s(b) and the cumulated probability.
    grid: Vec<(f64, f64, f64)>,
    count: f64,
    /// The most probable parameters.
    pub best: Pareto,
}

/// Points of the grid, first over all shapes, then where the likelihood is not negligible.
const COARSE: usize = 34;
const FINE: usize = 32;

impl Posterior {
    /// Computes the law for excesses that count as `k` observations.
    pub(crate) fn new(excesses: &Excesses, k: f64) -> Posterior {
        let largest = excesses.largest();
        // b > −1/largest; with ln(1 + b largest) the domain has no end.
        let at = |a: f64| {
            let b = if a.abs() < 1e-4 { 1e-4 } else { a.exp_m1() } / largest;
            let s = excesses.mean_log(b);
            let prior = -0.5 * ((s - 0.1) / PRIOR).powi(2);
            let ln = if s > -1.0 { k * ((b / s).ln() - s) + (s / b).abs().ln() + prior } else { f64::NEG_INFINITY };
            // The density over a: db = (b + 1/largest) da.
            (a, b, s, ln + (b + 1.0 / largest).ln())
        };
        let scan = |from: f64, to: f64, points: usize| {
            let step = (to - from) / (points - 1) as f64;
            (0..points).map(|point| at(from + step * point as f64)).collect::<Vec<_>>()
        };
        let highest = |points: &[(f64, f64, f64, f64)]| {
            points.iter().enumerate().max_by(|one, two| one.1.3.total_cmp(&two.1.3)).map_or(0, |(at, _)| at)
        };
        let (mut from, mut to) = (-10.0, 12.0);
        let mut points = scan(from, to, COARSE);
        // Twice: the first range is as wide as its step.
        for _ in 0..2 {
            let best = points[highest(&points)].3;
            let near = |point: &(f64, f64, f64, f64)| point.3 > best - 12.0;
            let first = points.iter().position(near).unwrap_or(0).saturating_sub(1);
            let last = points.iter().rposition(near).map_or(0, |at| (at + 1).min(points.len() - 1));
            (from, to) = (points[first].0, points[last].0);
            points = scan(from, to, FINE);
        }
        let best = points[highest(&points)];
        let mut sum = 0.0;
        let grid = points
            .iter()
            .map(|(_, b, s, ln)| {
                sum += (ln - best.3).exp();
                (*b, *s, sum)
            })
            .collect();
        Posterior { grid, count: k, best: Pareto { shape: best.2, scale: best.2 / best.1 } }
    }

    /// Draws parameters.
    pub(crate) fn draw(&self, random: &mut Random) -> Pareto {
        let total = self.grid[self.grid.len() - 1].2;
        let wanted = random.unit() * total;
        let at = self.grid.partition_point(|point| point.2 < wanted).min(self.grid.len() - 1);
        // Between two points, in proportion.
        let (b, s) = if at == 0 {
            (self.grid[0].0, self.grid[0].1)
        } else {
            let (one, two) = (self.grid[at - 1], self.grid[at]);
            let part = (wanted - one.2) / (two.2 - one.2);
            (one.0 + part * (two.0 - one.0), one.1 + part * (two.1 - one.1))
        };
        let r = gamma((self.count - 1.0).max(1.0), random) / self.count;
        let shape = s / r;
        // From 1 on, the expected maximum is infinite.
        Pareto { shape: shape.min(0.95), scale: shape / b }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::Levels;

    fn excess(law: Pareto, random: &mut Random) -> f64 {
        let ln = -(1.0 - random.unit()).ln();
        if law.shape == 0.0 { law.scale * ln } else { law.scale / law.shape * (law.shape * ln).exp_m1() }
    }

    /// The mean of the draws is near the truth, and their spread is the one of maximum likelihood: (1 + ξ)/√k.
    #[test]
    fn the_draws_surround_the_true_parameters() {
        for shape in [-0.3, 0.0, 0.4] {
            let law = Pareto { shape, scale: 7.0 };
            let (mut of_means, mut spread, mut covered) = (0.0, 0.0, 0);
            for seed in 0..60 {
                let mut random = Random::new(seed);
                let values: Vec<f64> = (0..2000).map(|_| excess(law, &mut random)).collect();
                let posterior = {
                    let excesses = Excesses::new(&Levels::of_delays(&values, 0, 1.0).observations(1999.0), 1999.0);
                    Posterior::new(&excesses, 1999.0)
                };
                let shapes: Vec<f64> = (0..200).map(|_| posterior.draw(&mut random).shape).collect();
                let mean = shapes.iter().sum::<f64>() / 200.0;
                let variance = shapes.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 200.0;
                of_means += mean / 60.0;
                spread += variance.sqrt() / 60.0;
                covered += usize::from((mean - shape).abs() < 1.96 * variance.sqrt());
            }
            let expected = (1.0 + shape) / 2000f64.sqrt();
            assert!((of_means - shape).abs() < 0.01, "{shape}: {of_means}");
            assert!((spread / expected - 1.0).abs() < 0.15, "{shape}: {spread}, not {expected}");
            assert!(covered >= 52, "{shape}: {covered} of 60");
        }
    }
}
