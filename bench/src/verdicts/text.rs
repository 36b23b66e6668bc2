//! What is printed: a line per finished situation, the table of offenders, the totals beside the limits, and the corpus.

use std::fmt::Write;

use super::result::{Finished, Outcome, Speedup, Tried};
use super::score::{Fault, Score, Totals};
use crate::verdict::Verdict;

/// Returns the headline of a finished situation.
pub fn headline(finished: &Finished) -> String {
    match &finished.verdict {
        Some(told) => format!("{}: {} ({}), {:.2} s", finished.key, told.headline, told.confidence, told.wall_s),
        None => format!("{}: not measured: {}", finished.key, finished.failed.as_deref().unwrap_or("no verdict")),
    }
}

/// Returns the line of a finished situation: its headline, and the speed-up by each measured change.
pub fn line(finished: &Finished) -> String {
    if finished.verdict.is_none() {
        return headline(finished);
    }
    let changes: Vec<String> =
        finished.tried.iter().enumerate().map(|(index, tried)| one(finished, index, tried)).collect();
    let changes = if changes.is_empty() { "no change".to_owned() } else { changes.join(", ") };
    format!("{}; {changes}", headline(finished))
}

/// A change that a step of the report leads to has a star.
fn one(finished: &Finished, index: usize, tried: &Tried) -> String {
    let advised = finished.arrows.iter().any(|arrow| arrow.outcome == Outcome::Tried(index));
    let star = if advised { "*" } else { "" };
    match (&tried.speedup, tried.cut_short) {
        (None, _) => format!("{}{star} failed", tried.change),
        (Some(speedup), true) => format!("{}{star} below {:.2}", tried.change, speedup.ratio),
        (Some(speedup), false) => format!("{}{star} {:.2}", tried.change, speedup.ratio),
    }
}

/// Returns the table of offenders, then the totals with their limits.
pub fn tables(score: &Score, verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    if score.faults.is_empty() {
        text.push_str("No offenders.\n");
    } else {
        let headings = ["situation", "step, change or headline", "promised", "measured", "wrong"].map(str::to_owned);
        let rows: Vec<[String; 5]> = std::iter::once(headings).chain(score.faults.iter().map(row)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 5] = std::array::from_fn(width);
        for row in &rows {
            let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            let _ = writeln!(text, "{}", cells.join("  ").trim_end());
        }
    }
    let Totals { programs, situations, failed, .. } = score.totals;
    let _ = writeln!(text, "\n{situations} situations of {programs} programs measured, {failed} could not be measured");
    for verdict in verdicts {
        let _ = writeln!(text, "{}", compared(verdict));
    }
    text
}

/// Returns the line of a total beside its limit.
pub fn compared(verdict: &Verdict) -> String {
    format!("  {:12}  {}", verdict.outcome.word(), verdict.text)
}

fn row(fault: &Fault) -> [String; 5] {
    [
        fault.key.clone(),
        shortened(&fault.subject),
        fault.promised.clone(),
        fault.measured.as_ref().map_or(String::new(), measured),
        fault.wrong.words().to_owned(),
    ]
}

/// Longest text of a step in the table; the JSON has all of it.
const WIDEST: usize = 44;

fn shortened(text: &str) -> String {
    if text.chars().count() <= WIDEST {
        text.to_owned()
    } else {
        text.chars().take(WIDEST - 1).collect::<String>() + "…"
    }
}

fn measured(speedup: &Speedup) -> String {
    format!("{:.2} ({:.2}-{:.2})", speedup.ratio, speedup.low, speedup.high)
}

#[cfg(test)]
mod tests {
    use advise::{Confidence, Kind};

    use super::super::limits;
    use super::super::result::{Arrow, Told};
    use super::super::score::score;
    use super::*;

    fn finished() -> Finished {
        let speedup = Speedup { ratio: 0.5, low: 0.49, high: 0.51 };
        Finished {
            key: "cg n=3 plain".to_owned(),
            program: "cg".to_owned(),
            loaded: false,
            failed: None,
            verdict: Some(Told {
                headline: Kind::Imbalance,
                confidence: Confidence::Medium,
                bound: None,
                wall_s: 1.5,
                others: 0.0,
            }),
            arrows: vec![Arrow {
                action: "OMP_WAIT_POLICY=passive".to_owned(),
                expected: Some((1.5, 2.2)),
                bound: Some(2.3),
                outcome: Outcome::Tried(0),
            }],
            tried: vec![Tried {
                change: "OMP_WAIT_POLICY=passive".to_owned(),
                known: true,
                scheduling: true,
                base_s: vec![1.0],
                change_s: vec![2.0],
                cut_short: false,
                speedup: Some(speedup),
                failed: None,
            }],
        }
    }

    #[test]
    fn a_situation_is_one_line() {
        assert_eq!(line(&finished()), "cg n=3 plain: imbalance (medium), 1.50 s; OMP_WAIT_POLICY=passive* 0.50");
        let failed = Finished { failed: Some("exit code 1: no input".into()), verdict: None, ..finished() };
        assert_eq!(line(&failed), "cg n=3 plain: not measured: exit code 1: no input");
    }

    #[test]
    fn offenders_come_before_the_totals() {
        let score = score(&[finished()], |_| None);
        let text = tables(&score, &limits::verdicts(&score.totals, false));
        let harm = "cg n=3 plain  OMP_WAIT_POLICY=passive   1.50-2.20  0.50 (0.49-0.51)  harm";
        assert!(text.contains(harm), "{text}");
        assert!(text.contains("out of range") && text.contains("1 situations of 1 programs measured"), "{text}");
        assert!(text.contains("FAIL"), "{text}");
        assert!(tables(&Score::default(), &[]).starts_with("No offenders."));
        assert_eq!(shortened(&"x".repeat(60)).chars().count(), WIDEST);
    }
}
