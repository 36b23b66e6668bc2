//! What ticks did: for each group of ticks, how its time is divided.

use advise::numbers::duration;

use super::super::plot;
use super::super::table;
use super::classes;
use crate::markup::{Markup, Safe};
use crate::noise::{Cpu, TickGroup, table_of_ticks};
use crate::round::{apportion, percent, permille};
use crate::style::Style;

pub(super) fn write(out: &mut Markup, cpu: &Cpu) {
    let groups = &cpu.ticks;
    if groups.is_empty() {
        return;
    }
    plot::caption(
        out,
        "What ticks did",
        "Detours that contain the timer tick, grouped by what else they contain. Each bar divides the time of its group; the times beside it are means per tick.",
    );
    out.push_str("<table class=\"bars hot\"><tbody>\n");
    for group in groups {
        bar(out, group);
    }
    out.push_str("</tbody></table>\n");
    let is_used = |class: classes::Class| {
        groups.iter().flat_map(|group| &group.parts).any(|part| part.sum_ns > 0 && classes::named(&part.class) == class)
    };
    classes::legend(out, &classes::used(is_used));
    out.push_str("</figure>\n");
    table::write(out, &table_of_ticks(groups, cpu.seconds(), &Style::default()), "");
}

fn bar(out: &mut Markup, group: &TickGroup) {
    let parts: Vec<u64> = group.parts.iter().map(|part| part.sum_ns).collect();
    let (widths, shares) = (apportion(&parts, 1000), permille(&parts));
    let mean = |ns: u64| duration(ns / group.count.max(1));
    write!(
        out,
        "<tr><th class=\"who\" scope=\"row\" title=\"{0}\">{0}</th><td class=\"bar\"><svg viewBox=\"0 0 1000 14\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{0}\">",
        Safe(&group.what)
    );
    let mut x = 0;
    let mut words = Vec::new();
    for (part, (width, share)) in group.parts.iter().zip(widths.iter().zip(shares)) {
        words.push(format!("{} {}", part.what, mean(part.sum_ns)));
        if *width > 0 {
            write!(
                out,
                "<rect class=\"{}\" x=\"{x}\" y=\"0\" width=\"{width}\" height=\"14\"><title>{}: {}, {} of the ticks’ time</title></rect>",
                classes::named(&part.class).css,
                Safe(&part.what),
                mean(part.sum_ns),
                percent(share)
            );
        }
        x += width;
    }
    writeln!(out, "</svg><small class=\"detail\">{}</small></td></tr>", Safe(words.join(" · ")));
}
