//! Laws of delays the expected maximum of which is known, and how well the estimates do on samples of them.
//!
//! **What no estimate can do.** A source that hits with probability p in each of n phases is seen k ≈ n p times. The
//! information of n Bernoulli trials about p is n / (p (1 − p)), so by the bound of Cramér and Rao an unbiased estimate of p
//! has a relative standard error of at least √((1 − p) / (n p)). The expected maximum of N delays d is d (1 − (1 − p)^N). If p
//! is off by 1 %, it is off by e %, where e = N p (1 − p)^(N−1) / (1 − (1 − p)^N): nearly 1 as long as N p is small. So the
//! median error of the expected maximum is at least about 0.6745 e √((1 − p) / (n p))
//! ([`least_median_error`]), even for an estimate that knows that the law is this one, and knows d.
//!
//! With p = 0.001 and n = 10,000, ten observations, this is 20 % up to N = n/100 and 12 % at n/10. Errors of 5 % at N = 100
//! and 10 % at N = 1,000 need 165 and 16 observations. In 200 samples, the estimates of this crate have errors of 19 % and 13 %, and their intervals
//! cover the truth in 97 %: what is missing is in the recording, not in the estimate. The slowdown has errors of 2 % and 5 % with d = W,
//! because it also contains the work. To know a rare source better, record for longer: a hundred times as many hits for a tenth of the error.

use random::Random;

use crate::bound::Bound;
use crate::draws::quantile;
use crate::largest::{Kind, Largest};
use crate::levels::{Level, Levels, below};

/// A law of delays. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Exponential with mean 1.
    Exponential,
    /// Pareto from 1 on with this exponent.
    Pareto(f64),
    /// A delay of 1,000 with this probability.
    Bernoulli(f64),
    /// A detour each `period` during work of 1,000, seen from a random instant.
    Periodic {
        /// Time from one detour to the next.
        period: f64,
        /// Length of a detour.
        length: f64,
    },
    /// Sums of equal detours: 100 times a Poisson number with this mean.
    Lattice(f64),
    /// Two independent delays with exponential lengths: mean 5 with `often`, 1,000 with `seldom`.
    TwoExponentials {
        /// Probability of the short delay.
        often: f64,
        /// Probability of the long delay.
        seldom: f64,
    },
    /// Two independent delays, each with its probability: 5 with `often`, 3,000 with `seldom`.
    TwoSources {
        /// Probability of the short delay.
        often: f64,
        /// Probability of the long delay.
        seldom: f64,
    },
}

/// Work of a phase.
pub const WORK: f64 = 1000.0;

impl Law {
    /// Returns true if the law has a density in its upper tail.
    #[must_use]
    pub fn is_continuous(self) -> bool {
        matches!(self, Law::Exponential | Law::Pareto(_))
    }

    /// Draws a delay.
    pub fn draw(self, random: &mut Random) -> f64 {
        let unit = 1.0 - random.unit();
        match self {
            Law::Exponential => -unit.ln(),
            Law::Pareto(exponent) => unit.powf(-1.0 / exponent),
            Law::Bernoulli(p) => WORK * f64::from(u8::from(unit <= p)),
            Law::Periodic { period, length } => {
                // Time from the begin of the phase to the end of the next detour.
                let ends = unit * period;
                if ends <= length {
                    ends
                } else if ends < length + WORK {
                    length
                } else {
                    0.0
                }
            }
            Law::Lattice(mean) => {
                let (mut count, mut left) = (0, mean - unit.ln().abs());
                while left > 0.0 {
                    count += 1;
                    left += (1.0 - random.unit()).ln();
                }
                100.0 * f64::from(count)
            }
            Law::TwoExponentials { often, seldom } => {
                let mut one = |chance: f64, mean: f64| {
                    let hit = random.unit() < chance;
                    let length = -(1.0 - random.unit()).ln() * mean;
                    if hit { length } else { 0.0 }
                };
                one(often, 5.0) + one(seldom, 1000.0)
            }
            Law::TwoSources { often, seldom } => {
                let long = if random.unit() < seldom { 3000.0 } else { 0.0 };
                long + if unit <= often { 5.0 } else { 0.0 }
            }
        }
    }

    /// Returns the expected maximum of `n` independent delays.
    #[must_use]
    pub fn expected_maximum(self, n: f64) -> f64 {
        match self {
            Law::Exponential => (1..=n as u64).map(|at| 1.0 / at as f64).sum(),
            // N B(N, 1 − 1/α) = Γ(1 − 1/α) Γ(N + 1) / Γ(N + 1 − 1/α)
            Law::Pareto(exponent) => {
                let a = 1.0 / exponent;
                (ln_gamma(1.0 - a) + ln_gamma(n + 1.0) - ln_gamma(n + 1.0 - a)).exp()
            }
            Law::Bernoulli(p) => WORK * (1.0 - (1.0 - p).powf(n)),
            // length − ∫ P(delay ≤ x)^N dx over the delays below `length`
            Law::Periodic { period, length } => {
                let (none, all) = (1.0 - (WORK + length) / period, 1.0 - WORK / period);
                length - period * (all.powf(n + 1.0) - none.powf(n + 1.0)) / (n + 1.0)
            }
            Law::Lattice(mean) => {
                // ∑ 100 (1 − P(count ≤ k)^N)
                // The probabilities from the largest number down, so that their sum is exact in the tail.
                let mut term = (-mean).exp();
                let mut terms = vec![term];
                for k in 1..400 {
                    term *= mean / f64::from(k);
                    terms.push(term);
                }
                let mut tail = 0.0;
                let mut steps = 0.0;
                for term in terms[1..].iter().rev() {
                    tail += term;
                    steps += 1.0 - below(f64::min(tail, 1.0), n);
                }
                100.0 * steps
            }
            Law::TwoExponentials { often, seldom } => {
                // ∫ (1 − F^N) by the trapezoidal rule.
                let step = 0.05;
                let tail = |x: f64| {
                    let (short, long) = ((-x / 5.0).exp(), (-x / 1000.0).exp());
                    let both = (1000.0 * long - 5.0 * short) / 995.0;
                    often * (1.0 - seldom) * short + seldom * (1.0 - often) * long + often * seldom * both
                };
                let part = |x: f64| 1.0 - below(tail(x), n);
                let steps = 600_000;
                (1..steps).map(|at| part(f64::from(at) * step)).sum::<f64>() * step + step / 2.0 * part(1e-12)
            }
            Law::TwoSources { often, seldom } => {
                let level = |value, mass| Level { value, least: value, mass, count: 1.0 };
                let law = Levels::new(vec![
                    level(3005.0, often * seldom),
                    level(3000.0, seldom * (1.0 - often)),
                    level(5.0, often * (1.0 - seldom)),
                    level(0.0, (1.0 - often) * (1.0 - seldom)),
                ]);
                law.expected_maximum(n)
            }
        }
    }
}

/// Median of the absolute value of the standard normal law.
const MEDIAN_DEVIATION: f64 = 0.6745;

/// Returns how small the median of the relative error of the expected maximum of `n` delays can be, if it is estimated from a sample of `size` delays
/// in which a source hits with probability `p`, always for the same time (see the module).
#[must_use]
pub fn least_median_error(p: f64, size: usize, n: f64) -> f64 {
    let sensitivity = n * p * (1.0 - p).powf(n - 1.0) / (1.0 - (1.0 - p).powf(n));
    MEDIAN_DEVIATION * sensitivity * ((1.0 - p) / (size as f64 * p)).sqrt()
}

/// Returns ln Γ(x) for positive x (Stirling's series, with an error below 10⁻¹¹).
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 12.0 {
        shift += x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

/// How well the estimates for one N did on many samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Number of delays the maximum of which is estimated.
    pub n: f64,
    /// Samples for which an estimate exists, as a part of all.
    pub estimated: f64,
    /// Median of |estimate / truth − 1|.
    pub median_error: f64,
    /// The same for the slowdown, with the work [`WORK`].
    pub slowdown_error: f64,
    /// Samples the interval of which contains the truth, as a part of those with an estimate.
    pub covered: f64,
    /// Samples the *at least* of which is not above the truth, as a part of all.
    pub bound_holds: f64,
    /// Median of *at least* / truth.
    pub median_bound: f64,
}

/// Estimates the expected maximum of each number in `ns` from `repeats` samples of `size` delays.
#[must_use]
pub fn assess(law: Law, size: usize, ns: &[f64], repeats: usize, seed: u64) -> Vec<Row> {
    let mut random = Random::new(seed);
    let mut errors = vec![Vec::new(); ns.len()];
    let mut slowdowns = vec![Vec::new(); ns.len()];
    let mut bounds = vec![Vec::new(); ns.len()];
    let mut covered = vec![0; ns.len()];
    let truths: Vec<f64> = ns.iter().map(|n| law.expected_maximum(*n)).collect();
    for _ in 0..repeats {
        let delays: Vec<f64> = (0..size).map(|_| law.draw(&mut random)).collect();
        let positive: Vec<f64> = delays.into_iter().filter(|delay| *delay > 0.0).collect();
        let zeros = (size - positive.len()) as u64;
        let sample = Levels::of_delays(&positive, zeros, 1.0);
        let bound = Bound::new(&sample);
        let largest = Largest::new(sample, &mut Random::new(random.number()));
        for (at, n) in ns.iter().enumerate() {
            bounds[at].push(bound.expected_maximum(*n) / truths[at]);
            let (kind, estimate) = largest.of(*n);
            assert_eq!(kind == Kind::None, estimate.is_none());
            let Some(estimate) = estimate else { continue };
            errors[at].push((estimate.value / truths[at] - 1.0).abs());
            slowdowns[at].push((estimate.value - truths[at]).abs() / (WORK + truths[at]));
            // The truth can be the end of the interval, with a rounding error.
            let (low, high) = (estimate.low * (1.0 - 1e-9), estimate.high * (1.0 + 1e-9));
            covered[at] += usize::from((low..=high).contains(&truths[at]));
        }
    }
    let part = |count: usize, of: usize| count as f64 / of as f64;
    let row = |at: usize| Row {
        n: ns[at],
        estimated: part(errors[at].len(), repeats),
        median_error: quantile(&mut errors[at].clone(), 0.5),
        slowdown_error: quantile(&mut slowdowns[at].clone(), 0.5),
        covered: part(covered[at], errors[at].len()),
        bound_holds: part(bounds[at].iter().filter(|bound| **bound <= 1.0 + 1e-9).count(), repeats),
        median_bound: quantile(&mut bounds[at].clone(), 0.5),
    };
    (0..ns.len()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each formula against a sample of 300,000 delays.
    #[test]
    fn formulas_agree_with_samples() {
        for law in [
            Law::Exponential,
            Law::Pareto(4.0),
            Law::Bernoulli(0.05),
            Law::Periodic { period: 10_000.0, length: 500.0 },
            Law::TwoSources { often: 0.25, seldom: 0.02 },
            Law::Lattice(0.3),
            Law::Lattice(30.0),
            Law::TwoExponentials { often: 0.25, seldom: 0.02 },
        ] {
            let mut random = Random::new(1);
            let delays: Vec<f64> = (0..300_000).map(|_| law.draw(&mut random)).collect();
            let sample = Levels::of_delays(&delays, 0, 1.0);
            for n in [1.0, 4.0, 30.0] {
                let (is, expected) = (sample.expected_maximum(n), law.expected_maximum(n));
                assert!((is / expected - 1.0).abs() < 0.04, "{law:?} {n}: {is} {expected}");
            }
        }
    }

    /// The estimate that is best if the law is known, d (1 − (1 − k/n)^N), has the least error that the bound permits.
    #[test]
    fn the_best_estimate_of_a_rare_source_has_the_least_error() {
        let (p, size) = (0.001, 10_000);
        let mut random = Random::new(1);
        let mut seen = || (0..size).filter(|_| random.unit() < p).count() as f64;
        let seen: Vec<f64> = (0..1000).map(|_| seen()).collect();
        for (n, promised) in [(10.0, 0.05), (100.0, 0.05), (1000.0, 0.10)] {
            let truth = Law::Bernoulli(p).expected_maximum(n);
            let error = |k: &f64| (Law::Bernoulli(k / size as f64).expected_maximum(n) / truth - 1.0).abs();
            let median = quantile(&mut seen.iter().map(error).collect::<Vec<f64>>(), 0.5);
            let least = least_median_error(p, size, n);
            assert!(least > 1.2 * promised, "{n}: {least}");
            // The number of hits is a whole one, so the median moves in steps of a tenth of its value.
            assert!((median / least - 1.0).abs() < 0.15, "{n}: {median}, not {least}");
        }
        // The recordings that would do.
        assert!(least_median_error(p, 165_000, 100.0) < 0.05 && least_median_error(p, 15_500, 1000.0) < 0.10);
    }

    #[test]
    fn gamma_function() {
        assert!((ln_gamma(0.5).exp() - std::f64::consts::PI.sqrt()).abs() < 1e-10);
        assert!((ln_gamma(11.0).exp() / 3_628_800.0 - 1.0).abs() < 1e-10);
    }
}
