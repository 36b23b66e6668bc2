//! What a measuring thread does. Each loop returns what it saw in ticks of the counter.

pub mod bsp;
pub mod detour;
pub mod ftq;
pub mod fwq;

use std::sync::atomic::{AtomicBool, Ordering};

use arch::measuring::{Gap, Watched, ticks};
use wire::log_linear;

/// What a thread saw.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Detours: gaps above the threshold. For work quanta, the quanta that took longer than the shortest one by more than the threshold, with the
    /// excess as the length.
    pub gaps: Vec<Gap>,
    /// All detours, also those that were not recorded because the ring was full.
    pub all: Counted,
    /// Of these, the ones of at least the coarse threshold.
    pub coarse: Counted,
    /// All detours of the detour loop by length; empty for other loops.
    pub lengths: Histogram,
    /// Smallest gap or quantum, ticks, and number of readings.
    pub watched: Watched,
    /// Quanta or steps: the time of each (ticks), or for fixed time the units of work in each.
    pub samples: Vec<u64>,
    /// For steps: the time up to the barrier, ticks.
    pub compute: Vec<u64>,
    /// Begin and end, ticks.
    pub window: (u64, u64),
}

impl Series {
    /// Returns whether detours were not recorded because the ring was full.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.all.count > self.gaps.len() as u64
    }

    /// Counts a detour.
    fn take(&mut self, ticks: u64, window: &Window) {
        self.all.take(ticks);
        if ticks >= window.coarse {
            self.coarse.take(ticks);
        }
    }
}

/// Detours as sums, which need no room for each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Their number.
    pub count: u64,
    /// The sum of their lengths, ticks.
    pub sum: u64,
    /// The length of the longest, ticks.
    pub longest: u64,
}

impl Counted {
    fn take(&mut self, ticks: u64) {
        self.count += 1;
        self.sum += ticks;
        self.longest = self.longest.max(ticks);
    }
}

/// Number of buckets for each power of two, as a power of two.
const FINE: u32 = 4;
/// How many detours had which length. Its memory exists before the measurement begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    /// Makes an empty histogram and touches its memory.
    #[must_use]
    pub fn new() -> Histogram {
        let mut counts = vec![u64::MAX; log_linear::buckets(FINE)];
        counts.fill(0);
        Histogram { counts }
    }

    fn take(&mut self, ticks: u64) {
        self.counts[log_linear::bucket(ticks, FINE)] += 1;
    }

    /// Returns the buckets that are not empty: the shortest length of each, ticks, and how many detours are in it.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bucket, count)| (log_linear::first(bucket, FINE), *count))
    }
}

/// From when to when a thread measures, and the thresholds, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// First tick.
    pub begin: u64,
    /// Last tick.
    pub end: u64,
    /// The shortest detour that is recorded.
    pub threshold: u64,
    /// The shortest detour that is counted as coarse; not below the threshold.
    pub coarse: u64,
}

/// Waits for the first tick of a window. All threads of a measurement begin at the same tick.
fn wait_for(begin: u64) -> u64 {
    loop {
        let now = ticks();
        if now >= begin {
            return now;
        }
    }
}

/// Whether the measurement was ended early.
fn is_over(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

/// What [`Ring::new`] writes for gaps.
pub const NO_GAP: Gap = Gap { before: u64::MAX, after: u64::MAX };

/// A list of fixed size, whose memory exists before the measurement begins.
#[derive(Debug)]
pub struct Ring<T> {
    items: Vec<T>,
}

impl<T: Copy> Ring<T> {
    /// Makes room for `size` items and touches it, on the CPU of the calling thread. `filling` is written to all of it; it must not consist of zeros,
    /// because memory that is only to be zero is not touched.
    #[must_use]
    pub fn new(size: usize, filling: T) -> Ring<T> {
        let mut items = vec![filling; size];
        items.clear();
        Ring { items }
    }

    /// Adds an item. Returns false if there is no room.
    pub fn push(&mut self, item: T) -> bool {
        let has_room = self.items.len() < self.items.capacity();
        if has_room {
            self.items.push(item);
        }
        has_room
    }

    /// Returns for how many items there is room in all.
    #[must_use]
    pub fn room(&self) -> usize {
        self.items.capacity()
    }

    /// Returns the items.
    #[must_use]
    pub fn into_items(self) -> Vec<T> {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_is_in_the_bucket_that_begins_just_below_it() {
        for length in (0..1_000).chain((10..64).flat_map(|power| [(1_u64 << power) - 1, 1 << power, (1 << power) + 7]))
        {
            let mut all = Histogram::new();
            all.take(length);
            let buckets: Vec<(u64, u64)> = all.buckets().collect();
            let [(shortest, 1)] = buckets[..] else { panic!("{length}: {buckets:?}") };
            assert!(shortest <= length && (length - shortest) * 16 <= length, "{length} in {shortest}");
        }
        let mut longest = Histogram::new();
        longest.take(u64::MAX);
        assert_eq!(longest.buckets().count(), 1);
    }
}
