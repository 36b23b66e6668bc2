//! How likely a sum of scores is when only chance chose whose they are: a permutation test, counted and not
//! approximated (Fisher 1935; Pitman 1937).
//!
//! Scores are whole numbers, so that choices with the same sum can be counted together: C(30, 15) = 155 million choices
//! of runs have some thousand sums.

/// From this size of the smaller group on, the normal distribution stands for the count: by then they agree to
/// within some percent of a chance of 1 in 1,000.
const MANY: usize = 40;

/// The chance that `chosen` of these scores, drawn blindly, have a sum at least as far from the middle as `sum`,
/// to either side.
pub fn two_sided(scores: &[usize], chosen: usize, sum: usize) -> f64 {
    let all = scores.len();
    let mean = scores.iter().sum::<usize>() as f64 / all.max(1) as f64;
    let middle = mean * chosen as f64;
    // The middle is rounded, sums are whole.
    let far = (sum as f64 - middle).abs() - 1e-6;
    if chosen.min(all - chosen) >= MANY {
        let squares: f64 = scores.iter().map(|score| (*score as f64 - mean).powi(2)).sum();
        let (n, m) = (chosen as f64, (all - chosen) as f64);
        let deviation = (squares * n * m / (all as f64 * (all as f64 - 1.0))).sqrt();
        return if deviation > 0.0 { normal_tails(far.max(0.0) / deviation) } else { 1.0 };
    }
    let counts = counts(scores, chosen);
    let tails = counts.iter().enumerate().filter(|(at, _)| (*at as f64 - middle).abs() >= far);
    (tails.map(|(_, count)| count).sum::<f64>() / counts.iter().sum::<f64>()).min(1.0)
}

/// By sum, how many choices of `chosen` scores have it.
pub fn counts(scores: &[usize], chosen: usize) -> Vec<f64> {
    let mut ascending = scores.to_vec();
    ascending.sort_unstable();
    let most: usize = ascending.iter().rev().take(chosen).sum();
    let width = most + 1;
    // [c * width + s]: the choices of c so far that have the sum s.
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

/// The chance of a standard normal number at least `z` from 0 (Abramowitz and Stegun 1964, 7.1.26; within 2e-7).
fn normal_tails(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    series.iter().fold(0.0, |sum, factor| (sum + factor) * t) * (-x * x).exp()
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

    #[test]
    fn the_normal_distribution_takes_over_without_a_step() {
        for (z, tails) in [(0.0, 1.0), (1.0, 0.317_310_5), (1.959_964, 0.05), (3.290_527, 0.001)] {
            assert!((normal_tails(z) - tails).abs() < 1e-6, "{z}");
        }
        let ranks: Vec<usize> = (1..=2 * MANY).collect();
        let middle = MANY * (2 * MANY + 1) / 2;
        for off in [100, 200, 300] {
            let approximate = two_sided(&ranks, MANY, middle + off);
            let counts = counts(&ranks, MANY);
            let tail: f64 = counts[middle + off..].iter().sum();
            let exact = 2.0 * tail / counts.iter().sum::<f64>();
            assert!((approximate / exact - 1.0).abs() < 0.1, "{off}: {approximate} {exact}");
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
