//! One block of iterations per thread, or chunks round robin: what a thread gets depends on its number only.

use std::ops::Range;

use crate::fixed::Fixed;

/// One block of iterations per thread, in the order of the threads.
#[derive(Clone, Debug, PartialEq)]
pub enum Blocks {
    /// Blocks of equal size; the first N mod P threads have one iteration more, as in libgomp and LLVM.
    Even {
        /// Number of iterations.
        trips: u64,
        /// Number of threads.
        threads: u64,
    },
    /// Blocks of different sizes.
    Cut(Box<[u64]>),
}

impl Blocks {
    /// Divides `trips` iterations evenly. Zero threads count as one.
    #[must_use]
    pub fn even(trips: u64, threads: usize) -> Blocks {
        Blocks::Even { trips, threads: threads.max(1) as u64 }
    }

    /// Divides `trips` iterations in proportion to `weights`, one for each thread. If no weight is above 0, or one of
    /// them is not finite, the blocks are even.
    ///
    /// Each cut point is rounded to the nearest iteration. With more than 2^53 iterations, a cut point has an error of
    /// at most 2^-52 of the loop; each iteration is in one block all the same.
    #[must_use]
    pub fn weighted(trips: u64, weights: &[f64]) -> Blocks {
        let sum: f64 = weights.iter().map(|weight| weight.max(0.0)).sum();
        if !(sum.is_finite() && sum > 0.0) || weights.iter().any(|weight| weight.is_nan()) {
            return Blocks::even(trips, weights.len());
        }
        let mut before = 0.0;
        let mut cuts = vec![0; weights.len() + 1];
        for (cut, weight) in cuts[1..].iter_mut().zip(weights) {
            before += weight.max(0.0);
            *cut = ((before / sum * trips as f64).round() as u64).min(trips);
        }
        cuts[weights.len()] = trips;
        Blocks::Cut(cuts.into_boxed_slice())
    }

    /// Divides `trips` iterations in proportion to the threads' speeds, in multiples of `minimum`: [`cut_by_speeds`].
    #[must_use]
    pub fn by_speeds(trips: u64, minimum: u64, speeds: &[Option<f64>]) -> Blocks {
        let mut cuts = vec![0; speeds.len() + 1].into_boxed_slice();
        cut_by_speeds(trips, minimum, speeds.iter().copied(), &mut cuts);
        Blocks::Cut(cuts)
    }

    /// Returns the block of a thread, which may be empty. Threads outside the team have an empty block.
    #[must_use]
    pub fn of(&self, thread: usize) -> Range<u64> {
        match self {
            Blocks::Even { trips, threads } if (thread as u64) < *threads => {
                let (each, more, thread) = (trips / threads, trips % threads, thread as u64);
                let start = thread * each + thread.min(more);
                start..start + each + u64::from(thread < more)
            }
            Blocks::Cut(cuts) if thread + 1 < cuts.len() => cuts[thread]..cuts[thread + 1],
            _ => 0..0,
        }
    }
}

/// Stores the cut points of blocks in proportion to speeds, one for each thread: thread i gets the iterations from
/// `cuts[i]` to `cuts[i + 1]`. Nothing is allocated. A thread without a speed counts as one of the mean speed. Blocks
/// are multiples of `minimum`, except for the last one that is not empty.
pub fn cut_by_speeds(trips: u64, minimum: u64, speeds: impl Iterator<Item = Option<f64>>, cuts: &mut [u64]) {
    let Some((first, ends)) = cuts.split_first_mut() else { return };
    *first = 0;
    let (mut sum, mut known) = (0.0, 0u32);
    // The speeds are stored in the place of the cut points, since a second reading might give others.
    let mut speeds = speeds.map(|speed| speed.filter(|speed| speed.is_finite() && *speed > 0.0));
    for end in ends.iter_mut() {
        let speed = speeds.next().flatten();
        sum += speed.unwrap_or(0.0);
        known += u32::from(speed.is_some());
        *end = speed.unwrap_or(0.0).to_bits();
    }
    let mean = if known == 0 { 1.0 } else { sum / f64::from(known) };
    sum += mean * (ends.len() as f64 - f64::from(known));
    let minimum = minimum.max(1);
    let units = trips.div_ceil(minimum);
    let mut before = 0.0;
    for end in ends.iter_mut() {
        let speed = f64::from_bits(*end);
        before += if speed > 0.0 { speed } else { mean };
        let cut = ((before / sum * units as f64).round() as u64).min(units);
        *end = cut.saturating_mul(minimum).min(trips);
    }
    ends.last_mut().into_iter().for_each(|end| *end = trips);
}

/// Chunks of one size, round robin among the threads: OpenMP's `schedule(static, chunk)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cyclic {
    chunks: Fixed,
    threads: u64,
}

impl Cyclic {
    /// Distributes `trips` iterations in chunks. Zero threads count as one.
    #[must_use]
    pub fn new(trips: u64, threads: usize, chunk: u64) -> Cyclic {
        Cyclic { chunks: Fixed::new(trips, chunk), threads: threads.max(1) as u64 }
    }

    /// Returns chunk number `k` of a thread, counted from 0; `None` for each `k` after its last one.
    #[must_use]
    pub fn chunk(&self, thread: usize, k: u64) -> Option<Range<u64>> {
        let thread = Some(thread as u64).filter(|thread| *thread < self.threads)?;
        self.chunks.chunk(k.checked_mul(self.threads)?.checked_add(thread)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_blocks_are_those_of_libgomp() {
        let blocks = |trips, threads| (0..threads).map(|t| Blocks::even(trips, threads).of(t)).collect::<Vec<_>>();
        assert_eq!(blocks(10, 4), [0..3, 3..6, 6..8, 8..10]);
        assert_eq!(blocks(2, 4), [0..1, 1..2, 2..2, 2..2]);
        assert_eq!(blocks(u64::MAX, 2), [0..1 << 63, 1 << 63..u64::MAX]);
        assert_eq!(Blocks::even(10, 4).of(4), 0..0);
    }

    #[test]
    fn weighted_blocks_are_in_proportion() {
        let blocks = Blocks::weighted(100, &[1.0, 2.0, 1.0]);
        assert_eq!([0, 1, 2, 3].map(|thread| blocks.of(thread)), [0..25, 25..75, 75..100, 0..0]);
        assert_eq!(Blocks::weighted(u64::MAX, &[1.0, 1e-300]).of(1).end, u64::MAX);
        assert_eq!(Blocks::weighted(9, &[f64::NAN, 1.0, 1.0]), Blocks::even(9, 3));
        assert_eq!(Blocks::weighted(9, &[0.0, 0.0]), Blocks::even(9, 2));
    }

    #[test]
    fn blocks_by_speed_are_multiples_of_the_smallest_size() {
        let blocks = |trips, minimum, speeds: &[Option<f64>]| {
            let blocks = Blocks::by_speeds(trips, minimum, speeds);
            (0..speeds.len()).map(|thread| blocks.of(thread)).collect::<Vec<_>>()
        };
        assert_eq!(blocks(100, 1, &[Some(2.0), Some(1.0), Some(1.0)]), [0..50, 50..75, 75..100]);
        // A thread without a speed has the mean speed of the others.
        assert_eq!(blocks(90, 1, &[Some(2.0), None, Some(4.0), Some(f64::NAN)]), [0..15, 15..38, 38..68, 68..90]);
        assert_eq!(blocks(10, 1, &[None, None]), [0..5, 5..10]);
        assert_eq!(blocks(100, 7, &[Some(1.0), Some(1.0)]), [0..56, 56..100]);
        assert_eq!(blocks(5, 7, &[Some(1.0), Some(1.0)]), [0..5, 5..5]);
        assert_eq!(blocks(u64::MAX, u64::MAX, &[Some(1e-9), Some(1.0)]), [0..0, 0..u64::MAX]);
        assert_eq!(blocks(0, 1, &[Some(1.0), None]), [0..0, 0..0]);
    }

    #[test]
    fn chunks_go_round() {
        let cyclic = Cyclic::new(10, 2, 3);
        assert_eq!([0, 1, 2].map(|k| cyclic.chunk(0, k)), [Some(0..3), Some(6..9), None]);
        assert_eq!([0, 1, u64::MAX].map(|k| cyclic.chunk(1, k)), [Some(3..6), Some(9..10), None]);
        assert_eq!(cyclic.chunk(2, 0), None);
    }
}
