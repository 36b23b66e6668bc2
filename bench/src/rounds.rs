//! Interleaving: what is compared is measured in turns, never one after the other.
//!
//! With treatments A, B and C a round is `plain B plain A plain C plain`, in an order that changes
//! from round to round, and the last plain measurement of a round is the first of the next. So each
//! treatment has a plain neighbour on both sides ([`Bracket`]), in every round once, and follows
//! each of the others equally often.

use anyhow::Result;
use random::Random;

use crate::stats::Bracket;

/// All measurements of one experiment.
#[derive(Debug)]
pub struct Rounds<V> {
    /// The plain ones, in the order of time.
    pub plain: Vec<V>,
    /// For each treatment, its brackets by round.
    pub treated: Vec<Vec<Bracket<V>>>,
}

impl<V> Rounds<V> {
    /// The same rounds of one figure among those that were measured together.
    pub fn figure(&self, figure: impl Fn(&V) -> f64) -> Rounds<f64> {
        Rounds {
            plain: self.plain.iter().map(&figure).collect(),
            treated: self.treated.iter().map(|list| list.iter().map(|b| b.map(&figure)).collect()).collect(),
        }
    }
}

/// Measure `treatments` treatments in `rounds` rounds. `measure` gets the index of the treatment, or
/// `None` for plain; its first error ends it all.
pub fn interleave<V: Clone>(
    treatments: usize,
    rounds: usize,
    mut measure: impl FnMut(Option<usize>) -> Result<V>,
) -> Result<Rounds<V>> {
    let mut random = Random::new(treatments as u64);
    let mut order: Vec<usize> = (0..treatments).collect();
    let mut before = measure(None)?;
    let mut all = Rounds { plain: vec![before.clone()], treated: vec![Vec::with_capacity(rounds); treatments] };
    for _ in 0..rounds {
        random.shuffle(&mut order);
        for &treatment in &order {
            let treated = measure(Some(treatment))?;
            let after = measure(None)?;
            all.plain.push(after.clone());
            all.treated[treatment].push(Bracket { before, treated, after: after.clone() });
            before = after;
        }
    }
    Ok(all)
}

/// Measure `treatments` treatments once a round, in an order that changes from round to round: for
/// pairs, where none of them is the measure of the others. Returns each treatment's values by round; the
/// first error ends it all.
pub fn in_turns<V>(
    treatments: usize,
    rounds: usize,
    mut measure: impl FnMut(usize) -> Result<V>,
) -> Result<Vec<Vec<V>>> {
    let mut random = Random::new(treatments as u64);
    let mut order: Vec<usize> = (0..treatments).collect();
    let mut all: Vec<Vec<V>> = (0..treatments).map(|_| Vec::with_capacity(rounds)).collect();
    for _ in 0..rounds {
        random.shuffle(&mut order);
        for &treatment in &order {
            all[treatment].push(measure(treatment)?);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_treatment_is_between_its_plain_neighbours_once_a_round() {
        let mut log = Vec::new();
        let mut time = 0.0;
        let rounds = interleave(3, 20, |treatment| {
            log.push(treatment);
            time += 1.0;
            Ok(time)
        })
        .unwrap();
        assert_eq!(log.len(), 1 + 20 * 6);
        assert!(log.iter().step_by(2).all(Option::is_none));
        for round in log[1..].chunks(6) {
            let mut seen: Vec<_> = round.iter().flatten().collect();
            seen.sort();
            assert_eq!(seen, [&0, &1, &2]);
        }
        assert_eq!(rounds.plain.len(), 1 + 20 * 3);
        for (treatment, brackets) in rounds.treated.iter().enumerate() {
            assert_eq!(brackets.len(), 20);
            for b in brackets {
                assert_eq!((b.before + 1.0, b.after - 1.0), (b.treated, b.treated), "a clock that drifts steadily");
                assert_eq!(log[b.treated as usize - 1], Some(treatment));
            }
        }
    }

    #[test]
    fn turns_pair_by_round_and_change_their_order() {
        let mut log = Vec::new();
        let all = in_turns(2, 20, |treatment| {
            log.push(treatment);
            Ok(log.len())
        })
        .unwrap();
        for (round, (a, b)) in all[0].iter().zip(&all[1]).enumerate() {
            assert_eq!((a.min(b), a.max(b)), (&(2 * round + 1), &(2 * round + 2)));
        }
        let first = log.iter().step_by(2).filter(|treatment| **treatment == 0).count();
        assert!((3..=17).contains(&first), "{log:?}");
    }

    #[test]
    fn an_error_ends_it() {
        let mut calls = 0;
        let outcome = interleave(1, 5, |treatment| {
            calls += 1;
            if treatment.is_some() { anyhow::bail!("no") } else { Ok(1) }
        });
        assert!(outcome.is_err());
        assert_eq!(calls, 2);
    }
}
