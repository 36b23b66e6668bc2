//! Maps as text, at most 100 columns wide: more schedules continue below.

use std::fmt::Write;

use report::Style;

use super::map::{Map, Unit, Value};

const WIDTH: usize = 100;
/// Marks a value that cannot be told from what it is compared with.
const NOISE: &str = "~";

/// Returns a map as text.
pub fn map(map: &Map) -> String {
    let figure = map.figure.map_or(String::new(), |figure| format!(" (figure {figure} of the study)"));
    let about = Style::default().wrapped(&map.about, "  ", "  ").join("\n");
    let mut text = format!("{}{figure}\n{about}\n", map.title);
    let names = map.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0) + 2;
    let cells: Vec<Vec<String>> =
        map.rows.iter().map(|row| row.cells.iter().map(|cell| value(map.unit, cell.as_ref())).collect()).collect();
    let widest = cells.iter().flatten().chain(&map.columns).map(|cell| cell.chars().count()).max().unwrap_or(0) + 2;
    let room = (WIDTH.saturating_sub(names) / widest).max(1);
    for from in (0..map.columns.len()).step_by(room) {
        let columns = from..(from + room).min(map.columns.len());
        let mut line = format!("{:names$}", "");
        for column in &map.columns[columns.clone()] {
            let _ = write!(line, "{column:>widest$}");
        }
        let _ = writeln!(text, "{line}");
        for (row, cells) in map.rows.iter().zip(&cells) {
            let mut line = format!("{:names$}", format!("  {}", row.name));
            for cell in &cells[columns.clone()] {
                let _ = write!(line, "{cell:>widest$}");
            }
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Returns the median, half the distance between the quartiles, and the mark of noise.
pub fn value(unit: Unit, value: Option<&Value>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let mark = if value.is_noise { NOISE } else { "" };
    let spread = unit.spread_beside(value.half_spread(), value.median);
    format!("{} ±{spread}{mark}", unit.text(value.median))
}

/// Returns a remark below the maps, as lines.
pub fn remark(text: &str) -> String {
    Style::default().wrapped(text, "", "  ").join("\n")
}

/// Returns what the marks mean.
pub fn legend(rounds: usize) -> String {
    let few = if rounds < 4 { " Fewer than 4 runs can never be told apart." } else { "" };
    format!(
        "Medians of {rounds} runs ± half the distance between the quartiles. {NOISE}: cannot be told from the first schedule of the row \
         (rank-sum test, 5 %), or, of ratios, from 1 (95 % interval).{few} Of twenty cells without a real difference, one lacks the mark."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::map::{Row, Scale};

    #[test]
    fn many_schedules_continue_below_and_every_line_fits() {
        let runs = |base: f64| (0..5).map(|at| (base + f64::from(at) / 100.0, None)).collect::<Vec<_>>();
        let columns: Vec<String> = (0..12).map(|at| format!("schedule_{at}")).collect();
        let cells: Vec<_> = (0..12).map(|at| if at == 3 { vec![] } else { runs(1.0 + f64::from(at / 2)) }).collect();
        let map = Map {
            id: "id".into(),
            title: "Time".into(),
            figure: Some("4.4"),
            about: "seconds ".repeat(20).trim().to_owned(),
            unit: Unit::Seconds,
            scale: Scale::Row,
            columns,
            rows: vec![Row::new("triad, 2 threads", &cells)],
        };
        let text = super::map(&map);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.starts_with("Time (figure 4.4 of the study)\n  seconds seconds"), "{text}");
        assert!(legend(3).contains("Fewer than 4 runs") && !legend(4).contains("Fewer"));
        assert!(remark(&legend(3)).lines().all(|line| line.chars().count() <= WIDTH));
        assert_eq!(text.matches("schedule_").count(), 12);
        assert_eq!(text.matches("triad, 2 threads").count(), 3, "{text}");
        // The second schedule is like the first one; the third one is not.
        assert!(text.contains("  1.020 s ±0.010  1.020 s ±0.010~   2.020 s ±0.010  "), "{text}");
        assert!(text.lines().any(|line| line.ends_with("  -")), "a cell without runs: {text}");
    }
}
