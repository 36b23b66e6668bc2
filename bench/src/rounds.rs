//! Interleaved measurement: the treatments (ways to run a program) that are compared take turns, so that a slow drift of the machine affects all of
//! them alike.
//!
//! A *plain* measurement is one without a treatment. With treatments A, B and C, a round is for example `plain B plain A plain C plain`; the order
//! changes from round to round. The last plain measurement of a round is also the first one of the next round. So each treatment is measured once per
//! round, between two plain measurements ([`Bracket`]). On average, it comes after each of the other treatments equally often.

use anyhow::Result;
use random::Random;

use crate::stats::Bracket;

/// All measurements of one experiment.
#[derive(Debug)]
pub struct Rounds<V> {
    /// The plain measurements (without a treatment), in order of time.
    pub plain: Vec<V>,
    /// For each treatment, one bracket per round: its measurement, with the plain measurements just before and after it.
    pub treated: Vec<Vec<Bracket<V>>>,
}

impl<V> Rounds<V> {
    /// Returns the same rounds with each measurement reduced to one figure.
    pub fn figure(&self, figure: impl Fn(&V) -> f64) -> Rounds<f64> {
        Rounds {
            plain: self.plain.iter().map(&figure).collect(),
            treated: self.treated.iter().map(|list| list.iter().map(|b| b.map(&figure)).collect()).collect(),
        }
    }
}

/// Measures `treatments` treatments in `rounds` rounds. `measure` gets the index of the treatment, or `None` for a plain measurement (without a
/// treatment). The first error of `measure` ends the experiment.
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

/// Measures `treatments` treatments once per round, without plain measurements in between, in an order that changes from round to round. Used when
/// treatments are compared with each other in pairs. Returns each treatment's values by round. The first error ends the experiment.
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
