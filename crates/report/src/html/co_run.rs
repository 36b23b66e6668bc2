//! Co-running programs: the tables of the text report, and how to read them.

use super::table;
use super::view::View;
use crate::markup::{Markup, Safe};
use crate::style::Style;
use crate::text::co_run::{headline, phases, waits};

pub(super) fn write(out: &mut Markup, view: &View) {
    let Some(co_run) = &view.document.account.co_run else { return };
    let style = Style { unicode: true, ..Style::default() };
    writeln!(out, "<p>{}</p>", Safe(headline(view.document, co_run)));
    out.push_str("<h3>What CPUs did while the same programs ran</h3>\n");
    out.push_str("<p>CPU time. The idle time of a CPU belongs to the running program that may use this CPU. If several running programs may use the CPU, it belongs to all of them together; if no running program may use the CPU, it belongs to none.</p>\n");
    table::write(out, &phases(co_run, &style), "");
    out.push_str(
        "<h3>Who waited behind whom</h3>\n<p>Time that threads waited for a CPU, by the program that held this CPU.</p>\n",
    );
    table::write(out, &waits(co_run, &style), "");
}
