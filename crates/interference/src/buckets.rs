//! Histograms of quanta and steps: how often which length was seen.
//!
//! Lengths differ little from the shortest one, and what is above it is what was lost. So the buckets are log-linear in the *excess*: single
//! nanoseconds up to 16, then sixteen buckets for each power of two. The error of an excess is below 1/16 of it, however long a quantum is.

use std::collections::BTreeMap;

use wire::log_linear;

/// Number of buckets for each power of two, as a power of two.
const FINE: u32 = 4;

/// Returns the buckets that are not empty: the shortest length of each, and how many lengths are in it.
#[must_use]
pub fn buckets(lengths: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let lengths: Vec<u64> = lengths.into_iter().collect();
    let shortest = lengths.iter().copied().min().unwrap_or(0);
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for length in lengths {
        *counts.entry(shortest + first_of(length - shortest)).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// Returns the smallest excess of the bucket that holds an excess.
fn first_of(excess: u64) -> u64 {
    log_linear::first(log_linear::bucket(excess, FINE), FINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_is_in_one_bucket_near_its_excess() {
        let excesses = (0..2_000).chain((11..50).map(|power| (1_u64 << power) + 12_345));
        for excess in excesses {
            let first = first_of(excess);
            assert!(first <= excess && (excess - first) * 16 <= excess, "{excess} in {first}");
            assert_eq!(first_of(first), first, "{excess}");
        }
    }

    #[test]
    fn buckets_begin_at_the_shortest_and_lose_nothing() {
        let lengths = [1_000_000, 1_000_003, 1_000_003, 1_000_100, 1_000_101, 1_004_000, 9_000_000];
        let found = buckets(lengths);
        // 100 and 101 above the shortest share the bucket that begins at 100 above it.
        assert_eq!(found[..3], [(1_000_000, 1), (1_000_003, 2), (1_000_100, 2)]);
        assert_eq!(found.iter().map(|(_, count)| count).sum::<u64>(), 7);
        assert_eq!(buckets([]), []);
    }
}
