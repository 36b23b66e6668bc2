//! The stationary distribution of a Markov chain.

/// Returns the stationary distribution of a chain with one recurrent class (Grassmann, Taksar and Heyman 1985:
/// elimination without subtractions, so small probabilities keep their precision). `moves[from][to]` need not be
/// normalised. Its diagonal is not used.
#[must_use]
pub fn stationary(mut moves: Vec<Vec<f64>>) -> Vec<f64> {
    let states = moves.len();
    // Removes the last state of those that are left: who went there goes on to the others.
    for last in (1..states).rev() {
        let (left, gone) = moves.split_at_mut(last);
        let out: f64 = gone[0][..last].iter().sum();
        for row in left {
            let to_last = row[last] / out.max(f64::MIN_POSITIVE);
            row[last] = to_last;
            for (to, on) in row[..last].iter_mut().zip(&gone[0][..last]) {
                *to += to_last * on;
            }
        }
    }
    let mut visits = vec![1.0; states];
    for state in 1..states {
        visits[state] = (0..state).map(|from| visits[from] * moves[from][state]).sum();
    }
    let sum: f64 = visits.iter().sum();
    visits.iter().map(|visits| visits / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::Random;

    #[test]
    fn a_step_does_not_change_it() {
        let mut random = Random::new(1);
        for states in [1, 2, 9, 40] {
            let mut moves: Vec<Vec<f64>> =
                (0..states).map(|_| (0..states).map(|_| random.unit().powi(20)).collect()).collect();
            for row in &mut moves {
                let sum: f64 = row.iter().sum();
                row.iter_mut().for_each(|chance| *chance /= sum);
            }
            let before = stationary(moves.clone());
            for to in 0..states {
                let after: f64 = (0..states).map(|from| before[from] * moves[from][to]).sum();
                assert!((after - before[to]).abs() < 1e-12, "{states}: {after} {}", before[to]);
            }
        }
    }

    #[test]
    fn rare_moves_have_rare_states() {
        let found = stationary(vec![vec![0.0, 1e-12], vec![0.5, 0.0]]);
        assert!((found[1] / 2e-12 - 1.0).abs() < 1e-9, "{found:?}");
    }
}
