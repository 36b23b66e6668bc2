//! Largest-remainder rounding (Hamilton's method): rounds parts such that they sum to the rounded whole, and no part is off by a whole step.

/// Divides `steps` steps among `parts` in proportion. If all parts are 0, so are the results.
pub fn apportion(parts: &[u64], steps: u64) -> Vec<u64> {
    let whole: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    if whole == 0 {
        return vec![0; parts.len()];
    }
    let exact = |part: u64| u128::from(part) * u128::from(steps);
    let mut rounded: Vec<u64> = parts.iter().map(|part| (exact(*part) / whole) as u64).collect();
    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    by_remainder.sort_by_key(|at| (std::cmp::Reverse(exact(parts[*at]) % whole), *at));
    let missing = steps - rounded.iter().sum::<u64>();
    for at in by_remainder.into_iter().take(missing as usize) {
        rounded[at] += 1;
    }
    rounded
}

/// Returns each part's share of the whole in tenths of a percent. The shares sum to 1000, or are all 0.
pub fn permille(parts: &[u64]) -> Vec<u64> {
    apportion(parts, 1000)
}

/// Formats tenths of a percent: `32.7 %`.
pub fn percent(permille: u64) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn thirds_add_up() {
        assert_eq!(permille(&[1, 1, 1]), [334, 333, 333]);
        assert_eq!(permille(&[0, 0]), [0, 0]);
        assert_eq!(permille(&[]), [0; 0]);
        assert_eq!(percent(334), "33.4 %");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parts_sum_to_the_whole_and_are_near(parts in proptest::collection::vec(any::<u64>(), 1..20), steps in 0..1_000_000u64) {
            prop_assume!(parts.iter().any(|part| *part > 0));
            let rounded = apportion(&parts, steps);
            prop_assert_eq!(rounded.iter().sum::<u64>(), steps);
            let whole: f64 = parts.iter().map(|part| *part as f64).sum();
            for (part, rounded) in parts.iter().zip(rounded) {
                prop_assert!((*part as f64 / whole * steps as f64 - rounded as f64).abs() <= 1.001);
            }
        }
    }
}
