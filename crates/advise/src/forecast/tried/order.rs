//! In which order the ways are tried in a round, and which of them are not tried again.

use compare::stats::median;

/// After this many rounds, ways that are far slower than the fastest one are not tried again.
pub const ROUNDS_BEFORE_GIVING_UP: usize = 2;

/// A way that takes so many times the fastest one's median is not tried again.
const FAR_SLOWER: f64 = 3.0;

/// Returns the order of `ways` ways in a round: it begins with another way in each round, so that a slow drift of the machine affects all alike.
pub fn order(ways: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..ways).map(move |place| (place + round) % ways)
}

/// Returns for each way whether it is far slower than the fastest one, given its run times so far. A way without runs is not.
pub fn far_slower<'t>(times_ns: impl Iterator<Item = &'t [u64]>) -> Vec<bool> {
    let medians: Vec<f64> = times_ns.map(|times| median(&floats(times))).collect();
    let fastest = medians.iter().copied().fold(f64::INFINITY, f64::min);
    medians.iter().map(|median| *median > FAR_SLOWER * fastest).collect()
}

/// Returns the times as floating-point numbers.
pub(super) fn floats(times_ns: &[u64]) -> Vec<f64> {
    times_ns.iter().map(|ns| (*ns).max(1) as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_tried_once_a_round_and_first_in_turn() {
        let orders: Vec<Vec<usize>> = (0..4).map(|round| order(3, round).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!(order(0, 5).count(), 0);
    }

    #[test]
    fn three_times_the_fastest_is_far_slower() {
        let times: [&[u64]; 5] = [&[100, 120], &[330, 331], &[329, 331], &[], &[2_000, 90]];
        assert_eq!(far_slower(times.into_iter()), [false, true, false, false, true]);
    }
}
