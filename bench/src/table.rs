//! The printed table of a case. All cases have the same columns.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::results::{Case, Figure, Measured, Shown};
use crate::stats::Estimate;

/// Headings of the columns after the first, which names the figure and its treatments.
const COLUMNS: [&str; 4] = ["median", "quartiles", "ratio to plain (95 %)", "added (95 %)"];

/// Returns a case as text, at most 100 columns wide. Only the reason why a treatment was not measured can be longer.
pub fn case(case: &Case) -> String {
    let mut text = format!("{} - {}\n", case.name, case.about);
    if !case.figures.is_empty() {
        let _ = writeln!(text, "{}", rows(&case.figures));
    }
    let mut named = Vec::new();
    for row in case.figures.iter().flat_map(|figure| &figure.rows) {
        // A treatment that could not be measured is missing in every figure: print its reason once.
        if let Some(why) = row.impossible.as_ref().filter(|_| !named.contains(&row.with)) {
            let _ = writeln!(text, "  {}: not measured: {why}", row.with);
            named.push(row.with);
        }
    }
    for note in &case.notes {
        let _ = writeln!(text, "  {note}");
    }
    for verdict in &case.verdicts {
        let _ = writeln!(text, "  {}  {}", verdict.outcome.word(), verdict.text);
    }
    text
}

fn rows(figures: &[Figure]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for figure in figures {
        let unit = match figure.shown {
            Shown::Ns => "ns",
            Shown::Ms => "ms",
        };
        table.add_row([format!("{}, {unit}", figure.name)].into_iter().chain(COLUMNS.map(str::to_owned)));
        for row in &figure.rows {
            let cells = match &row.measured {
                Some(measured) => figures_of(measured, figure.shown),
                None => std::array::from_fn(|_| "-".to_owned()),
            };
            table.add_row([format!("  {}", row.with)].into_iter().chain(cells));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn figures_of(measured: &Measured, shown: Shown) -> [String; COLUMNS.len()] {
    let (first, third) = measured.quartiles_ns;
    [
        time(measured.median_ns, shown),
        format!("{} .. {}", time(first, shown), time(third, shown)),
        measured.ratio.as_ref().map_or(String::new(), ratio),
        measured.added_ns.as_ref().map_or(String::new(), |added| addition(added, shown)),
    ]
}

/// Formats a ratio: `1.041 (1.036 .. 1.047)`.
pub fn ratio(estimate: &Estimate) -> String {
    with_interval(estimate, |value| format!("{value:.3}"))
}

/// Formats an estimate without decimals: `512 (498 .. 525)`.
pub fn whole(estimate: &Estimate) -> String {
    with_interval(estimate, |value| format!("{value:.0}"))
}

/// Formats an added time with its sign: `+112 (+98 .. +125)`.
pub fn addition(estimate: &Estimate, shown: Shown) -> String {
    with_interval(estimate, |value| {
        let text = time(value.abs(), shown);
        let sign = if text.chars().all(|c| matches!(c, '0' | '.')) {
            ""
        } else if value < 0.0 {
            "-"
        } else {
            "+"
        };
        format!("{sign}{text}")
    })
}

fn with_interval(estimate: &Estimate, form: impl Fn(f64) -> String) -> String {
    match estimate.interval {
        Some((low, high)) => format!("{} ({} .. {})", form(estimate.median), form(low), form(high)),
        None => format!("{} (too few)", form(estimate.median)),
    }
}

fn time(ns: f64, shown: Shown) -> String {
    match shown {
        Shown::Ns => grouped(&format!("{ns:.0}")),
        Shown::Ms => grouped(&format!("{:.1}", ns / 1e6)),
    }
}

/// Inserts a comma between thousands.
fn grouped(number: &str) -> String {
    let whole = number.find('.').unwrap_or(number.len());
    let mut text = String::with_capacity(number.len() + whole / 3);
    for (place, digit) in number.char_indices() {
        if place > 0 && place < whole && (whole - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Column;
    use crate::rounds::Rounds;
    use crate::stats::Bracket;
    use crate::verdict::{Outcome, Verdict};

    #[test]
    fn numbers() {
        assert_eq!(grouped("1"), "1");
        assert_eq!(grouped("999.5"), "999.5");
        assert_eq!(grouped("1000"), "1,000");
        assert_eq!(grouped("1234567.8"), "1,234,567.8");
        let estimate = Estimate { median: -0.4, interval: Some((-1200.0, 3.0)) };
        assert_eq!(addition(&estimate, Shown::Ns), "0 (-1,200 .. +3)");
        assert_eq!(ratio(&Estimate { median: 1.04, interval: None }), "1.040 (too few)");
    }

    #[test]
    fn a_case_shows_figures_reasons_and_verdicts_within_100_columns() {
        let columns = [
            Column { name: "cox", impossible: None },
            Column { name: "perf sched record", impossible: Some("perf is not installed".into()) },
        ];
        let bracket = Bracket { before: 9_876_543_210.0, treated: 9_976_543_210.0, after: 9_876_543_210.0 };
        let rounds = Rounds { plain: vec![9_876_543_210.0; 7], treated: vec![vec![bracket; 6]] };
        let figures = vec![Figure::new("command CPU", Shown::Ms, &columns, rounds)];
        let verdicts = vec![Verdict { outcome: Outcome::Fail, text: "cox at most 1.01 x".into() }];
        let text = case(&Case { name: "make", about: "make -j2".into(), figures, notes: Vec::new(), verdicts });
        assert!(text.contains("9,876.5 .. 9,876.5"), "{text}");
        assert!(text.contains("1.010 (1.010 .. 1.010)  +100.0 (+100.0 .. +100.0)"), "{text}");
        assert!(text.contains("perf sched record: not measured: perf is not installed"), "{text}");
        assert!(text.contains("FAIL  cox at most 1.01 x"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
