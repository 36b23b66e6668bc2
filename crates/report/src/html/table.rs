//! Tables of the text report as tables of the page.

use std::fmt::{self, Write};
use std::ops::Range;

use crate::markup::Safe;
use crate::table::{Align, Table};

/// Writes a table. `class` must be one of our own, since it is not escaped.
pub(super) fn write(out: &mut String, table: Table, class: &str) -> fmt::Result {
    let rows = open(out, table, class)?;
    rows.body(out, None, 0..rows.number)?;
    close(out);
    Ok(())
}

/// Writes a table whose rows are divided into parts, each with a heading and a number of rows.
pub(super) fn write_parts(out: &mut String, table: Table, class: &str, parts: &[(String, usize)]) -> fmt::Result {
    let rows = open(out, table, class)?;
    let mut from = 0;
    for (heading, number) in parts {
        rows.body(out, Some(heading), from..from + number)?;
        from += number;
    }
    close(out);
    Ok(())
}

/// The rows below the headings.
struct Rows {
    columns: Vec<(Align, Vec<String>)>,
    number: usize,
}

impl Rows {
    fn body(&self, out: &mut String, heading: Option<&str>, rows: Range<usize>) -> fmt::Result {
        out.push_str("<tbody>\n");
        if let Some(heading) = heading {
            let columns = self.columns.len();
            writeln!(out, "<tr><th scope=\"rowgroup\" colspan=\"{columns}\">{}</th></tr>", Safe(heading))?;
        }
        for row in rows {
            out.push_str("<tr>");
            for (align, cells) in &self.columns {
                write!(out, "<td{}>{}</td>", aligned(*align), Safe(cells.get(row).map_or("", String::as_str)))?;
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>");
        Ok(())
    }
}

fn open(out: &mut String, table: Table, class: &str) -> Result<Rows, fmt::Error> {
    write!(out, "<div class=\"scroll\"><table class=\"{class}\"><thead><tr>")?;
    let columns = table.into_columns();
    for (heading, align, _) in &columns {
        write!(out, "<th scope=\"col\"{}>{}</th>", aligned(*align), Safe(heading))?;
    }
    out.push_str("</tr></thead>");
    let number = columns.iter().map(|(.., cells)| cells.len()).max().unwrap_or(0);
    Ok(Rows { columns: columns.into_iter().map(|(_, align, cells)| (align, cells)).collect(), number })
}

fn close(out: &mut String) {
    out.push_str("</table></div>\n");
}

fn aligned(align: Align) -> &'static str {
    if align == Align::Right { " class=\"n\"" } else { "" }
}
