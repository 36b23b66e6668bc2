//! Histogram of the lengths of intervals, with one bucket for each power of two.

/// Number of buckets: one for each power of two in a `u64`.
pub const BUCKETS: usize = 64;

/// Counts lengths of intervals: bucket `n` counts those from 2ⁿ up to, but excluding, 2ⁿ⁺¹ nanoseconds. A length of 0 ns is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Number of lengths in each bucket.
    pub counts: [u64; BUCKETS],
    /// Sum of the lengths in each bucket.
    pub ns: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [0; BUCKETS], ns: [0; BUCKETS] }
    }
}

impl Histogram {
    /// Counts a length in nanoseconds.
    pub fn take(&mut self, length_ns: u64) {
        let Some(bucket) = length_ns.checked_ilog2() else { return };
        self.counts[bucket as usize] += 1;
        self.ns[bucket as usize] = self.ns[bucket as usize].saturating_add(length_ns);
    }

    /// Returns the number of lengths.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the start of a bucket in nanoseconds.
    #[must_use]
    pub fn from_ns(bucket: usize) -> u64 {
        1 << bucket
    }

    /// Returns the range from the first to the last bucket that is not empty.
    #[must_use]
    pub fn used(&self) -> std::ops::Range<usize> {
        let first = self.counts.iter().position(|count| *count > 0);
        let last = self.counts.iter().rposition(|count| *count > 0);
        first.zip(last).map_or(0..0, |(first, last)| first..last + 1)
    }

    /// Returns a power of two that is above at least `percent` of the lengths; `None` if nothing was counted.
    #[must_use]
    pub fn shorter_than_ns(&self, percent: u64) -> Option<u64> {
        let wanted = (u128::from(self.count()) * u128::from(percent)).div_ceil(100);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += u128::from(*count);
            seen >= wanted && seen > 0
        })?;
        Some(1u64.checked_shl(bucket as u32 + 1).unwrap_or(u64::MAX))
    }
}
