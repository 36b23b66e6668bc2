//! Detours over time, of a CPU or of a program: a mark for each, its height the logarithm of its length, its colour and shape the class of its cause.

use std::collections::BTreeMap;

use advise::numbers::{count, counted, duration};

use super::super::plot::{self, LEFT, WIDTH};
use super::super::scale;
use super::axis::Axis;
use super::classes::{self, Class};
use crate::markup::Markup;
use crate::noise::{Cause, Cpu, NoiseReport};

const HEIGHT: u64 = 260;
/// Room above the longest detour, pixels.
const TOP: u64 = 8;
const AXIS: u64 = 38;
/// Width of the time axis, pixels. The rest is room for the last mark's name.
const PLOT: u64 = WIDTH - LEFT - 20;
/// Largest number of marks of one chart.
pub(in super::super) const MARKS: usize = 3_000;
/// Largest number of marks of a page, as far as [`FEWEST`] allows it.
const MARKS_OF_PAGE: usize = 24_000;
/// Number of marks that each CPU may have.
const FEWEST: usize = 300;
/// Largest number of columns, if detours share marks.
const COLUMNS: u64 = 1_024;
/// Radius of a mark, pixels.
const SIZE: f64 = 2.6;

/// A mark: the longest detour of one cause in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// Begin since the CPU's measurement began, length, and index of the cause.
    detour: (u64, u64, u32),
    /// Number of detours that it stands for.
    count: u64,
}

/// What is drawn.
pub(in super::super) struct Chart<'p> {
    /// The heading.
    pub title: &'static str,
    /// What a mark is called: `detour`.
    pub one: &'static str,
    /// What a mark and its height are, as sentences.
    pub what: String,
    /// The causes.
    pub causes: &'p [Cause],
    /// Begin since the start, length, and index of the cause of each.
    pub all: Vec<(u64, u64, u32)>,
    /// Length of the time axis, ns.
    pub length_ns: u64,
    /// Number of those that were counted and are not in `all`.
    pub left_out: u64,
}

pub(super) fn write(out: &mut Markup, report: &NoiseReport, cpu: &Cpu) {
    let room = (MARKS_OF_PAGE / report.cpus.len().max(1)).clamp(FEWEST, MARKS);
    let length = if cpu.quiet_ns.is_some() { "how much longer than the shortest one it took" } else { "its length" };
    let chart = Chart {
        title: "Detours over time",
        one: "detour",
        what: format!(
            "Each mark is a detour, its height {length}, on a logarithmic scale. The cause is the one that took most of it."
        ),
        causes: &report.causes,
        all: cpu.detours.iter().map(|(begin, length, cause)| (*begin, cpu.lost_ns(*length), *cause)).collect(),
        length_ns: report.cpus.iter().map(|cpu| cpu.begin_ns + cpu.length_ns).max().unwrap_or(1),
        left_out: if cpu.truncated { cpu.fine.count.saturating_sub(cpu.detours.len() as u64) } else { 0 },
    };
    draw(out, &chart, room);
}

/// Draws a picture with at most `room` marks; nothing if there is nothing to draw.
pub(in super::super) fn draw(out: &mut Markup, chart: &Chart<'_>, room: usize) {
    if chart.all.is_empty() {
        return;
    }
    let length_ns = chart.length_ns.max(1);
    let (marks, columns) = marks(&chart.all, length_ns, room);
    plot::caption(out, chart.title, &note(chart, &marks, columns));
    if chart.left_out > 0 {
        let (rest, one) = (count(chart.left_out), chart.one);
        plot::warnings(out, [format!("{rest} more {one}s were counted but not listed: they have no marks.")]);
    }
    let height = TOP + HEIGHT + AXIS;
    let says = format!("{}, by the class of their cause", chart.title.to_lowercase());
    writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{says}\"><svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{says}\">\
         <rect class=\"ground\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{PLOT}\" height=\"{HEIGHT}\"/>"
    );
    let bottom = TOP + HEIGHT;
    let ends = |of: fn(u64, u64) -> u64| marks.iter().map(|mark| mark.detour.1).reduce(of).unwrap_or(1);
    let axis = Axis::new((ends(u64::min), ends(u64::max)), bottom as f64, -(HEIGHT as f64));
    let x = |ns: u64| LEFT as f64 + ns.min(length_ns) as f64 / length_ns as f64 * PLOT as f64;
    out.push_str("<g class=\"axis\">");
    axis.beside(out, LEFT, PLOT);
    let (times, unit) = scale::times(length_ns, 9.0);
    for (t_ns, text) in times {
        let x = x(t_ns);
        write!(out, "<path d=\"M{x:.1} {bottom}v5\"/><text x=\"{x:.1}\" y=\"{}\">{text}</text>", bottom + 16);
    }
    writeln!(out, "<text x=\"{}\" y=\"{}\">time since the start, {unit}</text></g>", LEFT + PLOT / 2, bottom + 33);
    let class = |mark: &Mark| classes::of(chart.causes, mark.detour.2);
    let used = classes::used(|of| marks.iter().any(|mark| class(mark) == of));
    for of in &used {
        write!(out, "<g class=\"mark {}\">", of.css);
        for mark in marks.iter().filter(|mark| class(mark) == *of) {
            let (begin_ns, length_ns, _) = mark.detour;
            of.mark(out, (x(begin_ns), axis.at(length_ns)), SIZE, &title(chart.causes, *of, mark));
        }
        out.push_str("</g>\n");
    }
    out.push_str("</svg></div>\n");
    classes::legend_of_marks(out, &used);
    out.push_str("</figure>\n");
}

fn note(chart: &Chart<'_>, marks: &[Mark], columns: Option<u64>) -> String {
    let Chart { one, what, all, .. } = chart;
    let number = counted(all.len() as u64, one);
    match columns {
        None => format!("{number}. {what}"),
        Some(columns) => {
            let (marks, columns) = (count(marks.len() as u64), count(columns));
            let (first, rest) = one.split_at(1);
            let ones = first.to_uppercase() + rest;
            format!(
                "{number}, {marks} marks. {what} {ones}s share marks: each mark is the longest {one} of its cause in one of {columns} equal parts of the time."
            )
        }
    }
}

fn title(causes: &[Cause], class: Class, mark: &Mark) -> String {
    let (begin_ns, length_ns, cause) = mark.detour;
    let name = causes.get(cause as usize).map_or(class.words, |cause| &cause.name);
    let more = if mark.count > 1 { format!(", the longest of {}", count(mark.count)) } else { String::new() };
    format!("{name}: {} at {:.4} s{more}", duration(length_ns), begin_ns as f64 / 1e9)
}

/// Returns at most `room` marks, and into how many columns the time was divided for that; `None` if each detour has its own mark.
fn marks(detours: &[(u64, u64, u32)], length_ns: u64, room: usize) -> (Vec<Mark>, Option<u64>) {
    if detours.len() <= room {
        return (detours.iter().map(|detour| Mark { detour: *detour, count: 1 }).collect(), None);
    }
    let column = |begin_ns: u64| (u128::from(begin_ns) * u128::from(COLUMNS) / u128::from(length_ns)) as u64;
    let each = detours.iter().map(|detour| ((column(detour.0), detour.2), Mark { detour: *detour, count: 1 }));
    let (mut marks, mut columns) = (longest(each), COLUMNS);
    // With one column, there is a mark for each cause.
    while marks.len() > room && columns > 1 {
        marks = longest(marks.into_iter().map(|((column, cause), mark)| ((column / 2, cause), mark)));
        columns /= 2;
    }
    (marks.into_values().collect(), Some(columns))
}

/// Joins marks of the same column and cause: the longest stays, and stands for all.
fn longest(marks: impl Iterator<Item = ((u64, u32), Mark)>) -> BTreeMap<(u64, u32), Mark> {
    let mut joined: BTreeMap<(u64, u32), Mark> = BTreeMap::new();
    for (place, mark) in marks {
        let longest = joined.entry(place).or_insert(Mark { count: 0, ..mark });
        longest.count += mark.count;
        if mark.detour.1 > longest.detour.1 {
            longest.detour = mark.detour;
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_detours_have_their_own_marks() {
        let detours = [(5, 100, 0), (9, 200, 1)];
        let (found, columns) = marks(&detours, 10, 2);
        assert_eq!((found.len(), columns), (2, None));
        assert!(found.iter().zip(&detours).all(|(mark, detour)| mark.detour == *detour && mark.count == 1));
    }

    #[test]
    fn many_detours_share_marks_and_the_longest_stays() {
        // 10,000 detours of two causes; the longest of each is somewhere among them.
        let length = |at: u64| if at == 7_001 || at == 3_000 { 1_000_000 + at } else { at * 31 % 1_000 };
        let detours: Vec<(u64, u64, u32)> = (0..10_000).map(|at| (at * 100, length(at), (at % 2) as u32)).collect();
        let (found, columns) = marks(&detours, 1_000_000, 300);
        assert!(found.len() <= 300 && found.len() > 100, "{}", found.len());
        assert_eq!(columns, Some(128));
        assert_eq!(found.iter().map(|mark| mark.count).sum::<u64>(), 10_000, "each detour is in one mark");
        for longest in [(700_100, 1_007_001, 1), (300_000, 1_003_000, 0)] {
            assert!(found.iter().any(|mark| mark.detour == longest), "{longest:?}");
        }
    }
}
