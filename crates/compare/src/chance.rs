//! Probability of a sum of scores if the assignment to the groups is random: an exact permutation test (Fisher 1935;
//! Pitman 1937).
//!
//! Scores are integers, so choices with the same sum are counted together: the C(30, 15) = 155 million choices of runs
//! have only some thousand different sums. The count is always exact. A normal approximation is wrong if many values
//! are equal: with 40 runs per group, of which 6 in one group are not 0, it gives 0.011 instead of 0.026.

/// Returns the two-sided p-value: the probability that the sum of `chosen` randomly drawn scores is at least as far
/// from the expected sum as `sum` is, in either direction.
pub fn two_sided(scores: &[usize], chosen: usize, sum: usize) -> f64 {
    let all = scores.len();
    let mean = scores.iter().sum::<usize>() as f64 / all.max(1) as f64;
    let middle = mean * chosen as f64;
    // Sums of scores are exact integers, but the expected sum is a fraction with a rounding error. The tolerance is
    // larger than this error.
    let far = (sum as f64 - middle).abs() - 1e-6;
    let counts = counts(scores, chosen);
    let tails = counts.iter().enumerate().filter(|(at, _)| (*at as f64 - middle).abs() >= far);
    (tails.map(|(_, count)| count).sum::<f64>() / counts.iter().sum::<f64>()).min(1.0)
}

/// Returns, for each sum (the index), in how many ways `chosen` of the scores can be chosen such that they have this
/// sum.
pub fn counts(scores: &[usize], chosen: usize) -> Vec<f64> {
    let mut ascending = scores.to_vec();
    ascending.sort_unstable();
    let most: usize = ascending.iter().rev().take(chosen).sum();
    let width = most + 1;
    // Element c * width + s: in how many ways c of the scores so far can be chosen such that their sum is s.
    let mut counts = vec![0.0; (chosen + 1) * width];
    counts[0] = 1.0;
    let mut reached = 0;
    for (at, score) in ascending.iter().enumerate() {
        reached = (reached + score).min(most);
        for c in (1..=chosen.min(at + 1)).rev() {
            let (fewer, more) = counts.split_at_mut(c * width);
            let from = &fewer[(c - 1) * width..];
            for (to, from) in more[*score..=reached].iter_mut().zip(from) {
                *to += from;
            }
        }
    }
    counts.split_off(chosen * width)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By definition: over all subsets of that size.
    fn by_enumeration(scores: &[usize], chosen: usize, sum: usize) -> f64 {
        let middle = scores.iter().sum::<usize>() as f64 * chosen as f64 / scores.len() as f64;
        let far = |sum: usize| (sum as f64 - middle).abs();
        let subsets = (0u32..1 << scores.len()).filter(|subset| subset.count_ones() as usize == chosen);
        let sums =
            subsets.map(|subset| (0..scores.len()).filter(|at| subset >> at & 1 == 1).map(|at| scores[at]).sum());
        let sums: Vec<usize> = sums.collect();
        sums.iter().filter(|one| far(**one) >= far(sum) - 1e-6).count() as f64 / sums.len() as f64
    }

    /// Ranks 1 to 6, three of them: 20 choices; sums 6 and 15 have one each, 7 and 14 too.
    #[test]
    fn three_of_six_ranks() {
        let chance = |sum| two_sided(&[1, 2, 3, 4, 5, 6], 3, sum);
        for (sum, expected) in [(15, 0.1), (6, 0.1), (14, 0.2), (10, 1.0)] {
            assert!((chance(sum) - expected).abs() < 1e-12, "{sum}");
        }
    }

    /// Of 40 and 40, all 0 but six of the first: 2 · C(74, 34) / C(80, 40).
    #[test]
    fn many_equal_values_are_counted_too() {
        let scores: Vec<usize> = (0..80).map(|at| usize::from(at < 6)).collect();
        assert!((two_sided(&scores, 40, 6) - 0.025_546).abs() < 1e-5, "{}", two_sided(&scores, 40, 6));
    }

    /// The table of Mann and Whitney (1947) and Auble (1953): with U at most this, 5 % are not reached; with one more
    /// they are exceeded.
    #[test]
    fn ranks_have_the_critical_values_of_the_tables() {
        for (n, m, u) in
            [(4, 4, 0), (5, 5, 2), (6, 6, 5), (8, 8, 13), (10, 10, 23), (15, 15, 64), (20, 20, 127), (8, 12, 22)]
        {
            let ranks: Vec<usize> = (1..=n + m).collect();
            let of = |u: usize| two_sided(&ranks, m, m * (m + 1) / 2 + u);
            assert!(of(u) <= 0.05 && of(u + 1) > 0.05, "{n} and {m}: {} {}", of(u), of(u + 1));
        }
    }

    proptest! {
        #[test]
        fn as_enumeration_has_it(scores in prop::collection::vec(0usize..20, 2..11), part in 0.0..1.0_f64) {
            let chosen = 1 + (part * (scores.len() - 1) as f64) as usize;
            let sum = scores.iter().take(chosen).sum();
            prop_assert!((two_sided(&scores, chosen, sum) - by_enumeration(&scores, chosen, sum)).abs() < 1e-9);
        }
    }
}
