//! All figures of all threads, as in the table of the text report. If there are many processes, a table by process name comes first.

use advise::numbers::{count, counted};
use ledger::Thread;
use ledger::summary::threads_of;

use super::table;
use super::view::View;
use crate::markup::Markup;
use crate::style::Style;
use crate::text::co_run::{letter, of_program};
use crate::text::groups;
use crate::text::rows::{self, Row, lost_ns};
use crate::text::threads::named;

/// Maximum number of threads with a row; a page with more would be slow to open.
const MOST: usize = 5_000;
/// Up to this number of rows, the table is shown unfolded.
const OPEN: usize = 100;

pub(super) fn write(out: &mut Markup, view: &View) {
    let programs = &view.document.account.programs;
    for (at, program) in programs.iter().enumerate().filter(|(_, program)| groups::are_wanted(program)) {
        let (style, rows) = (Style::default(), groups::rows(program));
        table::write(out, &rows::table(&style, &of_program("program", programs, at), &rows), "names");
    }
    let threads = |(at, program)| threads_of(program).map(move |thread| (at, thread));
    let mut all: Vec<(usize, &Thread)> = programs.iter().enumerate().flat_map(threads).collect();
    // The program's letter comes first, because long names are cut at their end.
    let of = |at: usize| if programs.len() < 2 { String::new() } else { format!("{} ", letter(at)) };
    if all.len() > MOST {
        all.sort_by_cached_key(|(_, thread)| std::cmp::Reverse(lost_ns(thread)));
    }
    let others = all.split_off(all.len().min(MOST));
    let open = if all.len() <= OPEN { " open" } else { "" };
    let listed = all.len();
    let mut rows: Vec<Row> =
        all.into_iter().map(|(at, thread)| Row::of(format!("{}{}", of(at), named(thread)), [thread])).collect();
    if !others.is_empty() {
        let more = format!("{} more", count(others.len() as u64));
        rows.push(Row::of(more, others.into_iter().map(|(_, thread)| thread)));
    }
    let unlisted = programs.iter().enumerate().filter_map(|(at, program)| Some((at, program.unlisted.as_ref()?)));
    rows.extend(unlisted.map(|(at, unlisted)| Row::of(format!("{}unlisted", of(at)), [unlisted])));
    if rows.is_empty() {
        out.push_str("<p class=\"none\">No thread was seen.</p>\n");
        return;
    }
    writeln!(
        out,
        "<details{open}><summary>{}: work + spin + kernel-sync + wake-delay + preempted + blocked + unknown = wall</summary>",
        counted(listed as u64, "thread")
    );
    let style = Style::default();
    table::write(out, &rows::table(&style, "thread", &rows), "sortable");
    out.push_str("</details>\n");
}
