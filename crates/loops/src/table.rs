//! A table of cut points: chunk k is between cut points k and k + 1.
//!
//! A table is made once for a number of iterations, a number of threads and a schedule, and used by all instances. A
//! request is one fetch-add on a counter of chunks, and one load from the table. Each thread learns that the loop has
//! ended from a k after the last chunk, so the counter ends at most P above the number of chunks and cannot overflow.
//!
//! Sizes of most schedules decrease to the smallest size and stay there. This *tail* has no entries: its chunks are
//! computed. A table has at most [`LONGEST`] entries (8 MiB). If a rule would need more, the rest of the loop is the
//! tail, with chunks of the last size. That happens with more than 1,000 threads (`fiss`, `viss`) or with `rnd` and a
//! small largest size.

use std::ops::Range;

use crate::fixed::Fixed;

/// Largest number of entries.
pub const LONGEST: usize = 1 << 20;

/// Chunks in the order of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Cut points in ascending order. The first one is where the chunks start, usually 0; the last one is where the tail starts.
    cuts: Box<[u64]>,
    /// Chunks after the last cut point.
    tail: Fixed,
}

impl Table {
    /// Returns chunk number `k`, counted from 0; `None` for each `k` after the last chunk.
    #[inline]
    #[must_use]
    pub fn chunk(&self, k: u64) -> Option<Range<u64>> {
        let last = self.cuts.len() - 1;
        let at = usize::try_from(k).ok()?;
        if at < last {
            return Some(self.cuts[at]..self.cuts[at + 1]);
        }
        let from = self.cuts[last];
        self.tail.chunk((at - last) as u64).map(|chunk| from + chunk.start..from + chunk.end)
    }

    /// Moves all chunks behind the first `iterations` of a longer loop.
    pub(crate) fn behind(mut self, iterations: u64) -> Table {
        self.cuts.iter_mut().for_each(|cut| *cut += iterations);
        self
    }

    /// Returns the cut points. Chunk k is between cut points k and k + 1 as long as there are that many; later chunks have no entries.
    #[inline]
    #[must_use]
    pub fn cuts(&self) -> &[u64] {
        &self.cuts
    }

    /// Returns the number of chunks.
    #[must_use]
    pub fn len(&self) -> u64 {
        (self.cuts.len() - 1) as u64 + self.tail.len()
    }

    /// Returns true if the loop has no iteration.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all chunks in order.
    pub fn chunks(&self) -> impl Iterator<Item = Range<u64>> {
        (0..self.len()).map_while(|k| self.chunk(k))
    }
}

/// A table that is being made.
#[derive(Debug)]
pub(crate) struct Cuts {
    trips: u64,
    minimum: u64,
    cuts: Vec<u64>,
    /// Iterations before the last cut point.
    given_out: u64,
}

impl Cuts {
    /// Begins a table of `trips` iterations with a smallest size.
    pub(crate) fn new(trips: u64, minimum: u64) -> Cuts {
        // Room for a small team's table.
        let mut cuts = Vec::with_capacity(64);
        cuts.push(0);
        Cuts { trips, minimum: minimum.max(1), cuts, given_out: 0 }
    }

    /// Returns how many iterations have no chunk yet.
    pub(crate) fn remaining(&self) -> u64 {
        self.trips - self.given_out
    }

    /// Returns true if there are no iterations left, or no entries.
    pub(crate) fn is_full(&self) -> bool {
        self.remaining() == 0 || self.cuts.len() >= LONGEST
    }

    /// Adds a chunk of at least the smallest size, as far as there are iterations.
    pub(crate) fn push(&mut self, size: u64) {
        self.given_out += size.max(self.minimum).min(self.remaining());
        self.cuts.push(self.given_out);
    }

    /// Adds batches of `threads` chunks of equal size until the table is full or the sizes have reached the smallest
    /// one. `size` computes the size from what remains at the start of a batch, and must not increase.
    pub(crate) fn decreasing_batches(&mut self, threads: u64, mut size: impl FnMut(u64) -> u64) {
        while !self.is_full() {
            let size = size(self.remaining());
            if size <= self.minimum {
                return;
            }
            for _ in 0..threads {
                if self.is_full() {
                    return;
                }
                self.push(size);
            }
        }
    }

    /// Ends the table. The rest of the loop is in chunks of the last size if the table is full, else of the smallest.
    pub(crate) fn finish(self) -> Table {
        let last = self.cuts.windows(2).next_back().map_or(1, |cuts| cuts[1] - cuts[0]);
        let size = if self.cuts.len() >= LONGEST { last } else { self.minimum };
        self.finish_with(size)
    }

    /// Ends the table. The rest of the loop is in chunks of `size`.
    pub(crate) fn finish_with(self, size: u64) -> Table {
        Table { tail: Fixed::new(self.remaining(), size.max(self.minimum)), cuts: self.cuts.into_boxed_slice() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_tail_are_one_sequence() {
        let mut cuts = Cuts::new(20, 3);
        cuts.push(7);
        cuts.push(1);
        let table = cuts.finish();
        assert_eq!(table.chunks().collect::<Vec<_>>(), [0..7, 7..10, 10..13, 13..16, 16..19, 19..20]);
        assert_eq!([6, 7, u64::MAX].map(|k| table.chunk(k)), [None, None, None]);
        assert_eq!((table.len(), table.is_empty()), (6, false));
    }

    #[test]
    fn a_loop_without_iterations_has_no_chunk() {
        let table = Cuts::new(0, 1).finish();
        assert_eq!((table.chunk(0), table.len()), (None, 0));
    }

    #[test]
    fn a_full_table_goes_on_with_its_last_size() {
        let mut cuts = Cuts::new(u64::MAX, 1);
        while !cuts.is_full() {
            cuts.push(5);
        }
        let table = cuts.finish();
        let entries = LONGEST as u64 - 1;
        assert_eq!(table.chunk(entries), Some(entries * 5..entries * 5 + 5));
        assert_eq!(table.chunk(table.len() - 1).map(|chunk| chunk.end), Some(u64::MAX));
        assert_eq!(table.chunk(table.len()), None);
    }
}
