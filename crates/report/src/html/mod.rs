//! The report as one page with pictures over time: HTML that needs no network, no fonts and no scripts of others, and is whole without JavaScript.
//! `comparison` is the other page: groups of runs side by side. `frame` is around both.
//!
//! Figures are those of the [`Document`], rounded as in the text report; what is seen over time is the [`Timeline`]'s. Everything that comes from
//! outside, names above all, goes through `markup::Safe`.
//!
//! Order: where thread time went (`overall`), what it means (`verdict`), where each thread's time went (`states`), who had the CPUs (`lanes`), what programs took from
//! one another (`co_run`), who waited for one (`waiting`), who moved and switched (`moves`), who waits for whom (`wakers`), what ran (`hot`), how long waits and turns were (`spread`), cost and
//! losses (`cost`); then all figures in a table (`threads`). `heat`, `plot` and `scale` draw, `colours` says what colours mean, `asleep` which threads are folded up.
//!
//! Pictures are paths in units of columns, one for each colour, so that a page of thousands of threads stays small and opens quickly.

mod asleep;
mod co_run;
mod colours;
mod comparison;
mod cost;
mod frame;
mod heat;
mod hot;
mod lanes;
mod moves;
mod overall;
mod plot;
mod scale;
mod spread;
mod states;
mod table;
mod threads;
mod verdict;
mod view;
mod waiting;
mod wakers;

use std::fmt;

use frame::Script;
use ledger::Thread;
use ledger::summary::{Sums, threads as threads_of};
use ledger::timeline::Timeline;
use view::View;

use crate::json::Document;
use crate::text::rows::lost_ns;

pub use comparison::{compared, tabled};
pub(crate) use scale::SHADES;

/// Columns of pictures over time: as many as can be told apart on a screen.
pub const COLUMNS: usize = 440;

/// Threads with a row of their own in pictures: those that lost most.
pub const ROWS: usize = 60;

/// The threads that get rows of their own: all, or those that lost most. Those that slept all the time come last.
#[must_use]
pub fn shown(document: &Document) -> Vec<u32> {
    let mut threads: Vec<&Thread> = threads_of(&document.account).collect();
    if threads.len() > ROWS {
        let slept = |thread: &Thread| asleep::slept(&Sums::over([thread]));
        threads.sort_by_cached_key(|thread| (slept(thread), std::cmp::Reverse(lost_ns(thread))));
    }
    let mut tids: Vec<u32> = Vec::new();
    for thread in threads {
        if !tids.contains(&thread.tid) && tids.len() < ROWS {
            tids.push(thread.tid);
        }
    }
    tids
}

/// The page. `timeline` has rows for the threads that are [`shown`].
#[must_use]
pub fn page(document: &Document, timeline: &Timeline) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, &View::new(document, timeline));
    out
}

/// A part of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    /// Its name in the line of links.
    link: &'static str,
    write: fn(&mut String, &View) -> fmt::Result,
    /// Whether there is something in it.
    is_there: fn(&View) -> bool,
}

impl Section {
    /// One that every page has.
    const fn always(
        id: &'static str,
        title: &'static str,
        link: &'static str,
        write: fn(&mut String, &View) -> fmt::Result,
    ) -> Section {
        Section { id, title, link, write, is_there: |_| true }
    }
}

const SECTIONS: [Section; 12] = [
    Section::always("time", "Where thread time went", "time", overall::write),
    Section::always("verdict", "Verdict", "verdict", verdict::write),
    Section::always("states", "Where each thread’s time went", "states", states::write),
    Section::always("cpus", "Who had the CPUs", "CPUs", lanes::write),
    Section { is_there: co_run::is_there, ..Section::always("beside", "Side by side", "side by side", co_run::write) },
    Section::always("waiting", "Who waited for a CPU", "waiting", waiting::write),
    Section::always("moves", "Switches and migrations", "switches", moves::write),
    Section::always("wakers", "Who waits for whom", "who waits", wakers::write),
    Section::always("hot", "What ran, and what spun", "hot", hot::write),
    Section::always("spread", "How long wake delays and time slices were", "lengths", spread::write),
    Section::always("cost", "Cost, losses, checks", "cost", cost::write),
    Section::always("threads", "All threads", "threads", threads::write),
];

fn write(out: &mut String, view: &View) -> fmt::Result {
    frame::open(out, &verdict::command(view.document), Script::Needed)?;
    out.push_str(plot::HATCH);
    verdict::head(out, view)?;
    let sections = || SECTIONS.iter().filter(|section| (section.is_there)(view));
    frame::links(out, sections().map(|section| (section.id, section.link)))?;
    for section in sections() {
        frame::section(out, section.id, section.title, |out| (section.write)(out, view))?;
    }
    frame::close(out, &view.document.cox_version, "how to read each picture: cox explain page.", Script::Needed)
}
