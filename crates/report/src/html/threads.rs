//! All figures of all threads, as in the table of the text report.

use std::fmt::{self, Write};

use advise::numbers::{count, counted};
use ledger::Thread;
use ledger::summary::{threads, unlisted};

use super::{View, table};
use crate::style::Style;
use crate::text::rows::{self, Row, lost_by_thread};

/// Threads with a row; more would be slow to open.
const MOST: usize = 5_000;
/// So many are shown at once.
const OPEN: usize = 100;

pub(super) fn write(out: &mut String, view: &View) -> fmt::Result {
    let account = &view.document.account;
    let mut all: Vec<&Thread> = threads(account).collect();
    let others = if all.len() > MOST {
        all.sort_by_cached_key(|thread| std::cmp::Reverse(lost_by_thread(thread)));
        all.split_off(MOST)
    } else {
        Vec::new()
    };
    let open = if all.len() <= OPEN { " open" } else { "" };
    let listed = all.len();
    let mut rows: Vec<Row> =
        all.into_iter().map(|thread| Row::of(format!("{} {}", thread.tid, thread.comm), [thread])).collect();
    if !others.is_empty() {
        rows.push(Row::of(format!("{} more", count(others.len() as u64)), others));
    }
    rows.extend(unlisted(account).map(|unlisted| Row::of("unlisted".to_owned(), [unlisted])));
    if rows.is_empty() {
        out.push_str("<p class=\"none\">No thread was seen.</p>\n");
        return Ok(());
    }
    writeln!(
        out,
        "<details{open}><summary>{}: work + spin + wake-delay + preempted + blocked + unknown = wall</summary>",
        counted(listed as u64, "thread")
    )?;
    let style = Style::default();
    table::write(out, rows::table(&style, "thread", &rows), "sortable")?;
    out.push_str("</details>\n");
    Ok(())
}
