//! How much instances with the same schedule differ.

use crate::selection::median;

/// Instances whose median counts.
pub const FEW: usize = 8;

/// Neighbouring instances whose differences count.
const REMEMBERED: usize = 32;

/// Smallest standard deviation that is believed: 1 %. A few instances may agree by chance.
const LEAST: f64 = 0.01;

/// The deviation before anything is known, and the number of instances that this counts for.
const BEFOREHAND: f64 = 0.05;
const BEFOREHAND_COUNT: f64 = 4.0;

/// Standard deviation of a normal distribution, divided by the third quartile of absolute values.
const OF_QUARTILE: f64 = 0.87;

/// The deviation of a challenger's difference, divided by that of the difference of two instances: √1.5 ÷ √2.
const OF_NEIGHBOURS: f64 = 0.87;

/// The noise of a loop, from neighbouring instances with the same schedule.
#[derive(Clone, Debug, Default)]
pub struct Noise {
    /// Absolute differences of logarithms of times.
    differences: Vec<f64>,
    /// Differences so far.
    count: usize,
}

impl Noise {
    /// Adds the difference of two neighbours.
    pub fn add(&mut self, difference: f64) {
        if self.differences.len() < REMEMBERED {
            self.differences.push(difference.abs());
        } else {
            self.differences[self.count % REMEMBERED] = difference.abs();
        }
        self.count += 1;
    }

    /// Returns the standard deviation of the difference between a challenger and the champion. It is computed from the third quartile: a few instances in
    /// which a thread lost its CPU do not count as noise of all others, and where that happens in every second one, they do.
    pub fn deviation(&self) -> f64 {
        let mut sorted = self.differences.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let quartile = sorted.get(sorted.len() * 3 / 4).copied().unwrap_or(0.0);
        let seen = quartile * OF_QUARTILE * OF_NEIGHBOURS;
        ((seen * count + BEFOREHAND * BEFOREHAND_COUNT) / (count + BEFOREHAND_COUNT)).max(LEAST)
    }
}

/// The last few values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent {
    values: [f64; FEW],
    count: usize,
}

impl Recent {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.values[self.count % FEW] = value;
        self.count += 1;
    }

    /// Returns the number of values so far.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns the median of the last ones; 0 without any.
    pub fn median(&self) -> f64 {
        let mut values = self.values;
        let last = &mut values[..self.count.min(FEW)];
        if last.is_empty() { 0.0 } else { median(last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_is_learned_and_robust() {
        let mut noise = Noise::default();
        assert_eq!(noise.deviation(), BEFOREHAND);
        for place in 0..100 {
            noise.add(if place % 5 == 0 { 3.0 } else { 0.1 });
        }
        let deviation = noise.deviation();
        assert!((0.07..0.09).contains(&deviation), "{deviation}");
        (0..100).for_each(|place| noise.add(if place % 2 == 0 { 3.0 } else { 0.1 }));
        assert!(noise.deviation() > 1.0, "two kinds of instances");
        let mut quiet = Noise::default();
        (0..100).for_each(|_| quiet.add(0.0));
        assert_eq!(quiet.deviation(), LEAST);
        (0..100).for_each(|_| quiet.add(0.3));
        assert!(quiet.deviation() > 0.2, "old differences are forgotten");
    }

    #[test]
    fn only_the_last_values_count() {
        let mut recent = Recent::default();
        assert_eq!(recent.median(), 0.0);
        (0..20).for_each(|value| recent.add(f64::from(value)));
        assert_eq!((recent.len(), recent.median()), (20, 15.5));
    }
}
