//! Each run as a dot over its group's box plot: the data behind medians and intervals.

use advise::numbers::counted;
use compare::stats::{quantile, sorted};

use super::super::{plot, scale};
use crate::comparison::{Comparison, Row, WALL, words};
use crate::markup::{Markup, Safe};

const WIDTH: u64 = 500;
/// Width of the names, pixels.
const LEFT: u64 = 120;
/// Room for half of the label of a mark at the end of the axis, pixels.
const RIGHT: u64 = 40;
/// Height of a group, pixels.
const ROW: u64 = 40;
const TOP: u64 = 6;

/// Number of figures that are always visible; the others are folded up.
const OPEN: usize = 8;

/// Writes a panel for each figure: wall time first, then the figures that changed.
pub(super) fn write(out: &mut Markup, comparison: &Comparison) {
    let mut rows: Vec<&Row> =
        comparison.figures.iter().filter(|row| row.runs.iter().any(|runs| !runs.is_empty())).collect();
    if rows.is_empty() {
        return;
    }
    let is_first = |row: &Row| row.figure == WALL;
    let changed = |row: &Row| row.changes.iter().any(|change| change.verdict.is_a_change());
    rows.sort_by_key(|row| (!is_first(row), !changed(row)));
    plot::caption(
        out,
        "Runs by group",
        "A dot is a run, the thick line the median of the runs; the box contains the middle half of the runs, and the thin line all runs within 1.5 box lengths of the box. \
         Axes do not begin at 0.",
    );
    let (open, folded) = rows.split_at(rows.len().min(OPEN));
    panels(out, comparison, open);
    if !folded.is_empty() {
        writeln!(out, "<details><summary>{} more</summary>", counted(folded.len() as u64, "figure"));
        panels(out, comparison, folded);
        out.push_str("</details>\n");
    }
    out.push_str("</figure>\n");
}

fn panels(out: &mut Markup, comparison: &Comparison, rows: &[&Row]) {
    out.push_str("<div class=\"pair\">");
    rows.iter().for_each(|row| panel(out, comparison, row));
    out.push_str("</div>\n");
}

/// The range of values that an axis shows.
struct Axis {
    least: f64,
    most: f64,
}

impl Axis {
    /// Returns an axis that is slightly wider than the range of the values.
    fn of<'v>(values: impl Iterator<Item = &'v f64> + Clone) -> Axis {
        let (least, most) = (values.clone().copied().fold(f64::MAX, f64::min), values.copied().fold(0.0, f64::max));
        let margin = if most > least { (most - least) * 0.04 } else { (most * 0.05).max(1.0) };
        Axis { least: least - margin, most: most + margin }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT as f64 + (value - self.least) / (self.most - self.least) * (WIDTH - LEFT - RIGHT) as f64
    }
}

fn panel(out: &mut Markup, comparison: &Comparison, row: &Row) {
    let name = words::words(&row.figure);
    let axis = Axis::of(row.runs.iter().flatten());
    let height = ROW * comparison.groups.len() as u64;
    writeln!(
        out,
        "<figure class=\"runs\"><figcaption>{0}</figcaption><svg class=\"spread\" viewBox=\"0 0 {WIDTH} {1}\" role=\"img\" aria-label=\"{0} by group and run\"><rect class=\"ground\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{2}\" height=\"{height}\"/><g class=\"axis\">",
        Safe(&name),
        TOP + height + 24,
        WIDTH - LEFT - RIGHT
    );
    let step = scale::step(axis.most - axis.least, 3.0);
    let first = (axis.least / step).ceil().max(0.0);
    for mark in (0..8).map(|at| (first + f64::from(at)) * step).take_while(|mark| *mark <= axis.most) {
        let x = axis.x(mark);
        write!(
            out,
            "<path class=\"grid\" d=\"M{x:.1} {TOP}v{height}\"/><text x=\"{x:.1}\" y=\"{}\">{}</text>",
            TOP + height + 17,
            words::amount(&row.figure, mark)
        );
    }
    out.push_str("</g>\n");
    for (at, (group, runs)) in (0..).zip(comparison.groups.iter().zip(&row.runs)) {
        let y = TOP + at * ROW;
        plot::name_in(out, (0, y, LEFT - 8, ROW), &group.name);
        boxed(out, &axis, (y + ROW / 2) as f64, runs);
        for (run, value) in runs.iter().enumerate() {
            // Dots alternate between three lines, so that fewer of them overlap.
            let y = (y + ROW / 2) as f64 + (run % 3) as f64 * 7.0 - 7.0;
            write!(
                out,
                "<circle class=\"run\" cx=\"{:.1}\" cy=\"{y}\" r=\"2.6\"><title>{}, run {}: {}</title></circle>",
                axis.x(*value),
                Safe(&group.name),
                run + 1,
                words::amount(&row.figure, *value)
            );
        }
        out.push_str("\n");
    }
    out.push_str("</svg></figure>\n");
}

/// Draws a box plot: the quartiles, and the range of the runs within 1.5 interquartile ranges of them.
fn boxed(out: &mut Markup, axis: &Axis, y: f64, runs: &[f64]) {
    if runs.is_empty() {
        return;
    }
    let sorted = sorted(runs);
    let [low, middle, high] = [0.25, 0.5, 0.75].map(|part| quantile(&sorted, part));
    let reach = 1.5 * (high - low);
    let near = |value: &&f64| (low - reach..=high + reach).contains(*value);
    let (least, most) = (sorted.iter().find(near).unwrap_or(&low), sorted.iter().rfind(near).unwrap_or(&high));
    let [low, middle, high, least, most] = [low, middle, high, *least, *most].map(|value| axis.x(value));
    let (top, half) = (y - 13.0, 13.0);
    write!(
        out,
        "<g class=\"box\"><path d=\"M{least:.1} {y}H{low:.1}M{high:.1} {y}H{most:.1}\"/><rect x=\"{low:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"26\"/><path class=\"median\" d=\"M{middle:.1} {top}v{}\"/></g>",
        (high - low).max(1.0),
        2.0 * half
    );
}
