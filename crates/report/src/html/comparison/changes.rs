//! Changes with their 95 % intervals, one row for each figure.

use compare::{Change, Verdict};

use super::super::plot::{self, WIDTH};
use crate::comparison::{Comparison, Row, words};
use crate::markup::{Markup, Safe};

/// Width of the names, pixels.
const LEFT: u64 = 190;
const ROW: u64 = 22;
const TOP: u64 = 8;

/// Largest reach of the axis to each side, as log2 of the factor: 3 means from 1/8 to 8 times. Values beyond the axis get an arrow.
const WIDEST: f64 = 3.0;
/// Smallest reach of the axis to each side, as log2 of the factor: 0.0286 means from about −2 % to +2 %.
const NARROWEST: f64 = 0.0286;

/// Relative changes that may be labelled on the axis: 7.0 is 8 times as much, −0.5 is half. If two labels would be too close together, the later one
/// in this list is left out.
const MARKS: [f64; 23] = [
    0.0, 7.0, -0.875, 3.0, -0.75, 1.0, -0.5, 0.5, -0.3, 0.3, -0.2, 0.2, 0.1, -0.1, 0.05, -0.05, 0.02, -0.02, 0.01,
    -0.01, 0.005, -0.005, 0.0025,
];

/// The kinds of marks: CSS class and meaning.
const KINDS: [(&str, &str); 3] =
    [("c-change", "a change"), ("c-none", "no significant difference"), ("c-unsure", "undecided")];

/// Writes the changes of group `other` compared with the first.
pub(super) fn write(out: &mut Markup, comparison: &Comparison, other: usize) {
    let known = |row| Some((row, Row::change(row, other)?)).filter(|(_, change)| change.change.is_some());
    let mut rows: Vec<(&Row, &Change)> = comparison.figures.iter().filter_map(known).collect();
    // The same order as in the table below.
    rows.sort_by_key(|(_, change)| KINDS.iter().position(|(class, _)| *class == class_of(change.verdict)));
    if rows.is_empty() {
        return;
    }
    plot::caption(
        out,
        &format!("Changes from {} to {}", comparison.groups[0].name, comparison.groups[other].name),
        "The mark is the change, the line its 95 % interval; the axis is logarithmic. An arrow marks a value outside the picture.",
    );
    let axis = Axis::of(&rows);
    let height = ROW * rows.len() as u64;
    let says = "changes of figures with their 95 % intervals; the table below says the same";
    writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{says}\"><svg class=\"plot changes\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{says}\">",
        TOP + height + 34
    );
    axis.write(out, height);
    for (at, (row, change)) in (0..).zip(&rows) {
        let y = TOP + at * ROW;
        plot::name_in(out, (0, y, LEFT - 10, ROW), &words::words(&row.figure));
        axis.change(out, (y + ROW / 2) as f64, change);
    }
    out.push_str("</svg></div>\n<ul class=\"legend\">");
    for (class, words) in KINDS {
        if rows.iter().any(|(_, change)| class_of(change.verdict) == class) {
            write!(
                out,
                "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\" class=\"bare\"><circle class=\"{class}\" cx=\"6\" cy=\"6\" r=\"4.5\"/></svg>{words}</li>"
            );
        }
    }
    out.push_str("</ul></figure>\n");
}

fn class_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::NoChange => "c-none",
        Verdict::CannotTell => "c-unsure",
        _ => "c-change",
    }
}

/// The axis of changes: factors on a logarithmic scale.
struct Axis {
    /// Reach of the axis to each side, as log2 of the factor: 3 means from 1/8 to 8 times.
    reach: f64,
}

fn power(change: f64) -> f64 {
    // A decrease by 100 % or more has no finite logarithm.
    if change <= -1.0 { f64::NEG_INFINITY } else { (1.0 + change).log2() }
}

impl Axis {
    fn of(rows: &[(&Row, &Change)]) -> Axis {
        let ends = rows.iter().flat_map(|(_, change)| {
            let (low, high) = change.interval.unzip();
            [low, high, change.change]
        });
        let reach = ends.flatten().map(|change| power(change).abs()).fold(NARROWEST, f64::max).min(WIDEST);
        Axis { reach: reach * 1.04 }
    }

    fn x(&self, power: f64) -> f64 {
        let half = (WIDTH - LEFT - 20) as f64 / 2.0;
        LEFT as f64 + 10.0 + half + (power / self.reach).clamp(-1.0, 1.0) * half
    }

    fn write(&self, out: &mut Markup, height: u64) {
        let (left, right) = (self.x(-self.reach), self.x(self.reach));
        writeln!(
            out,
            "<rect class=\"ground\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{height}\"/><g class=\"axis\">",
            right - left
        );
        let mut marked: Vec<f64> = Vec::new();
        for change in MARKS {
            let x = self.x(power(change));
            let has_room = power(change).abs() <= self.reach && marked.iter().all(|other| (other - x).abs() >= 62.0);
            if !has_room {
                continue;
            }
            marked.push(x);
            let (class, text) =
                if change == 0.0 { ("zero", "no change".to_owned()) } else { ("grid", words::signed(change)) };
            write!(
                out,
                "<path class=\"{class}\" d=\"M{x:.1} {TOP}v{height}\"/><text x=\"{x:.1}\" y=\"{}\">{text}</text>",
                TOP + height + 17
            );
        }
        out.push_str("</g>\n");
    }

    fn change(&self, out: &mut Markup, y: f64, change: &Change) {
        let class = class_of(change.verdict);
        let says = change.change.map_or_else(String::new, words::signed);
        let within = change.interval.map_or_else(String::new, |ends| format!(" ({})", words::range(ends)));
        write!(out, "<g class=\"{class}\"><title>{}</title>", Safe(format!("{says}{within}")));
        if let Some((low, high)) = change.interval {
            let (from, until) = (self.x(power(low)), self.x(power(high)));
            write!(out, "<path class=\"whisker\" d=\"M{from:.1} {y}H{until:.1}");
            for end in [low, high].into_iter().filter(|end| power(*end).abs() <= self.reach) {
                write!(out, "M{:.1} {}v8", self.x(power(end)), y - 4.0);
            }
            out.push_str("\"/>");
            [low, high].into_iter().for_each(|end| self.arrow(out, y, end));
        }
        let middle = change.change.unwrap_or(0.0);
        if power(middle).abs() <= self.reach {
            write!(out, "<circle cx=\"{:.1}\" cy=\"{y}\" r=\"4.5\"/>", self.x(power(middle)));
        } else {
            if change.interval.is_none() {
                self.arrow(out, y, middle);
            }
            // If the mark lies beyond the axis, its number is written at the edge.
            let (x, anchor) =
                if middle > 0.0 { (self.x(self.reach) - 16.0, "end") } else { (self.x(-self.reach) + 16.0, "start") };
            write!(
                out,
                "<text class=\"beyond\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                y - 4.0,
                words::signed(middle)
            );
        }
        out.push_str("</g>\n");
    }

    /// Draws an arrow if a value lies beyond the axis.
    fn arrow(&self, out: &mut Markup, y: f64, end: f64) {
        let power = power(end);
        if power.abs() <= self.reach {
            return;
        }
        let x = self.x(power);
        write!(out, "<path class=\"tip\" d=\"M{x:.1} {y}L{:.1} {}V{}z\"/>", x - 9.0 * power.signum(), y - 5.0, y + 5.0);
    }
}
