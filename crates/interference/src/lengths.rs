//! Counts intervals by their length, with a small error however many there are.

use std::collections::BTreeMap;

use wire::log_linear::{bucket, middle};

/// Base-2 logarithm of the number of buckets for each power of two.
const FINE: u32 = 8;
/// The largest relative error of a quantile: half the width of a bucket, divided by the smallest length in it.
pub const ERROR: f64 = 1.0 / 512.0;

/// How many intervals had which length. Only buckets that are not empty take memory: usually some dozens, and 256 for each power of two at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Number of intervals by bucket.
    counts: BTreeMap<usize, u64>,
    longest_ns: u64,
}

impl Lengths {
    /// Counts an interval.
    pub fn take(&mut self, ns: u64) {
        *self.counts.entry(bucket(ns, FINE)).or_default() += 1;
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Adds the intervals of others.
    pub fn add(&mut self, others: &Lengths) {
        others.counts.iter().for_each(|(bucket, count)| *self.counts.entry(*bucket).or_default() += count);
        self.longest_ns = self.longest_ns.max(others.longest_ns);
    }

    /// Returns the number of intervals.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the length of the longest interval, ns; 0 if there are none.
    #[must_use]
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// Returns the median (nearest rank), ns, with a relative error of at most [`ERROR`]; 0 if there are no intervals.
    #[must_use]
    pub fn median_ns(&self) -> u64 {
        let wanted = self.count().div_ceil(2);
        let mut counted = 0;
        let reached = self.counts.iter().find(|(_, count)| {
            counted += **count;
            counted >= wanted
        });
        reached.map_or(0, |(bucket, _)| middle(*bucket, FINE).min(self.longest_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lengths: &[u64]) -> Lengths {
        let mut all = Lengths::default();
        lengths.iter().for_each(|ns| all.take(*ns));
        all
    }

    #[test]
    fn the_median_is_the_exact_one_within_the_error() {
        let mut lengths = Vec::new();
        for n in 1..500_u64 {
            lengths.push(n * n * 37 % 1_000_003 * (n % 7 + 1));
            let mut sorted = lengths.clone();
            sorted.sort_unstable();
            let (found, exact) = (of(&lengths).median_ns(), sorted[(sorted.len() - 1) / 2]);
            assert!(found.abs_diff(exact) as f64 <= exact as f64 * ERROR, "{n}: {found}, {exact} ns");
        }
    }

    #[test]
    fn the_longest_and_the_number_are_exact() {
        let (one, other) = (of(&[7, 1_000_001, 12]), of(&[5, 999]));
        assert_eq!((one.count(), one.longest_ns(), one.median_ns()), (3, 1_000_001, 12));
        let mut both = one;
        both.add(&other);
        assert_eq!(both, of(&[7, 1_000_001, 12, 5, 999]));
        assert_eq!((Lengths::default().median_ns(), Lengths::default().longest_ns()), (0, 0));
        // The middle of its bucket would be longer than the only interval.
        assert_eq!(of(&[1 << 20]).median_ns(), 1 << 20);
    }
}
