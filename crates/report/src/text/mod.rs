//! The report on the terminal. It begins with the answer; the evidence, the cost and the losses follow.
//!
//! The parts in order: what ran (`header`), where thread time went (`states`), what it means (`verdict`), threads or programs (`threads`, `groups`),
//! latency quantiles (`latency`), what programs took from one another (`co_run`), preemptors and what each CPU did (`cpus`), which thread waits for
//! which and where run time went (`details`), checks, processes left running and losses (`footer`). If the program was packed or overlapped, the
//! results of that come last.

pub(crate) mod co_run;
pub(crate) mod cpus;
mod details;
pub(crate) mod footer;
pub(crate) mod groups;
pub(crate) mod header;
pub(crate) mod latency;
mod page;
pub(crate) mod rows;
pub(crate) mod states;
pub(crate) mod threads;
pub(crate) mod verdict;

use ledger::Program;
use ledger::summary::{Sums, threads_of};
use page::Page;

use crate::json::Document;
use crate::style::Style;

/// Returns the report on `document`.
pub fn text(document: &Document, style: &Style) -> String {
    let mut page = Page { document, style, lines: Vec::new() };
    let programs = &document.account.programs;
    for (at, program) in programs.iter().enumerate() {
        let sums = sums(document, program);
        page.gap();
        header::write(&mut page, at, sums.threads);
        page.gap();
        states::write(&mut page, program, &sums);
    }
    if programs.is_empty() {
        header::write_empty(&mut page);
    }
    verdict::write(&mut page);
    for (at, program) in programs.iter().enumerate() {
        page.gap();
        if groups::are_wanted(program) {
            rows::write(&mut page, &co_run::of_program("program", programs, at), &groups::rows(program));
        } else {
            threads::write(&mut page, program, &co_run::of_program("thread", programs, at));
        }
    }
    latency::write(&mut page);
    co_run::write(&mut page);
    cpus::write(&mut page);
    details::write(&mut page);
    footer::write(&mut page);
    let noise = document.noise.as_ref().map(|noise| noise.section(document.pack.is_some(), style));
    for section in noise.into_iter().chain(sections(document, style)) {
        page.gap();
        page.extend(section);
    }
    page.lines.into_iter().map(|line| line + "\n").collect()
}

/// Returns the sections on packing, on overlapping, on loops and on quiet CPUs.
pub(crate) fn sections(document: &Document, style: &Style) -> impl Iterator<Item = Vec<String>> {
    let pack = document.pack.as_ref().map(|pack| pack.section(style));
    let overlap = document.overlap.as_ref().map(|overlap| overlap.section(style));
    let quiet = document.quiet.as_ref().map(|quiet| quiet.section(style));
    let loops = document.loops.as_ref().map(|loops| loops.section(style));
    pack.into_iter().chain(overlap).chain(loops).chain(quiet)
}

/// Returns the sums over a program. If it is the only program, threads without an entry of their own are counted too.
pub(crate) fn sums(document: &Document, program: &Program) -> Sums {
    if document.account.programs.len() == 1 {
        Sums::of(&document.account)
    } else {
        Sums::over(threads_of(program).chain(&program.unlisted))
    }
}
