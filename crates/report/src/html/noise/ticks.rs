//! What ticks did: for each group of ticks, how its time is divided.

use advise::numbers::{counted, duration};

use super::super::plot;
use super::super::table;
use super::classes;
use crate::markup::{Markup, Safe};
use crate::noise::{Cpu, TickGroup, TickPart, table_of_ticks};
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
        "Detours that contain the timer tick, grouped by what else they contain. Each bar divides the time of its group, without that of other threads; below it, means per tick.",
    );
    out.push_str("<ul class=\"ticks\">\n");
    for group in groups {
        bar(out, group);
    }
    out.push_str("</ul>\n");
    let is_used = |class: classes::Class| {
        groups
            .iter()
            .flat_map(|group| &group.parts)
            .any(|part| part.sum_ns > 0 && part.class != "thread" && classes::named(&part.class) == class)
    };
    classes::legend(out, &classes::used(is_used));
    out.push_str("</figure>\n");
    table::write(out, &table_of_ticks(groups, cpu.listed_seconds(), &Style::default()), "");
}

fn bar(out: &mut Markup, group: &TickGroup) {
    let drawn: Vec<&TickPart> = group.parts.iter().filter(|part| part.class != "thread").collect();
    let parts: Vec<u64> = drawn.iter().map(|part| part.sum_ns).collect();
    let (widths, shares) = (apportion(&parts, 1000), permille(&parts));
    let mean = |ns: u64| duration(ns / group.count.max(1));
    writeln!(
        out,
        "<li class=\"bar\">{0} · {1}<svg viewBox=\"0 0 1000 14\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{0}\">",
        Safe(&group.what),
        counted(group.count, "tick")
    );
    let mut x = 0;
    for (part, (width, share)) in drawn.iter().zip(widths.iter().zip(shares)).filter(|(_, (width, _))| **width > 0) {
        write!(
            out,
            "<rect class=\"{}\" x=\"{x}\" y=\"0\" width=\"{width}\" height=\"14\"><title>{}: {}, {}</title></rect>",
            classes::named(&part.class).css,
            Safe(&part.what),
            mean(part.sum_ns),
            percent(share)
        );
        x += width;
    }
    let words: Vec<String> = group.parts.iter().map(|part| format!("{} {}", part.what, mean(part.sum_ns))).collect();
    writeln!(out, "</svg><small>{}</small></li>", Safe(words.join(" · ")));
}
