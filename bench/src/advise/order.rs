//! When a predicted order is right.

/// Measured times that differ by less than this part have no order.
const SAME: f64 = 0.05;
/// Ways that are predicted to take the same may differ by this much.
const PREDICTED_SAME: f64 = 0.15;

/// Whether no pair of `(predicted, measured)` times is the wrong way round.
pub fn is_right(times: &[(f64, f64)]) -> bool {
    let wrong = |fast: &(f64, f64), slow: &(f64, f64)| {
        let same = (fast.0 / slow.0 - 1.0).abs() < 0.01;
        if same { fast.1 < slow.1 * (1.0 - PREDICTED_SAME) } else { fast.1 < slow.1 * (1.0 - SAME) && fast.0 > slow.0 }
    };
    !times.iter().any(|fast| times.iter().any(|slow| wrong(fast, slow)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_the_wrong_way_round_is_wrong() {
        assert!(is_right(&[(1.0, 1.0), (2.0, 3.0), (4.0, 9.0)]));
        assert!(!is_right(&[(1.0, 3.0), (2.0, 1.0)]));
        assert!(!is_right(&[(1.0, 1.0), (2.0, 5.0), (3.0, 4.0)]), "also among the slow ones");
    }

    #[test]
    fn what_hardly_differs_has_no_order() {
        assert!(is_right(&[(1.0, 1.04), (1.3, 1.0)]));
        assert!(!is_right(&[(1.0, 1.06), (1.3, 1.0)]));
        // Predicted the same: they must not differ by much.
        assert!(is_right(&[(1.0, 1.1), (1.0, 1.0)]));
        assert!(!is_right(&[(1.0, 1.2), (1.0, 1.0)]));
        assert!(is_right(&[]));
    }
}
