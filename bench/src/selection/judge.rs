//! Ratios to the best single schedule of a loop, and what the limits say to them.
//!
//! Which single schedule is the best of a loop is measured too, and the smallest of many medians is too small by chance. So each round is compared with
//! the schedule that was the best in *all other rounds*. Times are relative to the round's median over the single schedules, so that a round in which
//! the machine was slow counts as much as others.

use serde::Serialize;

use crate::stats::{Estimate, median, median_estimate};
use crate::verdict::{Outcome, at_most};

/// The times of a loop by round, nanoseconds: of a single schedule, or of a way to select.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Times {
    /// The schedule or the way.
    pub name: String,
    /// One for each round.
    pub ns: Vec<f64>,
}

/// Returns for each round the place of the single schedule that was the best in the other rounds.
pub fn best_of_others(singles: &[Times]) -> Vec<usize> {
    let rounds = singles.iter().map(|one| one.ns.len()).min().unwrap_or(0);
    let of_round = |round: usize| median(&singles.iter().map(|one| one.ns[round]).collect::<Vec<_>>());
    let scales: Vec<f64> = (0..rounds).map(of_round).collect();
    let without = |round: usize| {
        let others = |one: &Times| {
            let counts = |other: &usize| *other != round || rounds == 1;
            median(&(0..rounds).filter(counts).map(|other| one.ns[other] / scales[other]).collect::<Vec<_>>())
        };
        let medians = singles.iter().map(others).enumerate();
        medians.min_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(place, _)| place)
    };
    (0..rounds).map(without).collect()
}

/// Returns the ratios of these times to those of the best single schedule, by round.
pub fn ratios(times: &Times, singles: &[Times]) -> Vec<f64> {
    let best = best_of_others(singles);
    times.ns.iter().zip(best).enumerate().map(|(round, (ns, place))| ns / singles[place].ns[round]).collect()
}

/// A ratio with its limit.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The ratio, over all rounds.
    pub ratio: Estimate,
    /// The largest allowed ratio; `None` if there is no limit.
    pub limit: Option<f64>,
    /// What the limit says to it.
    pub outcome: Option<Outcome>,
}

/// Compares ratios with a limit.
pub fn judge(ratios: &[f64], limit: Option<f64>) -> Judged {
    let ratio = median_estimate(ratios);
    Judged { limit, outcome: limit.map(|limit| at_most(&ratio, limit)), ratio }
}

/// Returns the geometric mean over loops of the ratios of two ways, by round.
pub fn means(ours: &[&Times], theirs: &[&Times]) -> Vec<f64> {
    let rounds = ours.iter().chain(theirs).map(|times| times.ns.len()).min().unwrap_or(0);
    let of_round = |round: usize| {
        let logarithms = ours.iter().zip(theirs).map(|(ours, theirs)| (ours.ns[round] / theirs.ns[round]).ln());
        (logarithms.sum::<f64>() / ours.len().max(1) as f64).exp()
    };
    (0..rounds).map(of_round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(name: &str, ns: &[f64]) -> Times {
        Times { name: name.to_owned(), ns: ns.to_vec() }
    }

    /// Each of ten schedules has the same mean, and was lucky in one round.
    #[test]
    fn luck_makes_no_schedule_the_best() {
        let lucky = |place: usize| {
            let ns: Vec<f64> = (0..10).map(|round| if round == place { 80.0 } else { 100.0 }).collect();
            times("single", &ns)
        };
        let singles: Vec<Times> = (0..10).map(lucky).collect();
        let auto = times("auto", &[100.0; 10]);
        assert_eq!(median(&ratios(&auto, &singles)), 1.0);
        // The best one of each round itself would be the lucky one in all ten. Where the others are equal, it is the first one.
        let best = best_of_others(&singles);
        let lucky = best.iter().enumerate().filter(|(round, place)| singles[**place].ns[*round] == 80.0).count();
        assert!(lucky <= 1, "{best:?}");
    }

    #[test]
    fn slow_rounds_count_as_much_as_others() {
        let singles = [times("fac2", &[100.0, 1000.0, 100.0]), times("static", &[130.0, 900.0, 130.0])];
        assert_eq!(best_of_others(&singles), [0, 0, 0]);
        assert_eq!(ratios(&times("auto", &[110.0, 1100.0, 110.0]), &singles), [1.1; 3]);
        assert_eq!(best_of_others(&[times("one", &[1.0])]), [0]);
    }

    #[test]
    fn a_limit_needs_rounds() {
        assert_eq!(judge(&[1.0; 9], Some(1.05)).outcome, Some(Outcome::Pass));
        assert_eq!(judge(&[1.1; 9], Some(1.05)).outcome, Some(Outcome::Fail));
        assert_eq!(judge(&[1.0; 3], Some(1.05)).outcome, Some(Outcome::Undecided));
        assert_eq!(judge(&[1.0; 3], None).outcome, None);
    }

    #[test]
    fn the_mean_of_loops_is_geometric() {
        let (ours, theirs) =
            ([times("a", &[50.0]), times("a", &[200.0])], [times("b", &[100.0]), times("b", &[100.0])]);
        let references = |list: &[Times; 2]| list.clone();
        let (ours, theirs) = (references(&ours), references(&theirs));
        let mean = means(&ours.iter().collect::<Vec<_>>(), &theirs.iter().collect::<Vec<_>>());
        assert!((mean[0] - 1.0).abs() < 1e-12, "{mean:?}");
    }
}
