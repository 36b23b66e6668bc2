//! Random sizes: `rnd`.

use random::Random;

use super::size::Size;
use crate::table::{Cuts, Table};

/// `rnd`: sizes are uniformly distributed from `low` to `high`, by default from ⌈N/(100P)⌉ to ⌈N/(2P)⌉.
///
/// Source: Ciorba, Iwainsky and Buder, "OpenMP loop scheduling revisited", IWOMP 2018. The same seed gives the same
/// sizes. If the table is full, the rest has the mean size. LB4OMP draws from 1 to N − 1, with the time of day as the
/// seed, and a chunk is its largest size, not the smallest.
pub(crate) fn rnd(size: Size, low: Option<u64>, high: Option<u64>, seed: u64) -> Table {
    let low = low.unwrap_or_else(|| size.part(100)).max(size.minimum);
    let high = high.unwrap_or_else(|| size.part(2)).max(low);
    let range = u128::from(high - low) + 1;
    let mut random = Random::new(seed);
    let mut cuts = Cuts::new(size.trips, size.minimum);
    while !cuts.is_full() {
        cuts.push(low + ((u128::from(random.number()) * range) >> 64) as u64);
    }
    cuts.finish_with(low + (high - low) / 2)
}
