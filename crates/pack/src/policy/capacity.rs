//! How many threads each group of CPUs should have.
//!
//! The threads of a group share its capacity: with `n` threads, a group of capacity `c` gives `c / n` to each. The
//! slowest thread delays all others at the next barrier, so the best counts are those that maximise the smallest share
//! (max-min).

/// Returns how many of `threads` each group of CPUs should have, in the order of `capacities`, so that the smallest
/// share is as large as possible. Each thread goes to the group that gives it the largest *resulting* share, `capacity
/// / (count + 1)`. This is D'Hondt's rule for the seats of a parliament; a test compares the result with all other
/// distributions. Of groups with equal shares the first is chosen.
///
/// Groups of capacity 0 get no thread. If no group has capacity, all counts are 0.
#[must_use]
pub fn counts(capacities: &[u64], threads: usize) -> Vec<usize> {
    let mut counts = vec![0; capacities.len()];
    for _ in 0..threads {
        // The share of the added thread, compared by cross multiplication to avoid rounding.
        let best = (0..capacities.len()).filter(|&g| capacities[g] > 0).reduce(|a, b| {
            if larger_share(capacities[b], counts[b] + 1, capacities[a], counts[a] + 1) { b } else { a }
        });
        let Some(best) = best else { break };
        counts[best] += 1;
    }
    counts
}

/// Returns whether `capacity / count` is larger than `other / others`, compared without rounding.
#[must_use]
pub fn larger_share(capacity: u64, count: usize, other: u64, others: usize) -> bool {
    let (one, two) = (u128::from(capacity) * others as u128, u128::from(other) * count as u128);
    one > two
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The smallest share, as a fraction to compare: (capacity, count) of the worst group.
    fn worst(capacities: &[u64], counts: &[usize]) -> f64 {
        let shares = capacities.iter().zip(counts).filter(|(_, n)| **n > 0);
        shares.map(|(c, n)| *c as f64 / *n as f64).fold(f64::INFINITY, f64::min)
    }

    fn all_distributions(groups: usize, threads: usize) -> Vec<Vec<usize>> {
        if groups == 1 {
            return vec![vec![threads]];
        }
        (0..=threads)
            .flat_map(|first| {
                all_distributions(groups - 1, threads - first).into_iter().map(move |mut rest| {
                    rest.insert(0, first);
                    rest
                })
            })
            .collect()
    }

    #[test]
    fn the_papers_example() {
        assert_eq!(counts(&[360, 220, 100], 6), [3, 2, 1]);
    }

    #[test]
    fn where_the_papers_rule_is_not_optimal() {
        assert_eq!(counts(&[100, 100, 793], 11), [1, 1, 9]);
    }

    #[test]
    fn equal_cpus_share_evenly() {
        assert_eq!(counts(&[1024; 3], 8), [3, 3, 2]);
        assert_eq!(counts(&[], 3), [0usize; 0]);
        assert_eq!(counts(&[0, 5], 2), [0, 2]);
    }

    proptest! {
        /// No distribution of the threads has a larger worst share.
        #[test]
        fn counts_are_max_min_optimal(capacities in prop::collection::vec(1u64..1000, 1..5), threads in 1usize..12) {
            let ours = counts(&capacities, threads);
            prop_assert_eq!(ours.iter().sum::<usize>(), threads);
            let best = all_distributions(capacities.len(), threads)
                .iter()
                .map(|other| worst(&capacities, other))
                .fold(0.0, f64::max);
            prop_assert!(worst(&capacities, &ours) >= best * (1.0 - 1e-12));
        }
    }
}
