//! The sample of delays as a list of levels, from the largest delay down, and the expected maximum of N delays.
//!
//! A recording can have millions of phases. The largest delays are levels of their own. The others are grouped by size:
//! a group is at most 0.8 % wide. The mean of the group replaces its delays, which changes the expected maximum by less
//! than 0.1 %. Groups need no sorting of all delays.

/// Delays that are levels of their own; with ties and the rest of a group, a few more.
const SINGLES: usize = 2048;
/// Low bits of a number that a group does not distinguish: 7 bits of the 52 after the leading one remain.
const COARSE_BITS: u32 = 45;

/// Delays of about the same size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Mean of the delays, in nanoseconds.
    pub value: f64,
    /// The smallest of the delays.
    pub least: f64,
    /// Probability of the level.
    pub mass: f64,
    /// Number of independent observations that the level stands for. Windows that overlap, or that begin within the
    /// same detour, count as less than one each.
    pub count: f64,
}

/// Levels with a smaller count are merged with others to an [`Observation`].
const LEAST_COUNT: f64 = 0.5;

/// Neighbouring levels that are together about one independent observation, or more if the delays are equal. In a law
/// with windows that overlap, a single level can be much less than one, and means nothing for the shape of the tail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Mean of the delays, or the delay that most of them have, in nanoseconds.
    pub value: f64,
    /// Probability.
    pub mass: f64,
    /// Number of independent observations.
    pub count: f64,
    /// Levels up to and including these.
    pub levels: usize,
}

impl Observation {
    fn of(merged: &[Level], levels: usize) -> Observation {
        let sum = |of: fn(&Level) -> f64| merged.iter().map(of).sum::<f64>();
        let (mass, count) = (sum(|level| level.mass), sum(|level| level.count));
        let main = merged.iter().find(|level| level.count >= 0.8 * count);
        let value = main.map_or_else(|| sum(|level| level.value * level.mass) / mass, |level| level.value);
        Observation { value, mass, count, levels }
    }
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
    /// Makes levels of positive delays, in any order, of which `zeros` more were 0. All have the same probability. Each
    /// counts as `count` independent observations.
    #[must_use]
    pub fn of_delays(delays: &[f64], zeros: u64, count: f64) -> Levels {
        let mass = 1.0 / (delays.len() as f64 + zeros as f64).max(1.0);
        let level = |value: f64, least: f64, size: f64| Level { value, least, mass: mass * size, count: count * size };
        let mut groups = groups(delays);
        // Groups that contain the largest delays are divided again.
        let mut singles = 0;
        let single_groups = groups.iter().rev().take_while(|group| {
            let more = singles < SINGLES;
            singles += group.size;
            more
        });
        let first = groups.len() - single_groups.count();
        let from = groups.get(first).map_or(f64::INFINITY, |group| group.least);
        let mut largest: Vec<f64> = delays.iter().copied().filter(|delay| *delay >= from).collect();
        largest.sort_unstable_by(|one, two| two.total_cmp(one));
        groups.truncate(first);
        let mut levels: Vec<Level> = Vec::with_capacity(SINGLES + groups.len());
        for delay in largest {
            match levels.last_mut() {
                Some(last) if last.value == delay => {
                    last.mass += mass;
                    last.count += count;
                }
                _ => levels.push(level(delay, delay, 1.0)),
            }
        }
        levels.extend(groups.iter().rev().map(|group| level(group.mean(), group.least, group.size as f64)));
        if zeros > 0 || levels.is_empty() {
            levels.push(level(0.0, 0.0, zeros.max(1) as f64));
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

    /// Returns the same law, each level of which counts for a part of its observations.
    #[must_use]
    pub fn with_counts(mut self, part: f64) -> Levels {
        for level in &mut self.levels {
            level.count *= part;
        }
        self
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

    /// Merges the largest delays to observations, until `count` of them are reached, and one more.
    #[must_use]
    pub fn observations(&self, count: f64) -> Vec<Observation> {
        let mut observations = Vec::new();
        let mut sum = 0.0;
        let mut from = 0;
        let mut open = 0.0;
        for (at, level) in self.levels.iter().enumerate() {
            open += level.count;
            if open < LEAST_COUNT && at + 1 < self.levels.len() {
                continue;
            }
            observations.push(Observation::of(&self.levels[from..=at], at + 1));
            sum += open;
            if sum > count * (1.0 + 1e-9) {
                break;
            }
            (from, open) = (at + 1, 0.0);
        }
        observations
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

/// Delays of about the same size.
#[derive(Clone, Copy, Debug)]
struct Group {
    size: usize,
    sum: f64,
    least: f64,
    most: f64,
}

impl Group {
    fn mean(&self) -> f64 {
        if self.least == self.most { self.least } else { self.sum / self.size as f64 }
    }
}

/// Groups positive delays by the leading bits of their numbers, which have the order of the delays. Returns the groups
/// that are not empty, ascending.
fn groups(delays: &[f64]) -> Vec<Group> {
    let empty = Group { size: 0, sum: 0.0, least: f64::INFINITY, most: 0.0 };
    let group = |delay: f64| (delay.to_bits() >> COARSE_BITS) as usize;
    let mut groups: Vec<Group> = Vec::new();
    // Group of the first element.
    let mut first = 0;
    for &delay in delays {
        let number = group(delay);
        if groups.is_empty() {
            first = number;
        }
        if number < first {
            groups.splice(0..0, std::iter::repeat_n(empty, first - number));
            first = number;
        }
        if number - first >= groups.len() {
            groups.resize(number - first + 1, empty);
        }
        let group = &mut groups[number - first];
        group.size += 1;
        group.sum += delay;
        group.least = group.least.min(delay);
        group.most = group.most.max(delay);
    }
    groups.retain(|group| group.size > 0);
    groups
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
            let levels = Levels::of_delays(&delays, 0, 1.0);
            assert!(levels.levels().len() < 3000);
            for n in [1.0, 2.0, 7.0, 50.0, 3000.0, 1e6] {
                let (is, expected) = (levels.expected_maximum(n), by_definition(&delays, n));
                assert!((is / expected - 1.0).abs() < 1e-3, "{n}: {is} {expected}");
            }
        }
    }

    #[test]
    fn zeros_count() {
        let levels = Levels::of_delays(&[4.0, 2.0], 2, 0.5);
        assert_eq!((levels.mean(), levels.count()), (1.5, 2.0));
        assert!((levels.expected_maximum(2.0) - (4.0 * 7.0 / 16.0 + 2.0 * 5.0 / 16.0)).abs() < 1e-12);
        assert_eq!((levels.at_least(2.0), levels.at_least(2.1), levels.at_least(5.0)), (0.5, 0.25, 0.0));
        assert_eq!(Levels::of_delays(&[], 0, 1.0).expected_maximum(9.0), 0.0);
    }

    /// The two-source example of research/2, section 2.
    #[test]
    fn two_sources_have_the_published_maximum() {
        let level = |value, mass| Level { value, least: value, mass, count: 1.0 };
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
