//! Fixed time quanta: the thread counts the units of work that it does in each interval of an absolute grid. The samples are evenly spaced in time, so
//! their spectrum shows periodic disturbances.

use std::sync::atomic::AtomicBool;

use arch::measuring::{Watched, integer_work, ticks};

use super::{Ring, Series, Window, is_over, wait_for};

/// Size of a unit of work: the clock is read after each, so the work is much longer than a reading.
const UNIT: u64 = 16;

/// Returns the number of whole quanta in a window.
#[must_use]
pub fn room(length: u64, quantum: u64) -> usize {
    (length / quantum.max(1)) as usize + 1
}

/// Counts the units in each quantum of `quantum` ticks. A quantum that a detour covers as a whole has 0 units.
pub fn measure(window: Window, quantum: u64, mut counts: Ring<u64>, stop: &AtomicBool) -> Series {
    // The grid is the counter's own: each quantum begins at a multiple of its length. What passed before the thread came here is not measured: such
    // quanta would look like quanta that were lost as a whole.
    let first = ticks().max(window.begin).next_multiple_of(quantum);
    let mut end = first + quantum;
    let mut now = wait_for(first);
    let mut units = 0;
    while end <= window.end && !is_over(stop) {
        integer_work(UNIT);
        now = ticks();
        if now < end {
            units += 1;
            continue;
        }
        counts.push(units);
        units = 0;
        end += quantum;
        while now >= end && end <= window.end {
            counts.push(0);
            end += quantum;
        }
    }
    let samples = counts.into_items();
    let watched = Watched { smallest: samples.iter().copied().max().unwrap_or(0), readings: samples.len() as u64 };
    Series { samples, watched, window: (first, now), ..Series::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_begins_late_has_lost_nothing_before() {
        let (now, quantum) = (ticks(), 2_000_000);
        let window = Window { begin: now - 100 * quantum, end: now + 8 * quantum, threshold: 0, coarse: 0 };
        let series =
            measure(window, quantum, Ring::new(room(108 * quantum, quantum), u64::MAX), &AtomicBool::new(false));
        assert!(series.window.0 >= now, "{:?} {now}", series.window);
        assert!(series.samples.len() <= 8, "{}", series.samples.len());
    }
}
