//! Tables of the text report as tables of the page.

use std::fmt::{self, Write};

use super::markup::Safe;
use crate::table::{Align, Table};

/// Writes a table; `class` is of our own.
pub(super) fn write(out: &mut String, table: Table, class: &str) -> fmt::Result {
    let columns = table.into_columns();
    write!(out, "<div class=\"scroll\"><table class=\"{class}\"><thead><tr>")?;
    for (heading, align, _) in &columns {
        write!(out, "<th scope=\"col\"{}>{}</th>", aligned(*align), Safe(heading))?;
    }
    out.push_str("</tr></thead><tbody>\n");
    let rows = columns.iter().map(|(.., cells)| cells.len()).max().unwrap_or(0);
    for row in 0..rows {
        out.push_str("<tr>");
        for (_, align, cells) in &columns {
            write!(out, "<td{}>{}</td>", aligned(*align), Safe(cells.get(row).map_or("", String::as_str)))?;
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    Ok(())
}

fn aligned(align: Align) -> &'static str {
    if align == Align::Right { " class=\"n\"" } else { "" }
}
