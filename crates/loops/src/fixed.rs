//! Chunks of one size. No table is needed, however many there are.

use std::ops::Range;

/// Chunks of one size; the last one may be smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    trips: u64,
    chunk: u64,
}

impl Fixed {
    /// Divides `trips` iterations into chunks. A chunk of 0 counts as 1.
    #[must_use]
    pub fn new(trips: u64, chunk: u64) -> Fixed {
        Fixed { trips, chunk: chunk.max(1) }
    }

    /// Returns chunk number `k`, counted from 0; `None` for each `k` after the last chunk.
    #[inline]
    #[must_use]
    pub fn chunk(&self, k: u64) -> Option<Range<u64>> {
        let start = k.checked_mul(self.chunk).filter(|start| *start < self.trips)?;
        Some(start..start.saturating_add(self.chunk).min(self.trips))
    }

    /// Returns the size of all chunks but the last one.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.chunk
    }

    /// Returns the number of chunks.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.trips.div_ceil(self.chunk)
    }

    /// Returns true if the loop has no iteration.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trips == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_numbered_to_the_end_and_not_beyond() {
        let fixed = Fixed::new(10, 4);
        assert_eq!([0, 1, 2].map(|k| fixed.chunk(k)), [Some(0..4), Some(4..8), Some(8..10)]);
        assert_eq!([3, 4, u64::MAX].map(|k| fixed.chunk(k)), [None, None, None]);
        assert_eq!((fixed.len(), fixed.is_empty()), (3, false));
        assert_eq!((Fixed::new(0, 4).chunk(0), Fixed::new(0, 4).len()), (None, 0));
    }

    /// A counter of iterations instead of chunks would overflow here.
    #[test]
    fn the_largest_loop_has_all_its_chunks() {
        let fixed = Fixed::new(u64::MAX, 1 << 63);
        assert_eq!(fixed.chunk(1), Some(1 << 63..u64::MAX));
        assert_eq!([2, 3, u64::MAX].map(|k| fixed.chunk(k)), [None, None, None]);
        assert_eq!(Fixed::new(u64::MAX, 1).chunk(u64::MAX - 1), Some(u64::MAX - 1..u64::MAX));
        assert_eq!(Fixed::new(u64::MAX, 1).chunk(u64::MAX), None);
    }
}
