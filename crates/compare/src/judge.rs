//! Decides which figures changed, with one error bound for the whole report: if nothing has changed, at most one report
//! in twenty-five claims a change ([`PRIMARY`] + [`OTHERS`]).
//!
//! A report has some twenty figures. If each were tested alone at 5 %, noise would produce a change in two reports of
//! three. The budget for false alarms is therefore divided:
//!
//! 1. Wall time, the figure that users ask for, gets nearly all of the budget, so that small changes in it are
//!    detectable.
//! 2. The other figures share the rest by Holm's rule (1979): the figure with the smallest p-value is tested at budget
//!    ÷ figures, the next at budget ÷ (figures − 1), and so on to the first that fails. If a scheduler figure changes,
//!    it mostly changes by a factor. Ten runs are enough to find such a change, even with a small share of the budget.
//! 3. If wall time has changed, its budget passes to the other figures (fallback, Wiens 2003), because the reader then
//!    wants to know the reason.
//!
//! If there are more than two groups, each is compared with the first, and all comparisons of a report share the
//! budget.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ranks::{Reach, is_higher, p_value};
use crate::shift::Shift;
use crate::stats::{Estimate, median_estimate};

/// Maximum probability of a false alarm for the primary figure (its budget).
pub const PRIMARY: f64 = 0.035;
/// Maximum probability of a false alarm for all figures except the primary one, together (their budget).
pub const OTHERS: f64 = 0.004;
/// If the smallest detectable change is larger than this, the verdict is not "no change" but "cannot tell".
pub const COARSE: f64 = 0.10;

/// The values of one figure in all runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Name of the figure.
    pub figure: String,
    /// Whether this is the primary figure, which users ask for first.
    pub primary: bool,
    /// Values of each group.
    pub groups: Vec<Vec<f64>>,
}

/// The median of a figure in each group, and the difference of each group from the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Median of each group.
    pub medians: Vec<Estimate>,
    /// Difference from the first group, for each group but the first.
    pub changes: Vec<Change>,
}

/// The difference of a group from the first group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Relative change: 0.03 is 3 % more than in the first group. Absent if the first group has 0.
    pub change: Option<f64>,
    /// 95 % confidence interval of the relative change. Absent if there are too few runs.
    pub interval: Option<(f64, f64)>,
    /// p-value: the probability of a difference at least as large if there is no real one, without correction for the
    /// other figures.
    pub p_value: f64,
    /// The p-value must be at most this to count as a change; corrected for the number of figures.
    pub p_needed: f64,
    /// Smallest detectable change: the smallest relative change that would be detected in such runs more often than
    /// not. Absent if there are too few runs to detect any change.
    pub visible_from: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// The verdict on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A change: the primary figure is smaller.
    Faster,
    /// A change: the primary figure is larger.
    Slower,
    /// A change: another figure is larger.
    More,
    /// A change: another figure is smaller.
    Less,
    /// No significant difference.
    NoChange,
    /// The runs are too few or vary too much to decide.
    CannotTell,
}

impl Verdict {
    /// Returns whether the verdict is a change.
    pub fn is_a_change(self) -> bool {
        !matches!(self, Verdict::NoChange | Verdict::CannotTell)
    }
}

/// Compares each group with the first.
pub fn compare(figures: &[Series]) -> Vec<Compared> {
    // The distribution of the rank test depends only on the group sizes, which are mostly the same for all figures of a
    // report. So it is computed once per combination of sizes.
    let mut known: BTreeMap<Vec<usize>, Vec<Reach>> = BTreeMap::new();
    let mut tests: Vec<Test> = Vec::new();
    for (figure, series) in figures.iter().enumerate() {
        let Some((first, others)) = series.groups.split_first() else { continue };
        let sizes = series.groups.iter().map(Vec::len).collect();
        let reaches = || others.iter().map(|other| Reach::new(first.len(), other.len())).collect();
        let reaches = known.entry(sizes).or_insert_with(reaches);
        for (group, (values, reach)) in others.iter().zip(reaches).enumerate() {
            let (primary, p, reach) = (series.primary, p_value(first, values), reach.clone());
            tests.push(Test { figure, group, primary, p, needed: 0.0, holds: false, reach });
        }
    }
    let (mut primary, mut others): (Vec<_>, Vec<_>) = tests.into_iter().partition(|test| test.primary);
    let freed = if holm(&mut primary, PRIMARY) { PRIMARY } else { 0.0 };
    holm(&mut others, OTHERS + freed);
    let medians = |series: &Series| series.groups.iter().map(|values| median_estimate(values)).collect();
    let unchanged = |series| Compared { medians: medians(series), changes: Vec::new() };
    let mut compared: Vec<Compared> = figures.iter().map(unchanged).collect();
    let mut tests: Vec<Test> = primary.into_iter().chain(others).collect();
    tests.sort_by_key(|test| (test.figure, test.group));
    for test in tests {
        compared[test.figure].changes.push(test.change(&figures[test.figure]));
    }
    compared
}

/// The comparison of one figure between a group and the first group.
struct Test {
    figure: usize,
    group: usize,
    primary: bool,
    p: f64,
    needed: f64,
    holds: bool,
    reach: Reach,
}

/// Tests several comparisons by Holm's method; together they may cause a false alarm with at most the probability
/// `budget`. Returns whether there is at least one comparison and all of them are significant.
fn holm(tests: &mut [Test], budget: f64) -> bool {
    tests.sort_by(|a, b| a.p.total_cmp(&b.p));
    let mut open = tests.len();
    let mut so_far = true;
    for test in tests.iter_mut() {
        test.needed = budget / open as f64;
        so_far &= test.p <= test.needed;
        test.holds = so_far;
        // Each significant comparison makes the test of the next one less strict. After the first comparison that is
        // not significant, all others fail.
        open -= usize::from(so_far);
    }
    so_far && !tests.is_empty()
}

impl Test {
    fn change(&self, series: &Series) -> Change {
        let (first, second) = (&series.groups[0], &series.groups[self.group + 1]);
        let shift = Shift::between(first, second);
        let change = shift.as_ref().map(Shift::change);
        let within = |missed| shift.as_ref().and_then(|shift| shift.interval(&self.reach, missed));
        // The longer half of the confidence interval at this level. A change smaller than this would not have been
        // detected.
        let half = |(low, high): (f64, f64)| change.map(|change| (high - change).max(change - low));
        let visible_from = within(self.needed).and_then(half);
        // The direction comes from the ranks that were tested. Medians may be equal, and a single run can shift a mean.
        let grown = is_higher(first, second);
        let all_equal = first.iter().chain(second).all(|value| *value == first[0]);
        let verdict = match (self.holds, grown, series.primary) {
            (true, true, true) => Verdict::Slower,
            (true, false, true) => Verdict::Faster,
            (true, true, false) => Verdict::More,
            (true, false, false) => Verdict::Less,
            _ if all_equal && self.reach.least_p() <= self.needed => Verdict::NoChange,
            _ if visible_from.is_some_and(|visible| visible <= COARSE) => Verdict::NoChange,
            _ => Verdict::CannotTell,
        };
        let interval = within(1.0 - crate::stats::CONFIDENCE);
        Change { change, interval, p_value: self.p, p_needed: self.needed, visible_from, verdict }
    }
}

/// Returns the number of runs per group that are needed before any difference can be significant at this level.
pub fn runs_needed(level: f64) -> usize {
    // The smallest possible p-value is 2 / C(2n, n): of all ways to divide the 2n runs, 2 give groups that do not
    // overlap. For n = 15, it is 1e-8.
    let mut p = 1.0;
    (1..=30)
        .find(|n| {
            p *= *n as f64 / (2.0 * (2.0 * *n as f64 - 1.0));
            2.0 * p <= level
        })
        .unwrap_or(30)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(primary: bool, groups: &[&[f64]]) -> Series {
        Series { figure: "x".into(), primary, groups: groups.iter().map(|group| group.to_vec()).collect() }
    }

    #[test]
    fn a_change_goes_the_way_that_ranks_say() {
        let verdict =
            |first: Vec<f64>, second: Vec<f64>| compare(&[series(true, &[&first, &second])])[0].changes[0].verdict;
        // A single run far off carries the mean, and no ranks.
        let mut zeros = vec![0.0; 14];
        zeros.push(500.0);
        assert_eq!(verdict(zeros.clone(), vec![3.0; 15]), Verdict::Slower);
        assert_eq!(verdict(vec![3.0; 15], zeros), Verdict::Faster);
        // More than half of all pairs are equal, and none is smaller.
        let mut some: Vec<f64> = vec![1.0; 16];
        some.extend([2.0; 14]);
        assert_eq!(verdict(vec![1.0; 30], some.clone()), Verdict::Slower);
        assert_eq!(verdict(some, vec![1.0; 30]), Verdict::Faster);
    }

    /// Eight values around `middle` that are 1 ‰ apart.
    fn around(middle: f64) -> Vec<f64> {
        (0..8).map(|i| middle * (1.0 + 0.001 * f64::from(i))).collect()
    }

    fn verdict(primary: bool, first: &[f64], second: &[f64]) -> Verdict {
        compare(&[series(primary, &[first, second])])[0].changes[0].verdict
    }

    #[test]
    fn words() {
        let (less, more) = (around(1.0), around(2.0));
        assert_eq!(verdict(true, &less, &more), Verdict::Slower);
        assert_eq!(verdict(true, &more, &less), Verdict::Faster);
        assert_eq!(verdict(false, &less, &more), Verdict::More);
        assert_eq!(verdict(false, &more, &less), Verdict::Less);
        assert_eq!(verdict(true, &less, &less), Verdict::NoChange);
        assert_eq!(verdict(true, &less[..3], &more[..3]), Verdict::CannotTell);
        assert_eq!(verdict(false, &[0.0; 8], &more), Verdict::More);
        assert_eq!(verdict(false, &[4.0; 8], &[4.0; 8]), Verdict::NoChange);
        // So noisy that twice as much would not be seen.
        let wild: Vec<f64> = (0..8).map(|i| f64::from(1 << i)).collect();
        assert_eq!(verdict(true, &wild, &wild), Verdict::CannotTell);
    }

    #[test]
    fn how_small_a_change_would_be_seen() {
        let seen = |runs: &[f64]| compare(&[series(true, &[runs, runs])])[0].changes[0].visible_from;
        let narrow = seen(&around(1.0)).unwrap();
        // Eight runs 1 ‰ apart: differences up to 7 ‰, of which some are left out.
        assert!((0.002..0.007).contains(&narrow), "{narrow}");
        assert_eq!(seen(&around(1.0)[..3]), None);
    }

    /// Holm's own example of the rule: 0.01, 0.02 and 0.03 at 6 % hold, as 0.06/3, 0.06/2 and 0.06/1 are no less; with
    /// 0.01, 0.04 and 0.05 the second fails, and with it the third, which alone would hold.
    #[test]
    fn the_clearest_first_and_none_after_a_failure() {
        let holds = |ps: [f64; 3]| {
            let test =
                |p| Test { figure: 0, group: 0, primary: false, p, needed: 0.0, holds: false, reach: Reach::new(2, 2) };
            let mut tests = ps.map(test);
            let all = holm(&mut tests, 0.06);
            (tests.map(|test| test.holds), all)
        };
        assert_eq!(holds([0.03, 0.01, 0.02]), ([true; 3], true));
        assert_eq!(holds([0.05, 0.01, 0.04]), ([true, false, false], false));
    }

    /// Two others of which one overlaps a little: seen only when wall time has changed and leaves its budget.
    #[test]
    fn the_budget_of_wall_time_is_for_why_it_changed() {
        let wall = |factor: f64| series(true, &[&around(1.0), &around(factor)]);
        let mut second = around(2.0);
        second[0] = 1.0025;
        second[1] = 1.0035;
        let other = series(false, &[&around(1.0), &second]);
        let judged = |factor: f64| compare(&[wall(factor), other.clone()])[1].changes[0];
        let (alone, with) = (judged(1.0), judged(2.0));
        assert_eq!((alone.p_needed, with.p_needed), (OTHERS, OTHERS + PRIMARY));
        assert!(alone.p_value > OTHERS && alone.p_value < PRIMARY, "{}", alone.p_value);
        assert!(!alone.verdict.is_a_change() && with.verdict == Verdict::More);
    }

    #[test]
    fn runs_needed_is_the_least_that_can_reach_a_level() {
        // 2 / C(8, 4) = 2.9 %, 2 / C(6, 3) = 10 %; 2 / C(16, 8) = 1.6e-4, 2 / C(14, 7) = 5.8e-4.
        for (level, runs) in [(0.04, 4), (0.1, 3), (2e-4, 8), (6e-4, 7)] {
            assert_eq!(runs_needed(level), runs, "{level}");
        }
    }
}
