//! The report as one page with pictures over time: HTML without network access, fonts or foreign scripts, and complete without JavaScript.
//! `comparison` and `noise` are other pages: groups of runs side by side, and the noise on CPUs. `frame` writes the head and foot of all pages.
//!
//! Figures are those of the [`Document`], rounded as in the text report; pictures over time come from the [`Timeline`]. Everything that comes from
//! outside, names above all, goes through `markup::Safe`.
//!
//! The order of the sections: where thread time went (`overall`), what it means (`verdict`), where each thread's time went (`states`), which thread
//! had each CPU (`lanes`), what programs took from one another (`co_run`), which threads waited for a CPU (`waiting`), what interrupted them
//! (`interrupted`), migrations and switches (`moves`), which thread waits for which (`wakers`), which functions ran (`hot`), how long wake delays and stints on a CPU were (`spread`), cost
//! and losses (`cost`), and a table of all figures (`threads`). `heat`, `plot` and `scale` draw, `colours` defines what colours mean, and `asleep`
//! chooses the threads that are folded up.
//!
//! Pictures are paths in units of columns, one path for each colour, so that a page of thousands of threads stays small and opens quickly.

mod asleep;
mod co_run;
mod colours;
mod comparison;
mod cost;
mod frame;
mod heat;
mod hot;
mod interrupted;
mod lanes;
mod moves;
mod noise;
mod overall;
mod plot;
pub mod roofline;
mod scale;
pub mod sheet;
mod spread;
mod states;
mod table;
mod threads;
mod verdict;
mod view;
mod waiting;
mod wakers;

use frame::Script;
use ledger::Thread;
use ledger::summary::{Sums, threads as threads_of};
use ledger::timeline::Timeline;
use view::View;

use crate::json::Document;
use crate::markup::Markup;
use crate::noise::Interrupted;
use crate::text::rows::lost_ns;

pub use comparison::{compared, tabled};
pub use noise::noise;
pub(crate) use scale::SHADES;

/// Number of columns in pictures over time: as many as can be distinguished on a screen.
pub const COLUMNS: usize = 440;

/// Maximum number of threads with a row of their own in pictures. If there are more threads, those that lost most time have rows.
pub const ROWS: usize = 60;

/// Returns the threads that get rows of their own: all, or those that lost most time. Threads that slept all the time come last.
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

/// A section of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    /// The section's name in the navigation links.
    link: &'static str,
    write: fn(&mut Markup, &View),
}

const SECTIONS: [Section; 13] = [
    Section { id: "time", title: "Where thread time went", link: "time", write: overall::write },
    Section { id: "verdict", title: "Verdict", link: "verdict", write: verdict::write },
    Section { id: "states", title: "Where each thread’s time went", link: "states", write: states::write },
    Section { id: "cpus", title: "Who had the CPUs", link: "CPUs", write: lanes::write },
    Section { id: CO_RUN, title: "Side by side", link: "side by side", write: co_run::write },
    Section { id: "waiting", title: "Who waited for a CPU", link: "waiting", write: waiting::write },
    Section {
        id: INTERRUPTED,
        title: "What interrupted the threads",
        link: "interruptions",
        write: interrupted::write,
    },
    Section { id: "moves", title: "Switches and migrations", link: "switches", write: moves::write },
    Section { id: "wakers", title: "Who waits for whom", link: "who waits", write: wakers::write },
    Section { id: "hot", title: "What ran, and what spun", link: "hot", write: hot::write },
    Section { id: "spread", title: "How long wake delays and time slices were", link: "lengths", write: spread::write },
    Section { id: "cost", title: "Cost, losses, checks", link: "cost", write: cost::write },
    Section { id: "threads", title: "All threads", link: "threads", write: threads::write },
];

/// The section that only pages on several programs have.
const CO_RUN: &str = "beside";
/// The section that only pages of runs with `--noise` have.
const INTERRUPTED: &str = "interrupted";

/// Returns the page. `timeline` has rows for the threads that are [`shown`]. `interrupted` has the single interruptions of threads, if they are known.
#[must_use]
pub fn page(document: &Document, timeline: &Timeline, interrupted: Option<&Interrupted>) -> String {
    let view = View { interrupted, ..View::new(document, timeline) };
    let mut out = Markup::default();
    frame::open(&mut out, &verdict::command(document), Script::Needed);
    out.push_str(plot::HATCH);
    verdict::head(&mut out, &view);
    let has = |section: &&Section| match section.id {
        CO_RUN => document.account.co_run.is_some(),
        INTERRUPTED => document.noise.is_some(),
        _ => true,
    };
    let sections = || SECTIONS.iter().filter(has);
    frame::links(&mut out, sections().map(|section| (section.id, section.link)));
    for section in sections() {
        frame::section(&mut out, section.id, section.title, |out| (section.write)(out, &view));
    }
    frame::close(&mut out, &document.cox_version, "how to read each picture: cox explain page.", Script::Needed);
    out.0
}
