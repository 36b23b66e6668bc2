//! The expected maximum of N delays, with an interval.
//!
//! The law of the delays is the sample below the threshold of the tail and the fitted law above it. The interval shows
//! how the expected maximum varies over [`DRAWS`] laws that are as probable as the sample permits: probabilities of a
//! few dozen ranges of delays from a Dirichlet law with the observations in each (Rubin, "The Bayesian bootstrap",
//! 1981), and parameters of the tail. *Rejected:* resampling the delays. A resampled maximum is never larger than the
//! sample's, so intervals at N = n covered the truth in only 45 % of exponential and 25 % of Pareto samples.

use random::Random;

use crate::cluster::Ladder;
use crate::draws::{gamma, quantile};
use crate::levels::{Levels, below};
use crate::pareto::Pareto;
use crate::tail::Tail;

/// Laws that are drawn for an interval.
pub const DRAWS: usize = 300;
/// Observations that the sample must have for each of the N delays, for an estimate without the fitted tail.
pub const INSIDE: f64 = 100.0;
/// The same if the delays lie on a lattice, the points of which the fit does not know.
pub const INSIDE_LATTICE: f64 = 10.0;
/// Confidence level of intervals.
pub const CONFIDENCE: f64 = 0.95;

/// What an estimate is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The sample contains the answer: N is 1, or the sample has at least 100 N observations (10 N, if the delays are
    /// sums of equal detours).
    Measured,
    /// The answer depends on the fitted tail.
    Extrapolated,
    /// The sample supports no estimate: the tail is too heavy, or no law fits it.
    None,
}

/// An expected maximum in nanoseconds, or what is computed from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

/// A range of levels of the sample that share a drawn probability.
#[derive(Clone, Debug)]
struct Range {
    from: usize,
    to: usize,
    mass: f64,
    count: f64,
}

/// Answers questions about the largest of N delays.
#[derive(Clone, Debug)]
pub struct Largest {
    sample: Levels,
    tail: Tail,
    /// Ranges of the levels below the tail, from the largest delays down.
    ranges: Vec<Range>,
    /// For each draw, the probability of the tail, and of the tail and the ranges up to each.
    draws: Vec<Vec<f64>>,
    count: f64,
}

impl Largest {
    /// Prepares the answers. The same sample and the same state of the generator give the same answers.
    #[must_use]
    pub fn new(sample: Levels, random: &mut Random) -> Largest {
        let tail = Tail::new(&sample, DRAWS, random);
        let (levels, mass, count) = match &tail {
            Tail::Fitted(fit) => (fit.levels, fit.mass, fit.count),
            Tail::TooHeavy(_) | Tail::Unknown => (0, 0.0, 0.0),
        };
        let ranges = ranges(&sample, levels, count);
        let draws = (0..DRAWS).map(|_| probabilities(mass, count, &ranges, random)).collect();
        let count = sample.count();
        Largest { sample, tail, ranges, draws, count }
    }

    /// Returns what is known about the tail.
    #[must_use]
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Returns what an estimate for `n` delays is based on.
    #[must_use]
    pub fn kind(&self, n: f64) -> Kind {
        let is_lattice = matches!(&self.tail, Tail::Fitted(fit) if fit.gap > 0.0);
        let inside = n <= 1.0 || n * if is_lattice { INSIDE_LATTICE } else { INSIDE } <= self.count;
        match self.tail {
            Tail::TooHeavy(_) if n > 1.0 => Kind::None,
            _ if inside => Kind::Measured,
            Tail::Fitted(_) => Kind::Extrapolated,
            Tail::TooHeavy(_) | Tail::Unknown => Kind::None,
        }
    }

    /// Returns the expected maximum of `n` delays in nanoseconds, and what it is based on; no estimate for
    /// [`Kind::None`].
    #[must_use]
    pub fn of(&self, n: f64) -> (Kind, Option<Estimate>) {
        let kind = self.kind(n);
        if kind == Kind::None {
            return (kind, None);
        }
        let values: Vec<f64> = self.ranges.iter().map(|range| self.typical(n, range)).collect();
        let mut drawn: Vec<f64> = (0..DRAWS).map(|draw| self.drawn(n, draw, &values)).collect();
        let rest = (1.0 - CONFIDENCE) / 2.0;
        let (low, high) = (quantile(&mut drawn, rest), quantile(&mut drawn, 1.0 - rest));
        let value = match kind {
            Kind::Measured => self.sample.expected_maximum(n),
            _ => quantile(&mut drawn, 0.5),
        };
        (kind, Some(Estimate { value, low: low.min(value), high: high.max(value) }))
    }

    /// Returns the mean of the delays of a range, weighted by their probability to be the largest of `n`.
    fn typical(&self, n: f64, range: &Range) -> f64 {
        let (part, chance) = self.sample.part_of_maximum(n, range.from, range.to);
        if chance > 1e-12 {
            return part / chance;
        }
        let levels = &self.sample.levels()[range.from..range.to];
        levels.iter().map(|level| level.value * level.mass).sum::<f64>() / range.mass
    }

    /// Returns the expected maximum for one of the drawn laws.
    fn drawn(&self, n: f64, draw: usize, values: &[f64]) -> f64 {
        let reached = &self.draws[draw];
        let mut sum = match &self.tail {
            Tail::Fitted(fit) => {
                let ladder = fit.ladder.as_ref().map_or(0.0, |ladder| on_ladder(n, reached[0], ladder, draw));
                // Evenly distributed over the distance of the lattice, which the fit does not know.
                let shift = fit.gap * ((draw as f64 + 0.5) / DRAWS as f64 - 0.5);
                in_tail(n, reached[0], fit.threshold + shift, fit.draws[draw]) + ladder
            }
            Tail::TooHeavy(_) | Tail::Unknown => 0.0,
        };
        let mut before = below(reached[0], n);
        for (value, reached) in values.iter().zip(&reached[1..]) {
            if before < 1e-14 {
                break;
            }
            let after = below(*reached, n);
            sum += value * (before - after);
            before = after;
        }
        sum
    }
}

/// Divides the levels below the tail into ranges, the observations of which grow by a quarter with the rank.
fn ranges(sample: &Levels, from: usize, above: f64) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut above = above;
    let mut open: Option<Range> = None;
    for (at, level) in sample.levels().iter().enumerate().skip(from) {
        let range = open.get_or_insert(Range { from: at, to: at, mass: 0.0, count: 0.0 });
        range.to = at + 1;
        range.mass += level.mass;
        range.count += level.count;
        if range.count >= (above / 4.0).max(1.0) {
            above += range.count;
            ranges.extend(open.take());
        }
    }
    ranges.extend(open);
    ranges
}

/// Draws the probability of the tail, and of the tail and the ranges up to each.
fn probabilities(tail: f64, count: f64, ranges: &[Range], random: &mut Random) -> Vec<f64> {
    let mut draw = |mass: f64, count: f64| if count > 0.0 { mass * gamma(count, random) / count } else { 0.0 };
    let mut sum = draw(tail, count);
    let mut reached = vec![sum];
    for range in ranges {
        sum += draw(range.mass, range.count);
        reached.push(sum);
    }
    for value in &mut reached {
        *value = (*value / sum).min(1.0);
    }
    reached
}

/// Returns what the steps above a cluster add to the expected maximum of `n` delays.
fn on_ladder(n: f64, probability: f64, ladder: &Ladder, draw: usize) -> f64 {
    let ratio = ladder.ratios[draw];
    let mut sum = 0.0;
    let mut reached = (probability * ladder.first * ratio).min(1.0);
    for _ in 0..STEPS {
        if n * reached < 1e-6 {
            break;
        }
        sum += ladder.height * (1.0 - below(reached, n));
        reached *= ratio;
    }
    sum
}

/// Intervals of Simpson's rule, and largest number of steps on a ladder.
const STEPS: usize = 32;

/// Returns the part of the expected maximum of `n` delays that the tail contributes: ∫ N (1−t)^(N−1) x(t) dt from 0 to
/// its probability, where x(t) is the delay that is exceeded with probability t. The integral is over ln t by Simpson's
/// rule; below the grid, (1−t)^(N−1) is 1. The error is below 0.1 % for shapes up to 0.6, and below 1 % up to 0.95.
fn in_tail(n: f64, probability: f64, threshold: f64, law: Pareto) -> f64 {
    if probability <= 0.0 {
        return 0.0;
    }
    let whole = 1.0 - below(probability, n);
    if law.scale <= 0.0 {
        return threshold * whole;
    }
    // The exponential law as a limit.
    let shape = if law.shape.abs() < 1e-7 { 1e-7 } else { law.shape };
    let factor = law.scale / shape;
    let top = probability.min(40.0 / n);
    let bottom = top.min(1.0 / n) * 1e-3;
    let step = (top / bottom).ln() / STEPS as f64;
    let (grow, shrink) = (step.exp(), (-shape * step).exp());
    let mut t = bottom;
    let mut power = (bottom / probability).powf(-shape);
    let below_grid = n * factor * (power * bottom / (1.0 - shape) - bottom);
    let mut sum = 0.0;
    for at in 0..=STEPS {
        let weight = if at == 0 || at == STEPS { 1.0 } else { 2.0 + 2.0 * (at % 2) as f64 };
        sum += weight * t * ((n - 1.0) * (-t.min(1.0 - 1e-12)).ln_1p()).exp() * factor * (power - 1.0);
        t *= grow;
        power *= shrink;
    }
    threshold * whole + below_grid + n * sum * step / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exponential law: H_N; with a tail that begins at its 5 % quantile.
    #[test]
    fn the_integral_of_an_exponential_tail() {
        for n in [1.0f64, 10.0, 1000.0, 1e6] {
            let harmonic = (1..=n as usize).map(|at| 1.0 / at as f64).sum::<f64>();
            let all = in_tail(n, 1.0, 0.0, Pareto { shape: 0.0, scale: 1.0 });
            assert!((all / harmonic - 1.0).abs() < 1e-3, "{n}: {all} {harmonic}");
        }
        let n = 1e5;
        let part = in_tail(n, 0.05, 20f64.ln(), Pareto { shape: 0.0, scale: 1.0 });
        let harmonic = n.ln() + 0.577_215_7;
        assert!((part / harmonic - 1.0).abs() < 1e-4, "{part} {harmonic}");
    }

    /// Mean of a generalised Pareto law: σ/(1 − ξ). Largest of many, Pareto with exponent 1/ξ: N^ξ Γ(1 − ξ).
    #[test]
    fn the_integral_of_pareto_tails() {
        for shape in [-0.4, 0.25, 0.4, 0.6, 0.9] {
            let mean = in_tail(1.0, 1.0, 0.0, Pareto { shape, scale: 1.0 });
            assert!((mean * (1.0 - shape) - 1.0).abs() < 1e-2, "{shape}: {mean}");
        }
        let is = in_tail(1e6, 0.01, 0.01f64.powf(-0.25), Pareto { shape: 0.25, scale: 0.25 * 0.01f64.powf(-0.25) });
        let expected = 1e6f64.powf(0.25) * 1.225_416_7;
        assert!((is / expected - 1.0).abs() < 1e-3, "{is} {expected}");
    }

    #[test]
    fn kinds_follow_the_sample() {
        let mut random = Random::new(1);
        let delays: Vec<f64> = (0..10_000).map(|_| -(1.0 - random.unit()).ln()).collect();
        let largest = Largest::new(Levels::of_delays(&delays, 0, 1.0), &mut random);
        assert_eq!(largest.kind(100.0), Kind::Measured);
        assert_eq!(largest.kind(101.0), Kind::Extrapolated);
        let few = Largest::new(Levels::of_delays(&[5.0, 3.0], 8, 1.0), &mut random);
        assert_eq!((few.kind(1.0), few.kind(2.0)), (Kind::Measured, Kind::None));
        assert_eq!(few.of(2.0).1, None);
        let one = few.of(1.0).1.unwrap();
        assert!((one.value - 0.8).abs() < 1e-12 && one.low < 0.6 && one.high > 1.0, "{one:?}");
    }

    #[test]
    fn no_delays_cost_nothing() {
        let none = Largest::new(Levels::of_delays(&[], 1_000_000, 1.0), &mut Random::new(1));
        assert_eq!(none.of(100.0).1, Some(Estimate { value: 0.0, low: 0.0, high: 0.0 }));
    }
}
