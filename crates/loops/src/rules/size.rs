//! The input of all rules.

/// Number of iterations, number of threads, smallest size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// N.
    pub(crate) trips: u64,
    /// P, from 1.
    pub(crate) threads: u64,
    /// m, from 1.
    pub(crate) minimum: u64,
}

impl Size {
    /// Returns ⌈N/(k·P)⌉.
    pub(crate) fn part(self, k: u64) -> u64 {
        let part = u128::from(self.trips).div_ceil((u128::from(k) * u128::from(self.threads)).max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}
