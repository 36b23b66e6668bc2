//! Computes quantiles of the lengths of intervals from log-linear histograms. An interval is one wake delay, preempt wait, block or time slice.
//!
//! The buckets are those of `wire/include/cox/latency.h`: 32 of equal width for each power of two. A quantile is reported as the middle of the
//! bucket that contains it, with a relative error of at most [`ERROR`]. Count and maximum are exact.
//!
//! The event that ends an interval counts it. An interval that is open at the end of the window, or that began before its thread was observed, is
//! not counted, because its length is not known. Unknown time belongs to no interval.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::latency::{BUCKETS, INTERVALS, LONGEST, PLACE_SHIFT, PLACES};
use wire::{Clock, Interval, LatencyCount, log_linear};

use crate::figures;
use crate::figures::Seen;
use crate::sees::{Delays, Sees};

/// The largest relative error of a quantile: half the width of a bucket, divided by the smallest length in it.
pub const ERROR: f64 = 1.0 / 64.0;

/// Base-2 logarithm of the number of buckets for each power of two.
const BITS: u32 = 5;

/// Returns the index of the bucket that counts intervals of `ns` nanoseconds.
#[must_use]
pub fn bucket(ns: u64) -> usize {
    log_linear::bucket(ns, BITS).min(BUCKETS - 1)
}

/// Returns the middle of a bucket, ns.
#[must_use]
pub fn middle_ns(bucket: usize) -> u64 {
    log_linear::middle(bucket, BITS)
}

/// Counts intervals by their length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Number of intervals by bucket, up to the last bucket that is not empty.
    counts: Vec<u64>,
    longest_ns: u64,
}

impl Histogram {
    /// Counts an interval.
    pub fn take(&mut self, ns: u64) {
        self.add_to(bucket(ns), 1);
        self.longest_ns = self.longest_ns.max(ns);
    }

    fn add_to(&mut self, bucket: usize, count: u64) {
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] = self.counts[bucket].saturating_add(count);
    }

    /// Adds the intervals of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        other.counts.iter().enumerate().for_each(|(bucket, count)| self.add_to(bucket, *count));
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// Returns the number of intervals.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the smallest length that at least `percent` % of the intervals do not exceed (nearest rank), with a relative error of at most
    /// [`ERROR`]. Returns 0 if there are no intervals.
    #[must_use]
    pub fn quantile_ns(&self, percent: u64) -> u64 {
        let wanted = (u128::from(self.count()) * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += u128::from(*count);
            seen >= wanted
        });
        // The last bucket has no upper end, so the longest interval stands for all intervals in it.
        let value = |bucket| if bucket < BUCKETS - 1 { middle_ns(bucket) } else { u64::MAX };
        reached.map_or(0, |bucket| value(bucket).min(self.longest_ns))
    }

    fn quantiles(&self) -> Quantiles {
        Quantiles {
            count: self.count(),
            p50_ns: self.quantile_ns(50),
            p90_ns: self.quantile_ns(90),
            p99_ns: self.quantile_ns(99),
            max_ns: self.longest_ns,
        }
    }
}

figures! {
    /// Quantiles of the lengths of all intervals of one kind.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct Quantiles {}
    figures of quantile {
        /// Number of intervals.
        count: u64, histogram, "count", Seen::BY_EVENTS;
        /// Median: half of the intervals took no longer.
        p50_ns: u64, histogram, "p50", Seen::BY_EVENTS;
        /// 90 % of the intervals took no longer.
        p90_ns: u64, histogram, "p90", Seen::BY_EVENTS;
        /// 99 % of the intervals took no longer.
        p99_ns: u64, histogram, "p99", Seen::BY_EVENTS;
        /// Length of the longest interval, exactly.
        max_ns: u64, histogram, "max", Seen::BY_EVENTS;
    }
}

/// Quantiles of interval lengths by kind of interval. An interval is counted when it ends; an interval that is open at the end of the window is not
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Latencies {
    /// Wake delays: from a wake-up, or the creation, to the switch-in. Null if the backend does not see wake-ups, or the recording has none.
    pub wake_delay: Option<Quantiles>,
    /// Preempt waits: from a switch-out while runnable to the switch-in.
    pub preempt_wait: Option<Quantiles>,
    /// Blocks: from a switch-out while not runnable to the wake-up, or to the switch-in if `wake_delay` is null.
    pub blocked: Option<Quantiles>,
    /// Time slices: from a switch-in to the switch-out.
    pub slice: Option<Quantiles>,
}

impl Latencies {
    /// Returns the kinds of intervals that the backend sees, with their names in reports.
    pub fn seen(&self) -> impl Iterator<Item = (&'static str, Quantiles)> {
        let all = [
            ("wake delay", self.wake_delay),
            ("preempt wait", self.preempt_wait),
            ("blocked", self.blocked),
            ("time slice", self.slice),
        ];
        all.into_iter().filter_map(|(name, of)| Some((name, of?)))
    }
}

/// The intervals that an event ends, with their lengths in ns: none, one, or a block and the wake delay after it.
pub type Closed = [Option<(Interval, u64)>; 2];

/// One histogram for each kind of interval.
#[derive(Clone, Debug, Default)]
pub struct Histograms([Histogram; INTERVALS]);

impl Histograms {
    /// Adds the intervals of other histograms, kind by kind.
    pub fn add(&mut self, other: &Histograms) {
        self.0.iter_mut().zip(&other.0).for_each(|(all, one)| all.add(one));
    }

    fn take(&mut self, closed: Closed) {
        closed.into_iter().flatten().for_each(|(interval, ns)| self.0[interval as usize].take(ns));
    }

    /// Returns the quantiles of the kinds of intervals that the backend sees.
    pub(crate) fn latencies(&self, sees: &Sees) -> Latencies {
        let of = |interval: Interval| sees.latencies.then(|| self.0[interval as usize].quantiles());
        Latencies {
            wake_delay: of(Interval::WakeDelay).filter(|_| sees.delays == Delays::Apart),
            preempt_wait: of(Interval::PreemptWait),
            blocked: of(Interval::Blocked),
            slice: of(Interval::Slice),
        }
    }

    fn counts(&self, of: u32) -> impl Iterator<Item = LatencyCount> {
        self.0.iter().enumerate().flat_map(move |(interval, histogram)| {
            let counts = histogram.counts.iter().enumerate().map(|(bucket, count)| (bucket as u16, *count));
            let all = counts.chain([(LONGEST, histogram.longest_ns)]).filter(|(_, count)| *count > 0);
            all.map(move |(bucket, count)| LatencyCount { of, interval: interval as u16, bucket, count })
        })
    }

    /// Builds the histograms of programs and threads from the counts of a record. The key is the number of the program or thread:
    /// [`LatencyCount::of`].
    pub(crate) fn read(counts: &[LatencyCount]) -> HashMap<u32, Histograms> {
        let mut all: HashMap<u32, Histograms> = HashMap::new();
        for LatencyCount { of, interval, bucket, count } in counts {
            let Some(histogram) = all.entry(*of).or_default().0.get_mut(usize::from(*interval)) else { continue };
            match *bucket {
                LONGEST => histogram.longest_ns = histogram.longest_ns.max(*count),
                bucket if bucket < LONGEST => histogram.add_to(bucket.into(), *count),
                _ => {}
            }
        }
        all
    }
}

/// The histograms of a replay. A thread with histograms of its own has a number, its [place](Clock::place), as in the kernel. All other threads share
/// histograms, because a replay has only one program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// Histograms of all threads that have none of their own.
    others: Histograms,
    /// Threads' own histograms. The thread with [place](Clock::place) n has the element n − 1.
    threads: Vec<Histograms>,
    /// Whether threads get histograms of their own.
    of_threads: bool,
}

impl Kept {
    pub(crate) fn new(of_threads: bool) -> Kept {
        Kept { of_threads, ..Kept::default() }
    }

    /// Counts the intervals that an event ended. At its first event, a thread gets histograms of its own if this is wanted and the maximum number is
    /// not reached.
    pub(crate) fn take(&mut self, clock: &mut Clock, closed: Closed) {
        if self.of_threads && clock.place().is_none() && self.threads.len() < PLACES as usize {
            self.threads.push(Histograms::default());
            clock.flags |= (self.threads.len() as u32) << PLACE_SHIFT;
        }
        if closed == Closed::default() {
            return;
        }
        let own = clock.place().and_then(|place| self.threads.get_mut(usize::from(place) - 1));
        own.unwrap_or(&mut self.others).take(closed);
    }

    pub(crate) fn counts(&self) -> Vec<LatencyCount> {
        let threads = self.threads.iter().zip(1..).map(|(one, place)| (LatencyCount::of_place(place), one));
        [(0, &self.others)].into_iter().chain(threads).flat_map(|(of, one)| one.counts(of)).collect()
    }
}

#[cfg(test)]
mod tests;
