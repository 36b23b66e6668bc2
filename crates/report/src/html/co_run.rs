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
    out.push_str("<p>CPU time. If one running program may use an idle CPU, the idle time belongs to this program; if several may, to all of them together; if none may, to no program.</p>\n");
    table::write(out, &phases(co_run, &style), "");
    out.push_str(
        "<h3>Who waited behind whom</h3>\n<p>Thread time without a CPU, by the program that held the CPU.</p>\n",
    );
    table::write(out, &waits(co_run, &style), "");
}
