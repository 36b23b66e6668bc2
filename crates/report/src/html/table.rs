//! Tables of the text report as tables of the page.

use crate::markup::{Markup, Safe};
use crate::table::{Align, Column, Table};

/// Writes a table. `class` must be one of our own, since it is not escaped.
pub(super) fn write(out: &mut Markup, table: &Table, class: &str) {
    divided(out, table, class, [(None, table.rows())]);
}

/// Writes a table whose rows are divided into parts, each with a heading and a number of rows.
pub(super) fn write_parts(out: &mut Markup, table: &Table, class: &str, parts: &[(String, usize)]) {
    divided(out, table, class, parts.iter().map(|(heading, rows)| (Some(heading), *rows)));
}

fn divided<'p>(
    out: &mut Markup,
    table: &Table,
    class: &str,
    parts: impl IntoIterator<Item = (Option<&'p String>, usize)>,
) {
    write!(out, "<div class=\"scroll\"><table class=\"{class}\"><thead><tr>");
    for column in &table.columns {
        write!(out, "<th scope=\"col\"{}>{}</th>", aligned(column), Safe(&column.heading));
    }
    out.push_str("</tr></thead>");
    let mut from = 0;
    for (heading, rows) in parts {
        out.push_str("<tbody>\n");
        if let Some(heading) = heading {
            let columns = table.columns.len();
            writeln!(out, "<tr><th scope=\"rowgroup\" colspan=\"{columns}\">{}</th></tr>", Safe(heading));
        }
        for row in from..from + rows {
            out.push_str("<tr>");
            for column in &table.columns {
                write!(out, "<td{}>{}</td>", aligned(column), Safe(column.cell(row)));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>");
        from += rows;
    }
    out.push_str("</table></div>\n");
}

fn aligned(column: &Column) -> &'static str {
    if column.align == Align::Right { " class=\"n\"" } else { "" }
}
