//! The score: which promises of the advice did not hold. Pure: from kept results and the truth table to faults and totals.
//!
//! A fault is certain: the whole 95 % interval of the measured speed-up is beyond the limit.

use advise::{Confidence, Kind};
use compare::stats::median;
use serde::Serialize;

use super::result::{Arrow, Finished, Outcome, Printed, Speedup, Tried};

/// A step harms if it makes the program slower by more than this.
const HARM: f64 = 0.98;
/// A known change that gives this much should have a step.
const WORTH: f64 = 1.25;
/// A situation takes part in the limit for low confidence if its observed run took this long, s.
const LONG_S: f64 = 2.0;
/// A machine is quiet if other programs used at most this share of its CPUs.
const QUIET: f64 = 0.05;

/// Under `cox pack`, a program takes at most this factor of its time without it, plus a fixed time, s.
const PACKED_FACTOR: f64 = 1.02;
const PACKED_FIXED_S: f64 = 0.015;
/// Runs that are shorter than this without packing are not compared, s.
const SHORT_S: f64 = 0.5;

/// What did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrong {
    /// The step made the program slower.
    Harm,
    /// The speed-up is above the upper bound.
    BoundExceeded,
    /// The speed-up is outside the expected range.
    OutOfRange,
    /// No step leads to a change that gives much.
    Missed,
    /// The headline is not one of those in the truth table.
    Headline,
    /// Packing made the program slower.
    SlowerPacked,
    /// The experiment cannot read the step.
    UnknownStep,
}

impl Wrong {
    /// Returns the words in the table.
    pub fn words(self) -> &'static str {
        match self {
            Wrong::Harm => "harm",
            Wrong::BoundExceeded => "bound exceeded",
            Wrong::OutOfRange => "out of range",
            Wrong::Missed => "missed",
            Wrong::Headline => "wrong headline",
            Wrong::SlowerPacked => "slower packed",
            Wrong::UnknownStep => "unknown step",
        }
    }
}

/// One promise that did not hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    /// The situation.
    pub key: String,
    /// The step, the known change, or the headline.
    pub subject: String,
    /// What was promised, as text.
    pub promised: String,
    /// What was measured; absent for headlines.
    pub measured: Option<Speedup>,
    /// What is wrong.
    pub wrong: Wrong,
}

/// The counts over all situations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Programs with at least one measured situation.
    pub programs: usize,
    /// Measured situations.
    pub situations: usize,
    /// Situations that could not be measured.
    pub failed: usize,
    /// Steps that were followed and measured.
    pub followed: usize,
    /// Steps that were followed and make the program slower.
    pub harmful: usize,
    /// Steps with a range that were followed and measured.
    pub ranges: usize,
    /// Of these, the ones whose measured interval meets the range.
    pub in_range: usize,
    /// Bounds that were exceeded.
    pub bounds_exceeded: usize,
    /// Situations in which a known change gives much.
    pub worth: usize,
    /// Of these, the ones without a step to such a change.
    pub missed: usize,
    /// Headlines for which the truth table has an entry, without those of runs that foreign programs disturbed.
    pub headlines: usize,
    /// Of these, the right ones.
    pub right: usize,
    /// Median of upper ÷ lower end of the ranges in verdicts of high confidence; absent if there are none.
    pub spread_at_high: Option<f64>,
    /// The largest upper ÷ lower end of all ranges; absent if there are none.
    pub spread_most: Option<f64>,
    /// Situations of two seconds or more on a quiet machine.
    pub long: usize,
    /// Of these, the ones with low confidence.
    pub low: usize,
    /// Situations that were also measured under `cox pack`.
    pub packed: usize,
    /// Of these, the ones in which packing made the program slower.
    pub slower_packed: usize,
    /// Steps that the experiment cannot read.
    pub unknown: usize,
}

/// The faults and the totals.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// The faults, in the order of the situations.
    pub faults: Vec<Fault>,
    /// The totals.
    pub totals: Totals,
}

/// Returns the limits with which the score compares the speed-up by the change `tried` with this index, in a situation with these steps and this
/// printed bound. More rounds change the score only if the interval contains one of them.
pub fn limits(arrows: &[Arrow], bound: Option<Printed>, index: usize, tried: &Tried) -> Vec<f64> {
    let mut limits = Vec::new();
    for arrow in arrows.iter().filter(|arrow| arrow.outcome == Outcome::Tried(index)) {
        limits.push(HARM);
        limits.extend(arrow.bound);
        limits.extend(arrow.expected.into_iter().flat_map(|(low, high)| [low, high]));
    }
    if tried.known && tried.is_packing() && !tried.base_s.is_empty() {
        limits.push(packed_least(median(&tried.base_s)));
    } else if tried.known {
        limits.push(WORTH);
    }
    if tried.known && tried.scheduling {
        limits.extend(bound.map(most));
    }
    limits
}

/// Returns the largest speed-up that a printed bound allows. It was rounded down when it was printed.
fn most(bound: Printed) -> f64 {
    bound.value + bound.unit
}

/// Returns the least speed-up that packing must give to a program that takes `base_s` without it.
fn packed_least(base_s: f64) -> f64 {
    base_s / (PACKED_FACTOR * base_s + PACKED_FIXED_S)
}

/// Scores results. `right` returns the right headlines of a situation by its key, `None` if there is no claim.
pub fn score<'a>(all: &[Finished], right: impl Fn(&str) -> Option<&'a [Kind]>) -> Score {
    let mut score = Score::default();
    let (mut spreads, mut spreads_at_high) = (Vec::new(), Vec::new());
    let mut programs: Vec<&str> = Vec::new();
    for finished in all {
        let Some(told) = finished.verdict.as_ref().filter(|_| finished.failed.is_none()) else {
            score.totals.failed += 1;
            continue;
        };
        score.totals.situations += 1;
        programs.push(&finished.program);
        for arrow in &finished.arrows {
            if let Some((low, high)) = arrow.expected {
                spreads.push(high / low);
                if told.confidence == Confidence::High {
                    spreads_at_high.push(high / low);
                }
            }
            score.arrow(finished, arrow);
        }
        score.bound(finished);
        score.known(finished);
        score.packed(finished);
        let quiet = !finished.loaded && told.others <= QUIET;
        // If foreign programs used the CPUs, they can be the right headline.
        if let Some(right) = right(&finished.key).filter(|_| quiet || finished.loaded) {
            score.headline(finished, told.headline, right);
        }
        if told.wall_s >= LONG_S && quiet {
            score.totals.long += 1;
            score.totals.low += usize::from(told.confidence == Confidence::Low);
        }
    }
    programs.sort_unstable();
    programs.dedup();
    score.totals.programs = programs.len();
    score.totals.spread_at_high = (!spreads_at_high.is_empty()).then(|| median(&spreads_at_high));
    score.totals.spread_most = spreads.into_iter().reduce(f64::max);
    score
}

impl Score {
    fn fault(&mut self, finished: &Finished, subject: &str, promised: String, measured: Option<Speedup>, wrong: Wrong) {
        self.faults.push(Fault { key: finished.key.clone(), subject: subject.to_owned(), promised, measured, wrong });
    }

    /// Scores a step: its harm, its bound and its range.
    fn arrow(&mut self, finished: &Finished, arrow: &Arrow) {
        if arrow.outcome == Outcome::Unknown {
            self.totals.unknown += 1;
            self.fault(finished, &arrow.action, String::new(), None, Wrong::UnknownStep);
        }
        let Some(measured) = followed(finished, arrow).and_then(|tried| tried.speedup) else { return };
        self.totals.followed += 1;
        let promised = match arrow.expected {
            Some((low, high)) => format!("{low:.2}-{high:.2}"),
            None => "no number".to_owned(),
        };
        if measured.high < HARM {
            self.totals.harmful += 1;
            self.fault(finished, &arrow.action, promised.clone(), Some(measured), Wrong::Harm);
        }
        if let Some(bound) = arrow.bound.filter(|bound| measured.low > *bound) {
            self.totals.bounds_exceeded += 1;
            self.fault(finished, &arrow.action, format!("at most {bound:.2}"), Some(measured), Wrong::BoundExceeded);
        }
        if let Some((low, high)) = arrow.expected {
            self.totals.ranges += 1;
            if measured.high < low || measured.low > high {
                self.fault(finished, &arrow.action, promised, Some(measured), Wrong::OutOfRange);
            } else {
                self.totals.in_range += 1;
            }
        }
    }

    /// Compares the bound of the whole verdict with the best change of scheduling.
    fn bound(&mut self, finished: &Finished) {
        let Some(bound) = finished.verdict.as_ref().and_then(|told| told.bound) else { return };
        let scheduling = finished.tried.iter().filter(|tried| tried.scheduling && tried.known);
        let Some((best, measured)) = best(scheduling) else { return };
        if measured.low > most(bound) {
            self.totals.bounds_exceeded += 1;
            self.fault(
                finished,
                &best.change,
                format!("at most {}", bound.value),
                Some(measured),
                Wrong::BoundExceeded,
            );
        }
    }

    /// Finds known changes that give much, and to which no step leads. A step to another change that gives as much is as good.
    fn known(&mut self, finished: &Finished) {
        // Packing has a limit of its own: to be no slower.
        let much = |tried: &&Tried| {
            tried.known && !tried.is_packing() && tried.speedup.is_some_and(|speedup| speedup.low > WORTH)
        };
        let Some((best, measured)) = best(finished.tried.iter().filter(much)) else { return };
        self.totals.worth += 1;
        let advised = finished.arrows.iter().filter_map(|arrow| followed(finished, arrow)?.speedup);
        let as_good = advised.into_iter().any(|advised| advised.high >= measured.low);
        if !as_good {
            self.totals.missed += 1;
            self.fault(finished, &best.change, "no step".to_owned(), Some(measured), Wrong::Missed);
        }
    }

    /// Compares the program under `cox pack` with the plain one. A session of cox costs a fixed time, so short runs are not compared.
    fn packed(&mut self, finished: &Finished) {
        let under_pack = finished.tried.iter().filter(|tried| tried.known && tried.is_packing());
        for tried in under_pack {
            let (Some(measured), base_s) = (tried.speedup, median(&tried.base_s)) else { continue };
            if base_s < SHORT_S {
                continue;
            }
            self.totals.packed += 1;
            let allowed = packed_least(base_s);
            if measured.high < allowed {
                self.totals.slower_packed += 1;
                let promised = format!("at least {allowed:.2}");
                self.fault(finished, &tried.change, promised, Some(measured), Wrong::SlowerPacked);
            }
        }
    }

    fn headline(&mut self, finished: &Finished, headline: Kind, right: &[Kind]) {
        self.totals.headlines += 1;
        if right.contains(&headline) {
            self.totals.right += 1;
            return;
        }
        let right: Vec<String> = right.iter().map(Kind::to_string).collect();
        self.fault(finished, &headline.to_string(), right.join(" or "), None, Wrong::Headline);
    }
}

/// Returns the measured change to which a step leads.
fn followed<'a>(finished: &'a Finished, arrow: &Arrow) -> Option<&'a Tried> {
    match arrow.outcome {
        Outcome::Tried(index) => finished.tried.get(index),
        _ => None,
    }
}

/// Returns the change with the largest speed-up.
fn best<'a>(tried: impl Iterator<Item = &'a Tried>) -> Option<(&'a Tried, Speedup)> {
    tried.filter_map(|tried| Some((tried, tried.speedup?))).max_by(|(_, a), (_, b)| a.ratio.total_cmp(&b.ratio))
}

#[cfg(test)]
mod tests;
