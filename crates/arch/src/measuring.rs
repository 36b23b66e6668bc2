//! The clock and the loops that measure noise: what they have in common on all processors.

pub use crate::processor::measuring::{fma_work, has_fma, integer_work, quick_ticks, streaming_work, ticks, until_gap};

/// What a loop has observed besides gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Watched {
    /// The smallest difference of two readings, ticks. `u64::MAX` before the first reading.
    pub smallest: u64,
    /// Number of readings.
    pub readings: u64,
}

impl Default for Watched {
    fn default() -> Watched {
        Watched { smallest: u64::MAX, readings: 0 }
    }
}

/// Two consecutive readings of the counter, ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Gap {
    /// The reading before the gap.
    pub before: u64,
    /// The reading after the gap.
    pub after: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_above_the_threshold_ends_the_loop() {
        let last = ticks();
        let mut watched = Watched::default();
        // Any gap is above a threshold of 0 ticks.
        let gap = until_gap(last, 0, u64::MAX, &mut watched);
        assert_eq!(gap.before, last);
        assert!(gap.after > last);
        assert_eq!(watched, Watched { smallest: u64::MAX, readings: 1 });
    }

    #[test]
    fn without_a_gap_the_loop_ends_at_its_time() {
        let (begin, mut watched) = (ticks(), Watched::default());
        let gap = until_gap(begin, u64::MAX - 1, begin + 1_000_000, &mut watched);
        assert_eq!(gap.before, gap.after);
        assert!(gap.after >= begin + 1_000_000);
        assert!(watched.readings > 10 && watched.smallest > 0 && watched.smallest < 1_000_000, "{watched:?}");
        assert!(u128::from(watched.smallest) * u128::from(watched.readings) <= u128::from(gap.after - begin));
    }

    #[test]
    fn streaming_goes_around() {
        let mut memory = vec![0; 8 * 5];
        assert_eq!(streaming_work(7, &mut memory, 0), 2);
        let counts: Vec<u64> = memory.iter().step_by(8).copied().collect();
        assert_eq!(counts, [2, 2, 1, 1, 1]);
        assert_eq!(memory.iter().sum::<u64>(), 7, "one word of each line");
    }
}
