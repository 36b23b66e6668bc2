//! Tables and numbers as printed by all parts.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::stats::Estimate;

/// Formats a table with headings. The first `left` columns contain words and are left-aligned; the others contain figures.
pub fn table(headings: &[&str], left: usize, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.add_row(headings.iter().map(|heading| (*heading).to_owned()).collect::<Vec<_>>());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// Formats an estimate: `1.04 (1.03 .. 1.05)`, or `(too few)` instead of the interval if there are too few values.
pub fn estimate(estimate: &Estimate) -> String {
    let figure = |value: f64| format!("{value:.*}", digits(estimate.median));
    match estimate.interval {
        Some((low, high)) => format!("{} ({} .. {})", figure(estimate.median), figure(low), figure(high)),
        None => format!("{} (too few)", figure(estimate.median)),
    }
}

/// Returns the number of useful decimals: three for small ratios, none for large figures.
fn digits(value: f64) -> usize {
    match value.abs() {
        value if value < 1.0 => 3,
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    }
}

/// Formats a figure with the precision of [`estimate`].
pub fn figure(value: f64) -> String {
    format!("{value:.*}", digits(value))
}

/// Formats a figure, or `-` if it is missing.
pub fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), figure)
}

/// Formats a duration: `1 h 5 min`, `12 min`, `less than a minute`.
pub fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match (minutes / 60, minutes % 60) {
        (0, 0) => "less than a minute".to_owned(),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        let interval = Some((1.0321, 1.0678));
        assert_eq!(estimate(&Estimate { median: 1.05, interval }), "1.05 (1.03 .. 1.07)");
        assert_eq!(estimate(&Estimate { median: 13.44, interval: None }), "13.4 (too few)");
        assert_eq!(figure(0.07345), "0.073");
        assert_eq!(figure(1234.5), "1234");
        assert_eq!(maybe(None), "-");
    }

    #[test]
    fn durations() {
        assert_eq!(duration(20.0), "less than a minute");
        assert_eq!(duration(3900.0), "1 h 5 min");
        assert_eq!(duration(720.0), "12 min");
    }

    #[test]
    fn words_stand_left_and_figures_right() {
        let text = table(&["what", "s"], 1, vec![vec!["a".into(), "1.00".into()], vec!["bcdef".into(), "10".into()]]);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let width = lines[0].len();
        assert!(lines.iter().all(|line| line.len() == width), "{text}");
        assert!(lines[1].trim_start().starts_with('a') && lines[1].ends_with("1.00"), "{text}");
    }
}
