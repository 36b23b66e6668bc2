//! The limits for the totals. They are those of the issue "Advice that holds on programs nobody here wrote".

use super::score::Totals;
use crate::verdict::{Outcome, Verdict};

/// Compares the totals with the limits. `whole`: the corpus was meant to be measured whole, so that its size is judged, too.
pub fn verdicts(totals: &Totals, whole: bool) -> Vec<Verdict> {
    let size = totals.programs >= 25 && totals.situations >= 120;
    let mut all = vec![
        none("followed steps that make the program more than 2 % slower", totals.harmful, totals.followed),
        share("measured speed-ups within the promised range", totals.in_range, totals.ranges, 0.9, true),
        share("situations with a known gain of 1.25 and no step to it", totals.missed, totals.worth, 0.05, false),
        headlines(totals),
        none("exceeded bounds", totals.bounds_exceeded, totals.situations),
        at_most("median of upper / lower end of ranges at high confidence", totals.spread_at_high, 1.4),
        at_most("largest upper / lower end of a range", totals.spread_most, 2.0),
        share("situations of 2 s or more on a quiet machine with low confidence", totals.low, totals.long, 0.15, false),
        packing(totals),
        none("steps that the experiment cannot read", totals.unknown, totals.situations),
    ];
    if whole {
        let text = format!(
            "at least 25 programs and 120 situations (measured: {} and {})",
            totals.programs, totals.situations
        );
        all.push(Verdict { outcome: outcome(size), text });
    }
    all
}

/// Compares the headlines with their limit.
pub fn headlines(totals: &Totals) -> Verdict {
    share("right headlines, by the truth table", totals.right, totals.headlines, 0.95, true)
}

/// Compares the runs under `cox pack` with their limit.
pub fn packing(totals: &Totals) -> Verdict {
    none(
        "runs under cox pack that take more than 1.02 times the plain time and 15 ms",
        totals.slower_packed,
        totals.packed,
    )
}

/// Returns the exit code: 1 if a limit is missed.
pub fn code(verdicts: &[Verdict]) -> u8 {
    u8::from(verdicts.iter().any(|verdict| verdict.outcome == Outcome::Fail))
}

fn outcome(met: bool) -> Outcome {
    if met { Outcome::Pass } else { Outcome::Fail }
}

fn none(what: &str, found: usize, of: usize) -> Verdict {
    let outcome = if of == 0 { Outcome::NotMeasured } else { outcome(found == 0) };
    Verdict { outcome, text: format!("{what}: {found} of {of} (limit: none)") }
}

/// Compares a share with a limit, from 0 to 1: `least` if it is a lower limit.
pub fn share(what: &str, part: usize, all: usize, limit: f64, least: bool) -> Verdict {
    let share = part as f64 / all as f64;
    let met = if least { share >= limit } else { share <= limit };
    let outcome = if all == 0 { Outcome::NotMeasured } else { outcome(met) };
    let side = if least { "at least" } else { "at most" };
    let percent = if all == 0 { "-".to_owned() } else { format!("{:.0} %", 100.0 * share) };
    Verdict { outcome, text: format!("{what}: {part} of {all}, {percent} (limit: {side} {:.0} %)", 100.0 * limit) }
}

fn at_most(what: &str, value: Option<f64>, limit: f64) -> Verdict {
    let outcome = value.map_or(Outcome::NotMeasured, |value| outcome(value <= limit));
    let value = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    Verdict { outcome, text: format!("{what}: {value} (limit: at most {limit})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Totals {
        Totals {
            programs: 25,
            situations: 120,
            followed: 100,
            ranges: 100,
            in_range: 90,
            worth: 100,
            missed: 5,
            headlines: 100,
            right: 95,
            spread_at_high: Some(1.4),
            spread_most: Some(2.0),
            long: 100,
            packed: 10,
            low: 15,
            ..Totals::default()
        }
    }

    #[test]
    fn every_limit_decides_alone() {
        let passes = |totals: &Totals| verdicts(totals, true).iter().all(|verdict| verdict.outcome == Outcome::Pass);
        assert!(passes(&good()));
        for bad in [
            Totals { harmful: 1, ..good() },
            Totals { in_range: 89, ..good() },
            Totals { missed: 6, ..good() },
            Totals { right: 94, ..good() },
            Totals { bounds_exceeded: 1, ..good() },
            Totals { spread_at_high: Some(1.41), ..good() },
            Totals { spread_most: Some(2.1), ..good() },
            Totals { low: 16, ..good() },
            Totals { slower_packed: 1, ..good() },
            Totals { unknown: 1, ..good() },
            Totals { programs: 24, ..good() },
            Totals { situations: 119, ..good() },
        ] {
            let failed = verdicts(&bad, true).into_iter().filter(|verdict| verdict.outcome == Outcome::Fail).count();
            assert_eq!(failed, 1, "{bad:?}");
        }
    }

    #[test]
    fn nothing_measured_is_nothing_decided() {
        let all = verdicts(&Totals::default(), false);
        assert!(all.iter().all(|verdict| verdict.outcome == Outcome::NotMeasured));
        assert_eq!(
            verdicts(&Totals { programs: 3, ..good() }, false).iter().filter(|v| v.outcome == Outcome::Fail).count(),
            0
        );
    }
}
