//! A bar for the whole program: its thread time by state, with the numbers of the text report. Below the bar: for each number of CPUs, the part of
//! the wall time in which that number was in use.

use super::view::View;
use super::{colours, plot};
use crate::busy;
use crate::json::Document;
use crate::markup::{Markup, Safe};
use crate::round::percent;
use crate::state::State;
use crate::text::states::{self, Share};
use crate::text::sums;

/// Writes a bar and a table for each program.
pub(super) fn write(out: &mut Markup, view: &View) {
    for program in &view.document.account.programs {
        shares(out, view.document, program);
        in_use(out, program);
    }
}

/// Writes where thread time went, in classes that add up to 100.0 %. The bar has the same parts. Each row of the table has the colours of its
/// parts, so the table is the bar's legend.
fn shares(out: &mut Markup, document: &Document, program: &ledger::Program) {
    let sums = sums(document, program);
    let efficiency = busy::efficiency(document).map(|line| format!(" · {line}")).unwrap_or_default();
    let caption = states::thread_time(document, &sums, program.wall_ns) + &efficiency;
    let shares = states::shares(document, &sums);
    writeln!(out, "<figure><figcaption><h3>All thread time, by state</h3><p>{}</p></figcaption>", Safe(&caption));
    bar(out, &shares);
    out.push_str("<table class=\"shares\"><tbody>\n");
    for share in &shares {
        write!(out, "<tr><td class=\"n\">{}</td><th scope=\"row\">", percent(share.permille));
        // If the class has one part, its colour is shown before the class's name. Otherwise each part has a colour of its own in the details.
        if let [part] = share.parts.as_slice() {
            chip(out, part.state);
        }
        write!(out, "{}</th><td class=\"detail\">", Safe(&share.label));
        detail(out, share);
        out.push_str("</td></tr>\n");
    }
    out.push_str("</tbody></table></figure>\n");
}

/// Writes wall time by the number of CPUs in use, with a bar each.
fn in_use(out: &mut Markup, program: &ledger::Program) {
    let bars = busy::bars(program);
    if bars.is_empty() {
        return;
    }
    plot::caption(out, "Wall time, by CPUs in use at a time", "");
    out.push_str("<table class=\"in-use\"><tbody>\n");
    for bar in bars {
        writeln!(
            out,
            "<tr><th scope=\"row\" class=\"n\">{}</th><td class=\"n\">{}</td><td class=\"bar\"><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" \
             aria-hidden=\"true\"><rect class=\"q5\" width=\"{}\" height=\"10\"/></svg></td></tr>",
            bar.cpus,
            percent(bar.permille),
            bar.permille
        );
    }
    out.push_str("</tbody></table></figure>\n");
}

fn bar(out: &mut Markup, shares: &[Share]) {
    let says: Vec<String> = shares.iter().map(|share| format!("{} {}", share.label, percent(share.permille))).collect();
    write!(
        out,
        "<svg class=\"overall\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
        Safe(says.join(", "))
    );
    let mut x = 0;
    for share in shares {
        for part in share.parts.iter().filter(|part| part.permille > 0) {
            let name = if part.label.is_empty() { &share.label } else { &part.label };
            write!(
                out,
                "<rect class=\"{}\" x=\"{x}\" width=\"{}\" height=\"10\"><title>{}: {}</title></rect>",
                colours::class(part.state),
                part.permille,
                Safe(name),
                percent(part.permille)
            );
            x += part.permille;
        }
    }
    out.push_str("</svg>\n");
}

/// Writes the text of [`Share::detail`], with the colour of each part if there are several.
fn detail(out: &mut Markup, share: &Share) {
    if share.parts.len() < 2 {
        return write!(out, "{}", Safe(share.detail()));
    }
    for (at, part) in share.parts.iter().enumerate() {
        out.push_str(if at == 0 { "<span class=\"part\">" } else { ", <span class=\"part\">" });
        chip(out, part.state);
        write!(out, "{}</span>", Safe(part.words()));
    }
    write!(out, "{}", Safe(share.remarks()));
}

/// Writes a small square in a state's colour.
fn chip(out: &mut Markup, state: State) {
    let class = colours::class(state);
    write!(
        out,
        "<svg class=\"chip\" viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"12\" height=\"12\"/></svg>"
    );
}
