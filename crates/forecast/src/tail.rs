//! The upper tail of a law of delays: where it begins, which law fits it, and how uncertain the fit is.
//!
//! Excesses over a high threshold follow nearly a generalised Pareto law with a shape ξ and a scale σ (Pickands 1975):
//! P(excess > y) = (1 + ξ y/σ)^(−1/ξ). The fit is Bayesian. With b = ξ/σ and s(b) = mean of ln(1 + b y), the likelihood
//! of k excesses factors: r = s(b)/ξ has a gamma law given b, and the law of b has one dimension, for which a grid is
//! enough. Draws of (ξ, σ) therefore need neither a search nor a second sample. *Rejected:* probability-weighted
//! moments with a parametric bootstrap, the intervals of which are too narrow for heavy tails and which cost a fit per
//! draw.
//!
//! Noise often has several sources, and the largest excesses can come from one of them only. Therefore:
//!
//! 1. If the largest delays are equal, or a separate cluster, the tail is that cluster (`cluster`).
//! 2. Otherwise the threshold is the lowest one above which the fit passes the test of Anderson and Darling.
//! 3. Sums of nearly equal detours lie in lumps, which no smooth law fits. If gaps between lumps are most of the range,
//!    each delay is spread over the width of the largest gap before the fit.
//! 4. A fit with a shape of [`HEAVIEST`] or more is refused: the mean of the maximum then depends on delays that are
//!    much rarer than any in the sample.

use random::Random;

use crate::cluster::{Ladder, TIES, cluster};
use crate::draws::gamma;
use crate::levels::{Levels, Observation};
use crate::pareto::Pareto;

/// Largest number of observations in a fit.
const MOST: f64 = 1000.0;
/// Up to this number, half of the observations are tried, instead of a tenth.
const HALF: f64 = 100.0;
/// Smallest number of observations in a fit.
const FEWEST: f64 = 12.0;
/// Fits with at least this shape are refused. The variance of the excesses is infinite from 0.5 on. Of samples of 10,000,
/// 0.2 % with shape 0.4 and 99.5 % with shape 2/3 are refused.
pub const HEAVIEST: f64 = 0.53;
/// A fit is rejected if its Anderson-Darling statistic is larger. 1 % of right fits are (20,000 simulated samples).
const POOREST_FIT: f64 = 1.6;
/// The same for excesses that are spread over gaps: lumps remain, and the fit need not be as good.
const POOREST_SPREAD: f64 = 20.0;
/// Part of the range that is in gaps, if delays lie in lumps.
const LUMPS: f64 = 0.5;
/// If a fit is too heavy, the tail can be the lower end of a rarer source with a lighter one. Fits of up to this many
/// times fewer observations are then tried.
const SECOND_LOOK: f64 = 16.0;
/// They are accepted if their shape is so many standard deviations smaller than the first, and at most the second number.
const DOUBT: f64 = 2.7;
const LIGHT: f64 = 0.4;
/// Pieces of a spread excess.
const PIECES: usize = 8;
/// Excesses that are not grouped for the likelihood, and the number in each group of the others.
const UNGROUPED: usize = 100;
const OF_GROUP: usize = 8;
/// Standard deviation of the prior law of the shape, around 0.1.
const PRIOR: f64 = 0.5;

/// The fitted tail.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Levels in the tail.
    pub levels: usize,
    /// Where the tail begins, in nanoseconds.
    pub threshold: f64,
    /// Probability to be in the tail.
    pub mass: f64,
    /// Independent observations in the tail.
    pub count: f64,
    /// The most probable parameters.
    pub best: Pareto,
    /// Parameters, drawn with the probability that they have after the sample.
    pub draws: Vec<Pareto>,
    /// Distance of the lattice that the delays lie on, in nanoseconds; 0 if they do not.
    pub gap: f64,
    /// Larger delays than those of a cluster.
    pub ladder: Option<Ladder>,
}

/// What is known about the tail.
#[derive(Clone, Debug, PartialEq)]
pub enum Tail {
    /// A law fits the tail.
    Fitted(Fit),
    /// The tail is too heavy for a mean; its shape.
    TooHeavy(f64),
    /// There are too few observations, or no law fits.
    Unknown,
}

impl Tail {
    /// Fits the tail, with `draws` draws of the parameters.
    #[must_use]
    pub fn new(sample: &Levels, draws: usize, random: &mut Random) -> Tail {
        if let Some(cluster) = cluster(sample, draws, random) {
            return Tail::Fitted(Fit {
                levels: cluster.levels,
                threshold: cluster.threshold,
                mass: sample.reached(cluster.levels),
                count: cluster.count,
                best: Pareto { shape: 0.0, scale: cluster.scale },
                draws: cluster.draws,
                gap: 0.0,
                ladder: cluster.ladder,
            });
        }
        let n = sample.count();
        let mut wanted = (n / 10.0).max(f64::min(n / 2.0, HALF)).min(MOST);
        let largest = sample.observations(wanted);
        let mut heavy: Option<(f64, f64)> = None;
        while wanted >= heavy.map_or(FEWEST, |heavy| heavy.0 / SECOND_LOOK).max(FEWEST) {
            let excesses = Excesses::new(&largest, wanted);
            if let Some((posterior, excesses)) = excesses.clone().fit().or_else(|| excesses.spread()?.fit()) {
                let shape = posterior.best.shape;
                let limit = heavy.map_or(HEAVIEST, |(count, first)| {
                    let deviation = (1.0 + first) * (1.0 / excesses.count - 1.0 / count).sqrt();
                    (first - DOUBT * deviation).min(LIGHT)
                });
                if shape < limit {
                    return Tail::Fitted(Fit {
                        levels: excesses.levels,
                        threshold: excesses.threshold,
                        mass: sample.reached(excesses.levels),
                        count: excesses.count,
                        best: posterior.best,
                        draws: (0..draws).map(|_| posterior.draw(random)).collect(),
                        gap: excesses.gap,
                        ladder: None,
                    });
                }
                heavy = heavy.or(Some((excesses.count, shape)));
            }
            wanted /= 1.5;
        }
        heavy.map_or(Tail::Unknown, |heavy| Tail::TooHeavy(heavy.1))
    }
}

/// The excesses over a threshold.
#[derive(Clone)]
struct Excesses {
    levels: usize,
    threshold: f64,
    count: f64,
    /// Width over which each excess is spread.
    gap: f64,
    /// Excesses, descending, each with its part of the probability.
    parts: Vec<(f64, f64)>,
    /// The same, the smaller ones in groups with their mean.
    grouped: Vec<(f64, f64)>,
}

impl Excesses {
    /// Takes the largest delays up to the one at which `wanted` observations are reached. The next delay is the
    /// threshold. Delays that are equal to it are not in the tail.
    fn new(largest: &[Observation], wanted: f64) -> Excesses {
        let mut count = 0.0;
        let reached = largest.iter().position(|one| {
            count += one.count;
            count > wanted * (1.0 + 1e-9)
        });
        let threshold = largest[reached.unwrap_or(largest.len() - 1)].value;
        let above = &largest[..largest.partition_point(|one| one.value > threshold)];
        let count = above.iter().map(|one| one.count).sum();
        let mass: f64 = above.iter().map(|one| one.mass).sum();
        let parts = above.iter().map(|one| (one.value - threshold, one.mass / mass)).collect();
        Excesses::of_parts(above.last().map_or(0, |one| one.levels), threshold, count, parts)
    }

    fn of_parts(levels: usize, threshold: f64, count: f64, parts: Vec<(f64, f64)>) -> Excesses {
        let singles = parts.len().min(UNGROUPED);
        let mut grouped = parts[..singles].to_vec();
        grouped.extend(parts[singles..].chunks(OF_GROUP).map(|group| {
            let part: f64 = group.iter().map(|(_, part)| part).sum();
            (group.iter().map(|(y, part)| y * part).sum::<f64>() / part, part)
        }));
        Excesses { levels, threshold, count, gap: 0.0, parts, grouped }
    }

    /// Spreads each excess over the width of the largest gap. None if the excesses do not lie in lumps.
    fn spread(&self) -> Option<Excesses> {
        let gap = self.gap_between_lumps()?;
        let pieces = |(y, part): &(f64, f64)| {
            let (y, part) = (*y, part / PIECES as f64);
            (0..PIECES).map(move |at| (y + gap * (1.0 - (at as f64 + 0.5) / PIECES as f64), part))
        };
        let mut parts: Vec<(f64, f64)> = self.parts.iter().flat_map(pieces).collect();
        parts.sort_unstable_by(|one, two| two.0.total_cmp(&one.0));
        Some(Excesses { gap, ..Excesses::of_parts(self.levels, self.threshold - gap / 2.0, self.count, parts) })
    }

    /// Returns the largest gap, if the excesses lie in lumps: gaps of at least half its size are most of the range, and
    /// several observations are between each two of them. The very largest excesses are not considered, because gaps
    /// between those of a smooth law are wide, too.
    fn gap_between_lumps(&self) -> Option<f64> {
        let mut count = 0.0;
        let first = self.parts.iter().position(|(_, part)| {
            count += part * self.count;
            count >= TIES
        })?;
        let below = |at: usize| self.parts.get(at + 1).map_or(0.0, |part| part.0);
        let gap = |at: usize| self.parts[at].0 - below(at);
        let largest = (first..self.parts.len()).map(gap).fold(0.0, f64::max);
        let (mut wide, mut lump) = (0.0, TIES);
        for at in 0..self.parts.len() {
            if at > first {
                lump += self.parts[at].1 * self.count;
            }
            if gap(at) >= largest / 2.0 {
                if lump < TIES {
                    return None;
                }
                wide += gap(at);
                lump = if at < first { TIES } else { 0.0 };
            }
        }
        let range = self.parts[0].0;
        (largest > 0.0 && largest <= 0.7 * range && wide >= LUMPS * range).then_some(largest)
    }

    /// Returns the law of the parameters, if there are enough excesses and the best law is near them. Spread excesses are
    /// still steps. If they are far from the best law, they count as fewer observations.
    fn fit(self) -> Option<(Posterior, Excesses)> {
        if self.count < FEWEST {
            return None;
        }
        let posterior = Posterior::new(&self, self.count);
        let distance = self.distance(posterior.best);
        if distance <= POOREST_FIT {
            return Some((posterior, self));
        }
        let is_near = self.gap > 0.0 && distance <= POOREST_SPREAD;
        is_near.then(|| (Posterior::new(&self, (self.count * POOREST_FIT / distance).max(FEWEST)), self))
    }

    /// Returns the mean of ln(1 + b y).
    fn mean_log(&self, b: f64) -> f64 {
        self.grouped.iter().map(|(y, part)| part * (b * y).ln_1p()).sum()
    }

    /// Returns the statistic of Anderson and Darling: k ∫ (F_k − F)² / (F (1 − F)) dF, where F_k is the law of the
    /// excesses and F the fitted one.
    fn distance(&self, law: Pareto) -> f64 {
        let b = law.shape / law.scale;
        let survival = |y: f64| ((b * y).max(-1.0 + 1e-12).ln_1p() / -law.shape).exp().clamp(1e-12, 1.0 - 1e-12);
        let piece = |share: f64, from: f64, to: f64| {
            let rest = 1.0 - share;
            share * share * (to / from).ln() - rest * rest * ((1.0 - to) / (1.0 - from)).ln() - (to - from)
        };
        let (mut sum, mut share, mut from) = (0.0, 0.0, 1e-12);
        for (y, part) in &self.parts {
            let to = survival(*y).max(from);
            sum += piece(share, from, to);
            share += part;
            from = to;
        }
        self.count * (sum + piece(1.0, from, 1.0 - 1e-12))
    }
}

/// The law of the parameters after the sample.
struct Posterior {
    /// Grid over b, with s(b) and the cumulated probability.
    grid: Vec<(f64, f64, f64)>,
    count: f64,
    best: Pareto,
}

/// Points of the grid, first over all shapes, then where the likelihood is not negligible.
const COARSE: usize = 34;
const FINE: usize = 32;

impl Posterior {
    /// Computes the law for excesses that count as `k` observations.
    fn new(excesses: &Excesses, k: f64) -> Posterior {
        let largest = excesses.parts[0].0;
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

    fn draw(&self, random: &mut Random) -> Pareto {
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
        Pareto { shape: shape.min(0.95), scale: shape / b }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excess(law: Pareto, random: &mut Random) -> f64 {
        let ln = -(1.0 - random.unit()).ln();
        if law.shape == 0.0 { law.scale * ln } else { law.scale / law.shape * (law.shape * ln).exp_m1() }
    }

    fn fitted(values: &[f64], seed: u64) -> Tail {
        Tail::new(&Levels::of_delays(values, 0, 1.0), 300, &mut Random::new(seed))
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

    #[test]
    fn right_fits_pass() {
        for shape in [-0.2, 0.0, 0.4] {
            let law = Pareto { shape, scale: 7.0 };
            let mut rejected = 0;
            for seed in 0..200 {
                let mut random = Random::new(seed);
                let values: Vec<f64> = (0..401).map(|_| excess(law, &mut random)).collect();
                let excesses = Excesses::new(&Levels::of_delays(&values, 0, 1.0).observations(400.0), 400.0);
                let distance = excesses.distance(Posterior::new(&excesses, 400.0).best);
                rejected += usize::from(distance > POOREST_FIT);
            }
            println!("{shape}: {rejected} of 200 rejected");
            assert!(rejected <= 8, "{shape}: {rejected} of 200");
        }
    }

    #[test]
    fn heavy_tails_are_refused() {
        let mut refused = [0; 2];
        for seed in 0..40 {
            for (at, alpha) in [1.5, 2.5].into_iter().enumerate() {
                let mut random = Random::new(seed);
                let values: Vec<f64> = (0..10_000).map(|_| (1.0 - random.unit()).powf(-1.0 / alpha)).collect();
                refused[at] += usize::from(matches!(fitted(&values, seed), Tail::TooHeavy(_)));
            }
        }
        assert!(refused[0] >= 36 && refused[1] <= 1, "{refused:?}");
    }

    /// 3 ms ± 3 µs of a daemon above ticks of 5 µs: the threshold is not in the gap.
    #[test]
    fn a_separate_cluster_is_the_tail() {
        let mut random = Random::new(1);
        let mut values = vec![5e3; 2500];
        values.extend((0..12).map(|_| 3e6 + 3e3 * random.unit()));
        let Tail::Fitted(fit) = Tail::new(&Levels::of_delays(&values, 7500, 1.0), 100, &mut random) else { panic!() };
        assert_eq!((fit.levels, fit.count, fit.best.shape), (6, 6.0, 0.0));
        assert!(fit.threshold >= 3e6 && fit.best.scale < 3e3);
    }

    #[test]
    fn equal_largest_delays_have_no_excess() {
        let Tail::Fitted(fit) = fitted(&[9.0, 9.0, 9.0, 5.0, 4.0], 1) else { panic!() };
        assert_eq!((fit.threshold, fit.best.scale, fit.draws[0].scale), (9.0, 0.0, 0.0));
        assert_eq!(fitted(&[9.0, 9.0, 5.0, 4.0, 3.0], 1), Tail::Unknown);
    }
}
