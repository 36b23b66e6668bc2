//! Frames of pictures over time: a margin for names, columns, a time axis, and where something was lost.

use std::fmt::{self, Write};

use ledger::timeline::Timeline;

use super::scale;
use crate::markup::Safe;
use crate::style::shortened;

/// Pixels of a picture from side to side, where a window is wide.
pub(super) const WIDTH: u64 = 1040;
/// … of names on its left.
pub(super) const LEFT: u64 = 152;
/// … of columns.
pub(super) const PLOT: u64 = WIDTH - LEFT - 8;
/// … of the time axis below.
const AXIS: u64 = 38;
/// Characters of a name.
const NAME: usize = 21;

/// What hatches columns that are incomplete.
pub(super) const HATCH: &str = "<svg width=\"0\" height=\"0\" class=\"defs\" aria-hidden=\"true\"><defs>\
<pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<rect width=\"6\" height=\"6\" class=\"hatch-back\"/><rect width=\"2\" height=\"6\" class=\"hatch-line\"/></pattern>\
<marker id=\"tip-down\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"down-tip\" d=\"M0 0L8 4L0 8z\"/></marker>\
<marker id=\"tip-up\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"up-tip\" d=\"M0 0L8 4L0 8z\"/></marker>\
</defs></svg>\n";

/// A picture over time of some height.
pub(super) struct Plot<'t> {
    pub timeline: &'t Timeline,
    /// Without the axis.
    pub height: u64,
}

impl Plot<'_> {
    /// Opens the picture. `says` is what it shows in one line, for those who cannot see it.
    pub(super) fn open(&self, out: &mut String, says: &str) -> fmt::Result {
        let height = self.height + AXIS;
        writeln!(
            out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{0}\"><svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\" \
             data-left=\"{LEFT}\" data-plot=\"{PLOT}\" data-columns=\"{1}\" data-ns=\"{2}\">",
            Safe(says),
            self.timeline.span.columns(),
            self.timeline.span.length_ns()
        )?;
        writeln!(out, "<rect class=\"ground\" x=\"{LEFT}\" y=\"0\" width=\"{PLOT}\" height=\"{}\"/>", self.height)
    }

    /// A name in the margin, in the middle of a row.
    pub(super) fn name(&self, out: &mut String, y: u64, height: u64, name: &str) -> fmt::Result {
        let (x, y) = (LEFT - 8, y + height / 2);
        writeln!(
            out,
            "<text class=\"name\" x=\"{x}\" y=\"{y}\">{}<title>{}</title></text>",
            Safe(shortened(name, NAME, "…")),
            Safe(name)
        )
    }

    /// From here on, one to the right is one column.
    pub(super) fn columns(&self, out: &mut String) -> fmt::Result {
        let scale = PLOT as f64 / self.timeline.span.columns() as f64;
        writeln!(out, "<g transform=\"translate({LEFT} 0) scale({scale:.6} 1)\">")
    }

    /// Closes the picture: columns that are incomplete, and the axis.
    pub(super) fn close(&self, out: &mut String) -> fmt::Result {
        let span = &self.timeline.span;
        let x = |t_ns: u64| LEFT as f64 + t_ns as f64 / span.length_ns() as f64 * PLOT as f64;
        for (column, _) in self.timeline.holes.iter().enumerate().filter(|(_, hole)| **hole) {
            let left = x(span.border_ns(column) - span.start_ns());
            let width = x(span.border_ns(column + 1) - span.start_ns()) - left;
            writeln!(
                out,
                "<rect class=\"hole\" x=\"{left:.1}\" y=\"0\" width=\"{width:.1}\" height=\"{}\"><title>moments of this time were lost</title></rect>",
                self.height
            )?;
        }
        let (marks, unit) = scale::times(span.length_ns(), 9.0);
        out.push_str("<g class=\"axis\">");
        for (t_ns, text) in marks {
            let (x, bottom) = (x(t_ns), self.height);
            write!(out, "<path d=\"M{x:.1} {bottom}v5\"/><text x=\"{x:.1}\" y=\"{}\">{text}</text>", bottom + 16)?;
        }
        let (middle, y) = (LEFT + PLOT / 2, self.height + 33);
        writeln!(out, "<text x=\"{middle}\" y=\"{y}\">time since the start, {unit}</text></g></svg></div>")
    }
}

/// A figure's first lines: what is seen.
pub(super) fn caption(out: &mut String, title: &str, note: &str) -> fmt::Result {
    write!(out, "<figure><figcaption><h3>{}</h3>", Safe(title))?;
    if !note.is_empty() {
        write!(out, "<p>{}</p>", Safe(note))?;
    }
    out.push_str("</figcaption>\n");
    Ok(())
}

/// A line of colours with what they mean. Classes are ours, words may come from outside.
pub(super) fn legend<C: AsRef<str>, W: AsRef<str>>(out: &mut String, entries: &[(C, W)]) -> fmt::Result {
    out.push_str("<ul class=\"legend\">");
    for (class, words) in entries {
        write!(
            out,
            "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"{}\" width=\"12\" height=\"12\"/></svg>{}</li>",
            class.as_ref(),
            Safe(words)
        )?;
    }
    out.push_str("</ul>\n");
    Ok(())
}

/// What was lost, on a picture's face.
pub(super) fn warning(out: &mut String, warning: Option<String>) -> fmt::Result {
    warning.map_or(Ok(()), |text| writeln!(out, "<p class=\"lost\">{}</p>", Safe(text)))
}
