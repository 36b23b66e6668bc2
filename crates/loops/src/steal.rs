//! `static_steal`: each thread begins with a block of chunks, and a thread without chunks steals from others.
//!
//! All state is one word per thread, a [`Lane`]: the first and the last of the chunks that are left to it. The caller
//! keeps the lanes of a team in atomic words:
//!
//!  1. A thread takes the first chunk of its own lane: it computes [`Lane::take`] and stores the new lane by
//!     compare-and-swap. If that fails, another thread has stolen meanwhile, and the thread computes again.
//!  2. If its lane is empty, the thread looks at the lanes of [`Steal::victims`], in this order. It computes [`Lane::steal`]
//!     and stores what is left to the victim by compare-and-swap.
//!  3. It stores what it has stolen in its own lane, and continues with step 1. Nobody else changes an empty lane.
//!  4. If all lanes are empty, the thread has finished. Chunks that another thread has stolen and not yet stored are
//!     executed by that thread.
//!
//! A word is the whole state of a lane. If it has its old value again, its old meaning is right again, too, so the
//! compare-and-swap cannot succeed by mistake.
//!
//! Source: LLVM's OpenMP runtime (`kmp_dispatch.cpp`). A thief takes a quarter of the victim's rest from its end, or
//! one chunk if fewer than four are left. LLVM locks for indices of 64 bits; here a lane has chunk numbers of 32 bits,
//! and the chunks become larger if there are more than 2^32 − 1.

use std::ops::Range;

use crate::fixed::Fixed;

/// Largest number of chunks.
const MOST: u64 = u32::MAX as u64;

/// A loop whose chunks are stolen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steal {
    chunks: Fixed,
    threads: usize,
}

/// Chunks that are left to a thread, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lane(u64);

impl Steal {
    /// Divides `trips` iterations into chunks of at least `chunk`. Zero threads count as one.
    #[must_use]
    pub fn new(trips: u64, threads: usize, chunk: u64) -> Steal {
        Steal { chunks: Fixed::new(trips, chunk.max(trips.div_ceil(MOST))), threads: threads.max(1) }
    }

    /// Returns the chunks with which a thread begins. The first threads have one more than the others if the number of
    /// chunks cannot be divided.
    #[must_use]
    pub fn lane(&self, thread: usize) -> Lane {
        let chunks = crate::blocks::Blocks::even(self.chunks.len(), self.threads).of(thread);
        Lane::new(chunks.start, chunks.end)
    }

    /// Returns the iterations of a chunk that was taken from a lane.
    #[must_use]
    pub fn iterations(&self, chunk: u32) -> Option<Range<u64>> {
        self.chunks.chunk(u64::from(chunk))
    }

    /// Returns the threads from which `thread` steals, in this order.
    pub fn victims(&self, thread: usize) -> impl Iterator<Item = usize> {
        let threads = self.threads;
        (1..threads).map(move |distance| (thread + distance) % threads)
    }
}

impl Lane {
    fn new(first: u64, end: u64) -> Lane {
        Lane(end << 32 | first)
    }

    /// Returns the lane that a word contains.
    #[must_use]
    pub fn from_word(word: u64) -> Lane {
        Lane(word)
    }

    /// Returns the word for an atomic variable.
    #[must_use]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Returns the number of chunks.
    #[must_use]
    pub fn len(self) -> u32 {
        self.end().saturating_sub(self.first())
    }

    /// Returns true if no chunk is left.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the first chunk, and the lane without it; `None` if the lane is empty.
    #[must_use]
    pub fn take(self) -> Option<(u32, Lane)> {
        let first = self.first();
        (!self.is_empty()).then(|| (first, Lane::new(u64::from(first) + 1, u64::from(self.end()))))
    }

    /// Returns the lane without its last quarter, and this quarter as the thief's lane; `None` if the lane is empty.
    #[must_use]
    pub fn steal(self) -> Option<(Lane, Lane)> {
        let stolen = (self.len() / 4).max(1);
        let cut = u64::from(self.end().checked_sub(stolen).filter(|_| !self.is_empty())?);
        Some((Lane::new(u64::from(self.first()), cut), Lane::new(cut, u64::from(self.end()))))
    }

    fn first(self) -> u32 {
        self.0 as u32
    }

    fn end(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thief_takes_a_quarter_from_the_end() {
        let lane = Lane::new(10, 22);
        let (rest, stolen) = lane.steal().unwrap();
        assert_eq!((rest, stolen), (Lane::new(10, 19), Lane::new(19, 22)));
        assert_eq!(Lane::new(4, 7).steal(), Some((Lane::new(4, 6), Lane::new(6, 7))));
        assert_eq!(Lane::new(4, 4).steal(), None);
        assert_eq!(Lane::new(4, 5).take(), Some((4, Lane::new(5, 5))));
        assert_eq!(Lane::new(5, 5).take(), None);
        assert_eq!(Lane::from_word(lane.word()), lane);
    }

    #[test]
    fn threads_begin_with_blocks_of_chunks() {
        let steal = Steal::new(10, 2, 3);
        assert_eq!([0, 1].map(|thread| steal.lane(thread)), [Lane::new(0, 2), Lane::new(2, 4)]);
        assert_eq!(steal.iterations(3), Some(9..10));
        assert_eq!(Steal::new(10, 4, 1).victims(2).collect::<Vec<_>>(), [3, 0, 1]);
    }

    #[test]
    fn the_largest_loop_has_chunk_numbers_of_32_bits() {
        let steal = Steal::new(u64::MAX, 3, 1);
        let last = steal.lane(2);
        assert_eq!(steal.iterations(last.end() - 1).map(|chunk| chunk.end), Some(u64::MAX));
    }
}
