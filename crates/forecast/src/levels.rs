//! The sample of delays as a list of levels, from the largest delay down, and the expected maximum of N delays.
//!
//! A recording can have millions of phases. The largest delays are levels of their own. Below them, neighbours are
//! grouped, each group 1 % of its rank, so a few thousand levels are enough. Within a group, the weights of the values
//! in the expected maximum differ by some per cent at most. The mean of the group replaces them with an error below
//! 0.1 %.

/// Delays that are levels of their own.
const SINGLES: usize = 2048;
/// A group of smaller delays contains this part of the delays that are larger.
const GROUP: usize = 100;

/// Delays of about the same size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Mean of the delays, in nanoseconds.
    pub value: f64,
    /// Probability of the level.
    pub mass: f64,
    /// Number of independent observations that the level stands for. Windows that overlap, or that begin within the
    /// same detour, count as less than one each.
    pub count: f64,
}

/// A law of delays as levels, with probabilities that sum to one.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// The levels, from the largest delay down.
    levels: Vec<Level>,
    /// Probability of each level or a larger one.
    reached: Vec<f64>,
}

impl Levels {
    /// Makes levels of delays, in any order, of which `zeros` more were 0. All have the same probability. `repeats`
    /// windows cover the same time and count as one observation.
    #[must_use]
    pub fn of_delays<T: Copy + Into<f64>>(delays: &[T], zeros: u64, repeats: u32) -> Levels {
        let mut delays: Vec<f64> = delays.iter().map(|delay| (*delay).into()).collect();
        delays.sort_unstable_by(|a, b| b.total_cmp(a));
        let mass = 1.0 / (delays.len() as f64 + zeros as f64).max(1.0);
        let count = 1.0 / f64::from(repeats);
        let mut levels = Vec::new();
        let mut at = 0;
        while at < delays.len() {
            let group = if at < SINGLES { 1 } else { at / GROUP };
            let group = &delays[at..delays.len().min(at + group)];
            let size = group.len() as f64;
            let value = if group[0] == group[group.len() - 1] { group[0] } else { group.iter().sum::<f64>() / size };
            levels.push(Level { value, mass: mass * size, count: count * size });
            at += group.len();
        }
        if zeros > 0 || levels.is_empty() {
            let zeros = zeros.max(1) as f64;
            levels.push(Level { value: 0.0, mass: mass * zeros, count: count * zeros });
        }
        Levels::new(levels)
    }

    /// Makes a law of levels in descending order, the masses of which sum to one.
    #[must_use]
    pub fn new(levels: Vec<Level>) -> Levels {
        let mut sum = 0.0;
        let mut reached: Vec<f64> = levels
            .iter()
            .map(|level| {
                sum += level.mass;
                f64::min(sum, 1.0)
            })
            .collect();
        if let Some(last) = reached.last_mut() {
            *last = 1.0;
        }
        Levels { levels, reached }
    }

    /// Returns the levels, from the largest delay down.
    #[must_use]
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Returns the probability of the first `levels` levels.
    #[must_use]
    pub fn reached(&self, levels: usize) -> f64 {
        if levels == 0 { 0.0 } else { self.reached[levels - 1] }
    }

    /// Returns the probability of a delay of at least `value` nanoseconds.
    #[must_use]
    pub fn at_least(&self, value: f64) -> f64 {
        self.reached(self.levels.partition_point(|level| level.value >= value))
    }

    /// Returns the delay that is reached with this probability, in nanoseconds.
    #[must_use]
    pub fn exceeded(&self, probability: f64) -> f64 {
        let at = self.reached.partition_point(|reached| *reached < probability);
        self.levels[at.min(self.levels.len() - 1)].value
    }

    /// Returns the number of independent observations.
    #[must_use]
    pub fn count(&self) -> f64 {
        self.levels.iter().map(|level| level.count).sum()
    }

    /// Returns the mean delay, in nanoseconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.levels.iter().map(|level| level.value * level.mass).sum()
    }

    /// Returns the expected maximum of `n` independent delays, in nanoseconds, if the law has no delays but those seen:
    /// the sum of each delay times the probability that it is the maximum.
    #[must_use]
    pub fn expected_maximum(&self, n: f64) -> f64 {
        self.part_of_maximum(n, 0, self.levels.len()).0
    }

    /// Returns the part of the expected maximum of `n` delays that the levels `from..to` contribute, and the
    /// probability that one of them is the maximum.
    pub(crate) fn part_of_maximum(&self, n: f64, from: usize, to: usize) -> (f64, f64) {
        let mut part = 0.0;
        let start = below(self.reached(from), n);
        let mut before = start;
        for at in from..to {
            let after = below(self.reached[at], n);
            part += self.levels[at].value * (before - after);
            before = after;
            if after < 1e-16 {
                break;
            }
        }
        (part, start - before)
    }
}

/// Returns the probability that none of `n` independent delays reaches a level, which one reaches with probability
/// `reached`.
pub(crate) fn below(reached: f64, n: f64) -> f64 {
    (n * (-reached).ln_1p()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::Random;

    /// By definition, without groups: Σ x₍ᵢ₎ ((i/n)^N − ((i−1)/n)^N).
    fn by_definition(delays: &[f64], n: f64) -> f64 {
        let mut sorted = delays.to_vec();
        sorted.sort_by(f64::total_cmp);
        let all = sorted.len() as f64;
        let parts = sorted.iter().enumerate();
        parts.map(|(at, x)| x * (((at + 1) as f64 / all).powf(n) - (at as f64 / all).powf(n))).sum()
    }

    #[test]
    fn groups_change_the_expected_maximum_by_less_than_a_thousandth() {
        let mut random = Random::new(1);
        let heavy: Vec<f64> = (0..60_000).map(|_| (1.0 - random.unit()).powf(-0.5)).collect();
        // Two sizes, the step between which is within a group.
        let steps: Vec<f64> = (0..60_000).map(|at| if at % 17 == 0 { 900.0 } else { 10.0 }).collect();
        for delays in [heavy, steps] {
            let levels = Levels::of_delays(&delays, 0, 1);
            assert!(levels.levels().len() < 3000);
            for n in [1.0, 2.0, 7.0, 50.0, 3000.0, 1e6] {
                let (is, expected) = (levels.expected_maximum(n), by_definition(&delays, n));
                assert!((is / expected - 1.0).abs() < 1e-3, "{n}: {is} {expected}");
            }
        }
    }

    #[test]
    fn zeros_count() {
        let levels = Levels::of_delays(&[4.0, 2.0], 2, 2);
        assert_eq!((levels.mean(), levels.count()), (1.5, 2.0));
        assert!((levels.expected_maximum(2.0) - (4.0 * 7.0 / 16.0 + 2.0 * 5.0 / 16.0)).abs() < 1e-12);
        assert_eq!((levels.at_least(2.0), levels.at_least(2.1), levels.at_least(5.0)), (0.5, 0.25, 0.0));
        assert_eq!(Levels::of_delays::<f64>(&[], 0, 1).expected_maximum(9.0), 0.0);
    }

    /// The two-source example of research/2, section 2.
    #[test]
    fn two_sources_have_the_published_maximum() {
        let level = |value, mass| Level { value, mass, count: 1.0 };
        let (p, q) = (0.25, 0.001);
        let law = Levels::new(vec![
            level(3005.0, p * q),
            level(3000.0, q * (1.0 - p)),
            level(5.0, p * (1.0 - q)),
            level(0.0, (1.0 - p) * (1.0 - q)),
        ]);
        for (n, expected) in [(16.0, 52.6), (256.0, 683.0), (4096.0, 2955.0)] {
            let is = law.expected_maximum(n);
            assert!((is / expected - 1.0).abs() < 2e-3, "{n}: {is}");
        }
    }
}
