//! What a measuring thread does. Each loop returns what it saw in ticks of the counter.

pub mod bsp;
pub mod detour;
pub mod ftq;
pub mod fwq;

use std::sync::atomic::{AtomicBool, Ordering};

use arch::measuring::{Gap, Watched, ticks};

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
