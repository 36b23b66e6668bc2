//! What observing cost, what was lost, and what the account was checked against.

use advise::numbers::{count, duration};
use ledger::Provenance;
use wire::Backend;

use super::view::View;
use crate::markup::{Markup, Safe};
use crate::text::{footer, header};

pub(super) fn write(out: &mut Markup, view: &View) {
    let document = view.document;
    let account = &document.account;
    let kernel = account.own_cost.kernel_ns;
    let mut rows = vec![
        ("observed by", account.backend.name().to_owned()),
        ("window", duration(account.window_ns)),
        ("scheduler events", count(account.events)),
        ("CPU time of cox", duration(account.own_cost.user_ns)),
        ("time of cox's BPF programs", kernel.map_or("not measured".to_owned(), duration)),
        ("own cost", header::own_cost(document)),
    ];
    if account.backend == Backend::PerfData {
        // perf does not say what recording cost.
        rows.truncate(3);
    }
    out.push_str("<table class=\"facts\"><tbody>\n");
    rows.extend(account.provenance.iter().flat_map(Provenance::known));
    for (what, value) in rows {
        writeln!(out, "<tr><th scope=\"row\">{what}</th><td>{}</td></tr>", Safe(value));
    }
    out.push_str("</tbody></table>\n");
    let lost = footer::lost(document);
    if lost.is_empty() {
        out.push_str("<p>Nothing was lost.</p>\n");
    } else {
        out.push_str("<p class=\"lost\">Lost:</p><ul>");
        for kind in &lost {
            write!(out, "<li>{}</li>", Safe(kind));
        }
        out.push_str("</ul>\n");
    }
    writeln!(out, "<p>{}</p>", Safe(footer::checked(document)));
}
