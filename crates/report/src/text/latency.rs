//! Latency quantiles (`--latency`) of each program, its processes and its threads.

use std::collections::BTreeSet;

use advise::numbers::{count, counted, duration};
use ledger::latency::{ERROR, quantile};
use ledger::summary::threads_of;
use ledger::{Delays, Latencies, Process, Program, Quantiles, Thread};
use wire::Backend;

use super::page::Page;
use super::threads::{LISTED, listed, named};
use crate::json::Document;
use crate::style::Style;
use crate::table::{Align, Table};

/// Maximum number of thread names in the note about threads without histograms.
const NAMED: usize = 8;

pub(super) fn write(page: &mut Page) {
    let (document, style) = (page.document, page.style);
    let programs = is_wanted(document).then_some(&document.account.programs);
    for program in programs.into_iter().flatten() {
        page.gap();
        if let Some(table) = table(document, style, program) {
            page.extend(table.lines(style.columns()));
        }
        page.paragraph(&notes(document, program));
    }
}

/// Returns whether the programs were observed with `--latency`.
fn is_wanted(document: &Document) -> bool {
    document.account.sees().latencies_of_threads
}

/// Returns the entries of the table: the names and quantiles of a program, its processes and its threads. Those without quantiles are left out. If
/// there are too many processes or threads to list, an entry with `None` says how many more there are.
fn listed_of(document: &Document, style: &Style, program: &Program) -> Vec<(String, Option<Latencies>)> {
    let several = document.account.programs.len() > 1;
    let name = if several { program.command.join(" ") } else { "program".to_owned() };
    let mut all: Vec<(String, Option<Latencies>)> =
        program.latencies.map(|own| (name, Some(own))).into_iter().collect();
    // A program's only process, or a process's only thread, has the same quantiles as the line above it and is left out.
    if program.processes.len() > 1 {
        let mut processes: Vec<&Process> =
            program.processes.iter().filter(|process| process.latencies.is_some()).collect();
        let mut others = 0;
        if !style.all_threads && processes.len() > LISTED {
            processes.sort_by_cached_key(|process| std::cmp::Reverse(waited_ns(process)));
            others = processes.split_off(LISTED).len();
        }
        let named = |process: &Process| format!("process {} {}", process.pid, process.comm);
        all.extend(processes.into_iter().map(|process| (named(process), process.latencies)));
        all.extend(more(others, "processes"));
    }
    if threads_of(program).count() > program.processes.len() {
        let (threads, others) = listed(style, program);
        let threads = threads.into_iter().filter(|thread| thread.latencies.is_some());
        all.extend(threads.map(|thread| (named(thread), thread.latencies.as_deref().copied())));
        all.extend(more(others.into_iter().filter(|thread| thread.latencies.is_some()).count(), "threads"));
    }
    all
}

/// Returns the entry for `others` processes or threads that are not listed, if there are any. `what` is their name in the plural.
fn more(others: usize, what: &str) -> Option<(String, Option<Latencies>)> {
    (others > 0).then(|| (format!("{} more {what}", count(others as u64)), None))
}

fn waited_ns(process: &Process) -> u64 {
    let waited = |thread: &Thread| thread.wake_delay_ns.saturating_add(thread.preempt_wait_ns);
    process.threads.iter().fold(0, |sum, thread| sum.saturating_add(waited(thread)))
}

/// Returns the table of quantiles, or `None` if the program has none.
pub(crate) fn table<'s>(document: &Document, style: &'s Style, program: &Program) -> Option<Table<'s>> {
    let mut rows: Vec<(String, Option<Quantiles>)> = Vec::new();
    for (name, latencies) in listed_of(document, style, program) {
        let seen = latencies.iter().flat_map(Latencies::seen).filter(|(_, of)| of.count > 0);
        rows.extend([(name, None)].into_iter().chain(seen.map(|(kind, of)| (format!("  {kind}"), Some(of)))));
    }
    let mut table = Table::new(style);
    table.column("latency", Align::Left, 0, rows.iter().map(|(name, _)| name.clone()));
    for figure in quantile::ALL {
        let shown = if figure.name == quantile::count.name { count } else { duration };
        let text = |of: &Quantiles| (figure.value)(of).map_or_else(String::new, shown);
        let cells = rows.iter().map(|(_, of)| of.as_ref().map_or_else(String::new, text));
        table.column(figure.label, Align::Right, 0, cells);
    }
    (!rows.is_empty()).then_some(table)
}

/// Returns sentences on the error of the quantiles, on what the backend does not see, and on quantiles that are missing because the memory for
/// histograms is full.
pub(crate) fn notes(document: &Document, program: &Program) -> String {
    let sees = document.account.sees();
    if !sees.latencies {
        return format!(
            "latency: the {} backend does not see individual waits and time slices.",
            document.account.backend.name()
        );
    }
    let mut notes = format!("p50, p90 and p99 are within {:.1} %.", 100.0 * ERROR);
    if sees.delays != Delays::Apart {
        let who = match document.account.backend {
            Backend::PerfData => "the recording has no wake-ups",
            _ => "this backend does not see wake-ups",
        };
        notes += &format!(" Wake delay counts as blocked time: {who}.");
    }
    if program.latencies.is_none() {
        let program = program.command.join(" ");
        notes += &format!(" No quantiles of '{program}' as a whole: the memory for histograms is full.");
    }
    if !is_wanted(document) {
        return notes;
    }
    let without: Vec<&Thread> = threads_of(program)
        .filter(|thread| thread.latencies.is_none())
        .filter(|thread| thread.wakeups > 0 || thread.switches_voluntary > 0 || thread.switches_involuntary > 0)
        .collect();
    if !without.is_empty() {
        let names: BTreeSet<&str> = without.iter().map(|thread| thread.comm.as_str()).collect();
        let more = if names.len() > NAMED { ", …" } else { "" };
        let names: Vec<&str> = names.into_iter().take(NAMED).collect();
        notes += &format!(
            " No quantiles of {} ({}{more}): the memory for histograms is full.",
            counted(without.len() as u64, "thread"),
            names.join(", ")
        );
    }
    notes
}
