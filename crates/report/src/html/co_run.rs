//! Co-running programs: the tables of the text report, and how to read them.

use std::fmt::{self, Write};

use super::table;
use super::view::View;
use crate::markup::Safe;
use crate::style::Style;
use crate::text::co_run::{headline, phases, waits};

/// Returns whether the section exists: it needs several programs.
pub(super) fn is_there(view: &View) -> bool {
    view.document.account.co_run.is_some()
}

pub(super) fn write(out: &mut String, view: &View) -> fmt::Result {
    let Some(co_run) = &view.document.account.co_run else { return Ok(()) };
    let style = Style { unicode: true, ..Style::default() };
    writeln!(out, "<p>{}</p>", Safe(headline(view.document, co_run)))?;
    out.push_str("<h3>What CPUs did while the same programs ran</h3>\n");
    out.push_str("<p>CPU time. If one running program may use an idle CPU, the idle time belongs to this program; if several may, to all of them together; if none may, to no program.</p>\n");
    table::write(out, phases(co_run, &style), "")?;
    out.push_str(
        "<h3>Who waited behind whom</h3>\n<p>Thread time without a CPU, by the program that held the CPU.</p>\n",
    );
    table::write(out, waits(co_run, &style), "")
}
