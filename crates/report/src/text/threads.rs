//! The table of threads: all, or the ten that lost most, with the rest in one line.

use ledger::summary::threads_of;
use ledger::{Program, Thread};

use super::page::Page;
use super::rows::{self, Row, lost_ns};
use crate::style::Style;

/// Number of threads that are listed unless all are requested.
pub(super) const LISTED: usize = 10;

/// Returns the threads that are listed, in the order of the table, and the other threads.
pub(super) fn listed<'p>(style: &Style, program: &'p Program) -> (Vec<&'p Thread>, Vec<&'p Thread>) {
    let mut threads: Vec<&Thread> = threads_of(program).collect();
    if style.all_threads || threads.len() <= LISTED {
        return (threads, Vec::new());
    }
    // The keys are cached: to compute the sums anew in each comparison would be slow with very many threads.
    threads.sort_by_cached_key(|thread| std::cmp::Reverse(lost_ns(thread)));
    let others = threads.split_off(LISTED);
    (threads, others)
}

/// Formats a thread's id and name: `4711 heat`. In a container, also its other id: `17 (host 4711) heat`, `4711 (inside 17) heat`.
pub(crate) fn named(thread: &Thread) -> String {
    let host = thread.host_tid.map(|id| format!("host {id}"));
    let inside = thread.inner_tid.map(|id| format!("inside {id}"));
    let others: Vec<String> = host.into_iter().chain(inside).collect();
    if others.is_empty() {
        format!("{} {}", thread.tid, thread.comm)
    } else {
        format!("{} ({}) {}", thread.tid, others.join(", "), thread.comm)
    }
}

pub(super) fn write(page: &mut Page, program: &Program, heading: &str) {
    let (threads, others) = listed(page.style, program);
    let mut rows: Vec<Row> = threads.into_iter().map(|thread| Row::of(named(thread), [thread])).collect();
    if !others.is_empty() {
        rows.push(Row::of(format!("{} more", others.len()), others));
    }
    rows.extend(program.unlisted.as_ref().map(|unlisted| Row::of("unlisted".to_owned(), [unlisted])));
    rows::write(page, heading, &rows);
}
