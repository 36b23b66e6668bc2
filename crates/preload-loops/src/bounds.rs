//! The bounds of a loop as compilers pass them, and how iteration numbers become values of the loop's counter.
//!
//! Values are 64-bit words with wrapping arithmetic, which is the same for signed and unsigned counters. The end of the last chunk is the loop's own
//! end: the first value plus the number of iterations times the step may lie beyond the counter's range.

use std::ops::Range;

/// A loop's counter: first value, step, and end (which is not executed).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    first: u64,
    step: u64,
    end: u64,
    /// Number of iterations.
    pub trips: u64,
}

/// A chunk as libomp returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inclusive {
    /// The counter's first value.
    pub first: u64,
    /// The counter's last value, which is executed.
    pub last: u64,
    /// What is added after each iteration.
    pub step: u64,
    /// Whether it contains the loop's last iteration.
    pub is_last: bool,
}

impl Bounds {
    /// Returns the bounds of a loop with a signed counter. A step of 0 gives no iterations.
    #[inline]
    pub fn signed(first: i64, end: i64, step: i64) -> Bounds {
        let (is_up, runs) = (step > 0, if step > 0 { first < end } else { first > end });
        Bounds::new(first as u64, end as u64, step as u64, is_up, runs)
    }

    /// Returns the bounds of a loop with an unsigned counter. If it counts down, the step is the two's complement of what is subtracted.
    #[inline]
    pub fn unsigned(is_up: bool, first: u64, end: u64, step: u64) -> Bounds {
        Bounds::new(first, end, step, is_up, if is_up { first < end } else { first > end })
    }

    /// Returns the bounds of a loop with a signed counter that executes `last`, too; `None` if it has 2^64 iterations.
    #[inline]
    pub fn signed_inclusive(first: i64, last: i64, step: i64) -> Option<Bounds> {
        let is_empty = if step > 0 { first > last } else { first < last };
        Bounds::inclusive(first as u64, last as u64, step, is_empty)
    }

    /// Returns the bounds of a loop with an unsigned counter that executes `last`, too; `None` if it has 2^64 iterations.
    #[inline]
    pub fn unsigned_inclusive(first: u64, last: u64, step: i64) -> Option<Bounds> {
        let is_empty = if step > 0 { first > last } else { first < last };
        Bounds::inclusive(first, last, step, is_empty)
    }

    #[inline]
    fn inclusive(first: u64, last: u64, step: i64, is_empty: bool) -> Option<Bounds> {
        let end = last.wrapping_add(if step > 0 { 1 } else { u64::MAX });
        if is_empty || step == 0 {
            return Some(Bounds { first, step: step as u64, end, trips: 0 });
        }
        let distance = if step > 0 { last.wrapping_sub(first) } else { first.wrapping_sub(last) };
        let steps = if step.unsigned_abs() == 1 { distance } else { distance / step.unsigned_abs() };
        Some(Bounds { first, step: step as u64, end, trips: steps.checked_add(1)? })
    }

    /// Returns a chunk with its last value.
    #[inline]
    pub fn inclusive_values(&self, chunk: &Range<u64>) -> Inclusive {
        let (first, last) = (self.value(chunk.start), self.value(chunk.end - 1));
        Inclusive { first, last, step: self.step, is_last: chunk.end == self.trips }
    }

    #[inline]
    fn new(first: u64, end: u64, step: u64, is_up: bool, runs: bool) -> Bounds {
        let (distance, stride) =
            if is_up { (end.wrapping_sub(first), step) } else { (first.wrapping_sub(end), step.wrapping_neg()) };
        let trips = match stride {
            _ if !runs => 0,
            0 => 0,
            // Most loops; a division takes longer than all the rest.
            1 => distance,
            stride => (distance - 1) / stride + 1,
        };
        Bounds { first, step, end, trips }
    }

    /// Returns the counter's value in an iteration.
    #[inline]
    pub fn value(&self, iteration: u64) -> u64 {
        self.first.wrapping_add(iteration.wrapping_mul(self.step))
    }

    /// Returns the counter's value at the start of a chunk, and where the chunk ends.
    #[inline]
    pub fn values(&self, chunk: &Range<u64>) -> (u64, u64) {
        (self.value(chunk.start), if chunk.end == self.trips { self.end } else { self.value(chunk.end) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bounds: &Bounds) -> (u64, u64) {
        bounds.values(&(0..bounds.trips))
    }

    #[test]
    fn signed_loops_go_both_ways() {
        assert_eq!(Bounds::signed(0, 10, 3).trips, 4);
        assert_eq!(Bounds::signed(10, 0, -3).trips, 4);
        assert_eq!(Bounds::signed(10, 0, -3).values(&(1..2)), (7, 4));
        // The end is the program's, not 10 - 4 * 3.
        assert_eq!(Bounds::signed(10, 0, -3).values(&(3..4)), (1, 0));
        assert_eq!(Bounds::signed(i64::MIN, i64::MAX, 1).trips, u64::MAX);
        assert_eq!(Bounds::signed(i64::MAX, i64::MIN, i64::MIN).trips, 2);
        for (first, end, step) in [(10, 10, 1), (10, 0, 1), (0, 10, -1), (0, 10, 0)] {
            assert_eq!(Bounds::signed(first, end, step).trips, 0);
        }
    }

    #[test]
    fn inclusive_loops_execute_their_last_value() {
        let trips = |bounds: Option<Bounds>| bounds.map(|bounds| bounds.trips);
        assert_eq!(trips(Bounds::signed_inclusive(0, 9, 3)), Some(4));
        assert_eq!(trips(Bounds::signed_inclusive(9, 0, -3)), Some(4));
        assert_eq!(trips(Bounds::signed_inclusive(0, -1, 1)), Some(0));
        assert_eq!(trips(Bounds::signed_inclusive(i64::MIN, i64::MAX, 1)), None);
        assert_eq!(trips(Bounds::unsigned_inclusive(1, u64::MAX, 1)), Some(u64::MAX));
        assert_eq!(trips(Bounds::unsigned_inclusive(u64::MAX, 0, i64::MIN)), Some(2));
        let down = Bounds::signed_inclusive(10, 1, -2).unwrap().inclusive_values(&(3..5));
        assert_eq!(down, Inclusive { first: 4, last: 2, step: -2i64 as u64, is_last: true });
    }

    #[test]
    fn unsigned_loops_use_the_whole_range() {
        let up = Bounds::unsigned(true, 0, u64::MAX, 1);
        assert_eq!((up.trips, all(&up)), (u64::MAX, (0, u64::MAX)));
        let stride = 0x6000_0000_0000_0000;
        let huge = Bounds::unsigned(true, 5, u64::MAX, stride);
        assert_eq!((huge.trips, huge.values(&(2..3))), (3, (5 + 2 * stride, u64::MAX)));
        let down = Bounds::unsigned(false, u64::MAX, 0, 2u64.wrapping_neg());
        assert_eq!((down.trips, down.values(&(1..2))), (1 << 63, (u64::MAX - 2, u64::MAX - 4)));
        assert_eq!(Bounds::unsigned(false, 0, u64::MAX, u64::MAX).trips, 0);
    }
}
