//! Batches of weighted schedules. The batch is found from the iterations given out: batch b begins where the sizes of
//! the batches before it end, if each is P times its chunk. With equal weights, the chunks are those of factoring by
//! halves; with other weights, a chunk may reach over the end of its batch.

/// First iterations and sizes of all batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batches(Box<[(u64, u64)]>);

/// Returns ⌈R/(2P)⌉.
#[inline]
pub(crate) fn half(remaining: u64, threads: u64) -> u64 {
    remaining.div_ceil(threads.saturating_mul(2))
}

impl Batches {
    /// Divides `trips` iterations: the chunks of a batch have ⌈R/(2P)⌉ iterations, at least `minimum`, where R
    /// iterations remain at the start of the batch. There are at most about 66 batches.
    #[must_use]
    pub fn new(trips: u64, threads: u64, minimum: u64) -> Batches {
        let mut batches = Vec::new();
        let mut start = 0;
        while start < trips {
            let size = half(trips - start, threads).max(minimum).max(1);
            batches.push((start, size));
            if size == minimum.max(1) {
                // All later batches have this size, too.
                break;
            }
            start = start.saturating_add(size.saturating_mul(threads));
        }
        Batches(batches.into_boxed_slice())
    }

    /// Returns the size of a chunk after `given_out` iterations, where `scaled` multiplies the size of a batch by a
    /// weight.
    ///
    /// If less than half of the chunk would be in its batch, it belongs to the next batch. Otherwise, one iteration
    /// that rounding has left in a batch would become a large chunk.
    #[inline]
    #[must_use]
    pub fn weighted(&self, given_out: u64, scaled: impl Fn(u64) -> u64) -> u64 {
        let after = self.0.partition_point(|(start, _)| *start <= given_out);
        let Some((_, size)) = after.checked_sub(1).and_then(|at| self.0.get(at)) else { return 1 };
        let size = scaled(*size);
        match self.0.get(after) {
            Some((start, next)) if start - given_out < size / 2 => scaled(*next),
            _ => size,
        }
    }
}

impl Batches {
    /// Returns the sizes after `from` iterations, in the order in which they count, each with the number of iterations given out below which it does: what
    /// [`Batches::weighted`] returns.
    #[inline]
    pub(super) fn pieces(&self, from: u64, scaled: impl Fn(u64) -> u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.0.partition_point(|(start, _)| *start <= from).saturating_sub(1);
        self.0.iter().enumerate().skip(first).map(move |(at, (start, size))| {
            let size = scaled(*size);
            let until = match self.0.get(at + 1) {
                // The chunk belongs to its batch if at least half of it is there.
                Some((next, _)) => next.checked_sub(size / 2).map_or(0, |most| most + 1).clamp(*start, *next),
                None => u64::MAX,
            };
            (until, size)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(batches: &Batches, given_out: u64) -> u64 {
        batches.weighted(given_out, |size| size)
    }

    #[test]
    fn batches_halve() {
        let batches = Batches::new(1000, 4, 1);
        let starts = [0, 500, 752, 876, 940, 972, 988, 996];
        assert_eq!(starts.map(|start| size(&batches, start)), [125, 63, 31, 16, 8, 4, 2, 1]);
        assert_eq!([437, 438, 751, 999].map(|given_out| size(&batches, given_out)), [125, 125, 31, 1]);
        assert_eq!([439, 499].map(|given_out| size(&batches, given_out)), [63, 63]);
    }

    #[test]
    fn the_largest_loop_has_few_batches() {
        assert!(Batches::new(u64::MAX, 1, 1).0.len() <= 66);
        assert!(Batches::new(u64::MAX, 10_000, 1).0.len() <= 66);
        assert_eq!(Batches::new(u64::MAX, 1, u64::MAX).0[..], [(0, u64::MAX)]);
        assert_eq!(size(&Batches::new(0, 1, 1), 0), 1);
    }
}
