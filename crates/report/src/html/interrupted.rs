//! What interrupted the program's threads: by cause, over time, and for each thread.

use advise::numbers::{count, counted};

use super::noise::over_time::{self, Chart};
use super::view::View;
use super::{plot, table};
use crate::markup::{Markup, Safe, unbroken};
use crate::noise::{ProgramNoise, TakenFromThreads, ThreadNoise};
use crate::style::Style;

/// Largest number of threads with a table of their own: those from which most was taken.
const THREADS: usize = 60;
/// Largest number of causes in the table of all threads, and in that of one.
const CAUSES: [usize; 2] = [60, 20];

pub(super) fn write(out: &mut Markup, view: &View) {
    let Some(noise) = &view.document.noise else { return };
    if let Some(why) = &noise.blind {
        plot::warnings(out, [format!("noise not known: {why}")]);
        return;
    }
    writeln!(out, "<p>{}</p>", Safe(unbroken(&noise.heading())));
    plot::warnings(out, noise.remarks(view.document.pack.is_some()));
    if noise.total.is_empty() {
        return;
    }
    causes(out, noise, (&noise.total, CAUSES[0]), noise.thread_time_ns);
    for knob in noise.knobs() {
        writeln!(out, "<p>{}</p>", Safe(knob));
    }
    over_time(out, view, noise);
    of_threads(out, view, noise);
}

fn over_time(out: &mut Markup, view: &View, noise: &ProgramNoise) {
    let Some(listed) = view.interrupted else {
        let text = "Single interruptions are not drawn: only cox run --noise --html has them, not a stored trace.";
        writeln!(out, "<p class=\"detail\">{text}</p>");
        return;
    };
    let chart = Chart {
        title: "Interruptions over time",
        one: "interruption",
        what: "Each mark is an interruption of a thread, its height the net time, on a logarithmic scale. Of page faults, one in eleven is drawn.".to_owned(),
        causes: &noise.causes,
        all: listed.all.clone(),
        length_ns: listed.length_ns,
        left_out: listed.left_out,
    };
    over_time::draw(out, &chart, over_time::MARKS);
}

/// Writes a table for each thread, folded up, those first from which most was taken.
fn of_threads(out: &mut Markup, view: &View, noise: &ProgramNoise) {
    let sum = |thread: &ThreadNoise| thread.by_cause.iter().map(|taken| taken.inside_ns).sum::<u64>();
    let mut threads: Vec<(u64, &ThreadNoise)> = noise.threads.iter().map(|thread| (sum(thread), thread)).collect();
    threads.sort_by_key(|(ns, thread)| (std::cmp::Reverse(*ns), thread.tid));
    if threads.len() < 2 {
        return;
    }
    out.push_str("<h3>Each thread</h3>\n");
    for (ns, thread) in threads.iter().take(THREADS) {
        let wall_ns = view.threads.get(&thread.tid).map_or(0, |thread| thread.wall_ns);
        let named = format!("{} {}: {}", thread.tid, thread.comm, rate(*ns, wall_ns));
        writeln!(out, "<details><summary>{}</summary>", Safe(named));
        causes(out, noise, (&thread.by_cause, CAUSES[1]), wall_ns);
        out.push_str("</details>\n");
    }
    if threads.len() > THREADS {
        let others = count((threads.len() - THREADS) as u64);
        writeln!(out, "<p class=\"detail\">From {others} more threads less was taken; the JSON has them.</p>");
    }
}

/// Writes the table of the first causes, whose times are those within `of_ns` of thread time.
fn causes(out: &mut Markup, noise: &ProgramNoise, (all, most): (&[TakenFromThreads], usize), of_ns: u64) {
    let rows: Vec<&TakenFromThreads> = all.iter().take(most).collect();
    table::write(out, &noise.table(&rows, of_ns, &Style::default()), "");
    if let Some(estimates) = noise.estimates(&rows) {
        writeln!(out, "<p class=\"detail\">{}</p>", Safe(estimates));
    }
    let more = all.len() - rows.len();
    if more > 0 {
        writeln!(out, "<p class=\"detail\">{} more, each of which took less.</p>", counted(more as u64, "cause"));
    }
}

fn rate(ns: u64, wall_ns: u64) -> String {
    format!("{:.1} µs/s", ns as f64 / 1e3 / (wall_ns.max(1) as f64 / 1e9))
}
