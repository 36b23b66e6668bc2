//! Selfish detour: the thread reads the clock and does nothing else. What takes the CPU from it is a gap between two readings.

use std::sync::atomic::AtomicBool;

use arch::measuring::{Gap, Watched, ticks, until_gap};

use super::{Histogram, Ring, Series, Window, is_over, wait_for};

/// How often the loop looks whether it should end early, in parts of the window.
const LOOKS: u64 = 100;

/// Reads the clock until `is_done`, which is asked every `tick_limit` ticks.
pub fn warm_up(tick_limit: u64, is_done: impl Fn() -> bool) {
    let mut watched = Watched::default();
    while !is_done() {
        let now = ticks();
        until_gap(now, u64::MAX, now + tick_limit, &mut watched);
    }
}

/// Records the gaps of a window.
pub fn measure(window: Window, ring: Ring<Gap>, lengths: Histogram, stop: &AtomicBool) -> Series {
    let mut ring = ring;
    let mut series = Series { lengths, ..Series::default() };
    let look = (window.end.saturating_sub(window.begin) / LOOKS).max(1);
    let begin = wait_for(window.begin);
    let mut last = begin;
    let mut until = window.end.min(begin + look);
    loop {
        let gap = until_gap(last, window.threshold, until, &mut series.watched);
        last = gap.after;
        if gap.before != gap.after {
            series.take(gap.after - gap.before, &window);
            series.lengths.take(gap.after - gap.before);
            ring.push(gap);
            // The time that storing took is nobody's detour.
            last = ticks();
        }
        if last >= window.end || is_over(stop) {
            break;
        }
        if last >= until {
            until = window.end.min(last + look);
        }
    }
    series.gaps = ring.into_items();
    series.window = (begin, last);
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::NO_GAP;

    /// The figures of a measurement must not depend on how many of its detours there was room for.
    #[test]
    fn detours_that_are_not_listed_are_counted_by_length() {
        let begin = ticks();
        // Each reading of the clock is a detour, and each of them is coarse.
        let window = Window { begin, end: begin + 2_000_000, threshold: 0, coarse: 1 };
        let series = measure(window, Ring::new(10, NO_GAP), Histogram::new(), &AtomicBool::new(false));
        assert_eq!(series.gaps.len(), 10);
        assert!(series.is_truncated() && series.all.count > 100, "{:?}", series.all);
        assert_eq!(series.coarse, series.all);
        assert_eq!(series.lengths.buckets().map(|(_, count)| count).sum::<u64>(), series.all.count);
        let listed = series.gaps.iter().map(|gap| gap.after - gap.before).max().unwrap_or(0);
        assert!(series.all.longest >= listed && series.all.sum >= series.all.longest);
        let window = Window { begin: ticks(), end: ticks() + 2_000_000, threshold: 0, coarse: u64::MAX };
        assert_eq!(measure(window, Ring::new(10, NO_GAP), Histogram::new(), &AtomicBool::new(false)).coarse.count, 0);
    }
}
