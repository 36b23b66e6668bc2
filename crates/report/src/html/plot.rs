//! Frames of pictures over time: a margin for names, columns, a time axis, and marks where events were lost.

use advise::numbers::count;
use ledger::timeline::Timeline;

use super::scale;
use crate::markup::{Markup, Safe};

/// Width of a picture in a wide window, pixels.
pub(super) const WIDTH: u64 = 1040;
/// Width of the margin with names, pixels.
pub(super) const LEFT: u64 = 152;
/// Width of the columns, pixels.
pub(super) const PLOT: u64 = WIDTH - LEFT - 8;
/// Height of the time axis, pixels.
const AXIS: u64 = 38;

/// The pattern that hatches incomplete columns.
pub(super) const HATCH: &str = "<svg width=\"0\" height=\"0\" class=\"defs\" aria-hidden=\"true\"><defs>\
<pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<rect width=\"6\" height=\"6\" class=\"hatch-back\"/><rect width=\"2\" height=\"6\" class=\"hatch-line\"/></pattern>\
</defs></svg>\n";

/// A picture over time.
pub(super) struct Plot<'t> {
    pub timeline: &'t Timeline,
    /// Height without the axis, pixels.
    pub height: u64,
}

impl Plot<'_> {
    /// Opens the picture. `says` describes it in one line, for screen readers.
    pub(super) fn open(&self, out: &mut Markup, says: &str) {
        let height = self.height + AXIS;
        writeln!(
            out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{0}\"><svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\" \
             data-left=\"{LEFT}\" data-plot=\"{PLOT}\" data-columns=\"{1}\" data-ns=\"{2}\">",
            Safe(says),
            self.timeline.span.columns(),
            self.timeline.span.length_ns()
        );
        writeln!(out, "<rect class=\"ground\" x=\"{LEFT}\" y=\"0\" width=\"{PLOT}\" height=\"{}\"/>", self.height);
    }

    /// Writes a name into the margin, in the middle of a row.
    pub(super) fn name(&self, out: &mut Markup, y: u64, height: u64, name: &str) {
        name_in(out, (0, y, LEFT - 8, height), name);
    }

    /// Begins the columns: from here on, one unit to the right is one column. The columns are a nested picture, whose `viewBox` selects the part of
    /// time that is shown.
    pub(super) fn columns(&self, out: &mut Markup) {
        let (columns, height) = (self.timeline.span.columns(), self.height);
        writeln!(
            out,
            "<svg class=\"time\" x=\"{LEFT}\" y=\"0\" width=\"{PLOT}\" height=\"{height}\" viewBox=\"0 0 {columns} {height}\" preserveAspectRatio=\"none\">"
        );
    }

    /// Ends the nested picture that [`columns`](Plot::columns) began.
    pub(super) fn columns_end(out: &mut Markup) {
        out.push_str("</svg>\n");
    }

    /// Closes the picture: marks incomplete columns, and writes the axis.
    pub(super) fn close(&self, out: &mut Markup) {
        let span = &self.timeline.span;
        let x = |t_ns: u64| LEFT as f64 + t_ns as f64 / span.length_ns() as f64 * PLOT as f64;
        for (column, _) in self.timeline.holes.iter().enumerate().filter(|(_, hole)| **hole) {
            let left = x(span.border_ns(column) - span.start_ns());
            let width = x(span.border_ns(column + 1) - span.start_ns()) - left;
            writeln!(
                out,
                "<rect class=\"hole\" data-c=\"{column}\" x=\"{left:.1}\" y=\"0\" width=\"{width:.1}\" height=\"{}\"><title>trace events of this time were lost</title></rect>",
                self.height
            );
        }
        let (marks, unit) = scale::times(span.length_ns(), 9.0);
        out.push_str("<g class=\"axis when\">");
        for (t_ns, text) in marks {
            let (x, bottom) = (x(t_ns), self.height);
            write!(out, "<path d=\"M{x:.1} {bottom}v5\"/><text x=\"{x:.1}\" y=\"{}\">{text}</text>", bottom + 16);
        }
        let (middle, y) = (LEFT + PLOT / 2, self.height + 33);
        writeln!(out, "<text x=\"{middle}\" y=\"{y}\">time since the start, {unit}</text></g></svg></div>");
    }
}

/// Writes a name, right-aligned in a box (x, y, width, height). A name that is too long in the reader's font ends in dots.
pub(super) fn name_in(out: &mut Markup, (x, y, width, height): (u64, u64, u64, u64), name: &str) {
    writeln!(
        out,
        "<foreignObject class=\"name\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"><div style=\"line-height:{height}px\" title=\"{0}\">{0}</div></foreignObject>",
        Safe(name)
    );
}

/// Draws horizontal lines with their values, about `wanted` from 0 to `most`, in a picture that begins at `left`. `y` returns the place of a value.
pub(super) fn grid(out: &mut Markup, (left, width): (u64, u64), (most, wanted): (f64, f64), y: impl Fn(f64) -> f64) {
    let step = scale::step(most, wanted).max(1.0);
    for value in (0..=(most / step) as u64).map(|at| at as f64 * step) {
        line(out, (left, width), y(value), &count(value as u64));
    }
}

/// Draws a horizontal line with its value to the left of it.
pub(super) fn line(out: &mut Markup, (left, width): (u64, u64), y: f64, value: &str) {
    write!(
        out,
        "<path class=\"grid\" d=\"M{left} {y:.1}h{width}\"/><text class=\"left\" x=\"{}\" y=\"{:.1}\">{value}</text>",
        left - 6,
        y + 4.0
    );
}

/// Draws horizontal lines of shares, from 0 to `most`.
pub(super) fn shares(out: &mut Markup, ends: (u64, u64), most: f64, y: impl Fn(f64) -> f64) {
    let step = scale::step(most * 100.0, 4.0);
    let decimals = if step >= 1.0 { 0 } else { (-step.log10()).ceil() as usize };
    for value in (0..=(most * 100.0 / step) as u64).map(|at| at as f64 * step) {
        line(out, ends, y(value / 100.0), &format!("{value:.decimals$} %"));
    }
}

/// Begins a figure: writes its title and what it shows.
pub(super) fn caption(out: &mut Markup, title: &str, note: &str) {
    write!(out, "<figure><figcaption><h3>{}</h3>", Safe(title));
    if !note.is_empty() {
        write!(out, "<p>{}</p>", Safe(note));
    }
    out.push_str("</figcaption>\n");
}

/// Writes a legend: colours, given by CSS class, and their meanings. The classes are not escaped, since they are our own; the meanings are, since
/// they may contain names from outside.
pub(super) fn legend<C: AsRef<str>, W: AsRef<str>>(out: &mut Markup, entries: &[(C, W)]) {
    out.push_str("<ul class=\"legend\">");
    for (class, words) in entries {
        write!(
            out,
            "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"{}\" width=\"12\" height=\"12\"/></svg>{}</li>",
            class.as_ref(),
            Safe(words)
        );
    }
    out.push_str("</ul>\n");
}

/// Writes a legend of the shades of counts up to `most`. For each shade, `words` gets the smallest count that has this shade (1 for the palest one)
/// and the smallest count that has the next darker shade.
pub(super) fn shades(out: &mut Markup, most: u64, words: impl Fn(u64, Option<u64>) -> String) {
    let shades = scale::counts(most);
    let nexts = shades.iter().skip(1).map(|(_, first)| Some(*first)).chain([None]);
    let entry = |((shade, first), next): (&(u64, u64), Option<u64>)| (format!("q{shade}"), words(*first, next));
    legend(out, &shades.iter().zip(nexts).map(entry).collect::<Vec<_>>());
}

/// Writes warnings about losses next to the picture that they affect.
pub(super) fn warnings(out: &mut Markup, warnings: impl IntoIterator<Item = impl AsRef<str>>) {
    warnings.into_iter().for_each(|text| writeln!(out, "<p class=\"lost\">{}</p>", Safe(text)));
}
