//! Waiting × time: how many threads had a CPU, how many waited for one, and which threads waited.

use advise::numbers::counted;
use ledger::timeline::{Activity, Cell};

use super::colours;
use super::heat::{Heat, Kind};
use super::plot::{self, LEFT, PLOT, Plot};
use super::view::View;
use crate::markup::Markup;

/// The layers from below: threads on CPUs, then threads that waited for one.
const LAYERS: [(Activity, &str); 4] = [
    (Activity::Run, colours::ON_A_CPU),
    (Activity::Preempted, "s-preempted"),
    (Activity::WakeDelay, "s-wake"),
    (Activity::Yielded, "s-yield"),
];

const HEIGHT: u64 = 190;

pub(super) fn write(out: &mut Markup, view: &View) {
    demand(out, view);
    Heat {
        title: "Thread × time: waiting for a CPU",
        note: "The stronger the shade, the larger the part of a column in which the thread was runnable and had no CPU.",
        says: "{} % waiting for a CPU",
        kind: Kind::Share(Cell::waiting_for_cpu_ns),
    }
    .write(out, view);
}

/// Draws how many threads wanted a CPU, on average, in each column.
fn demand(out: &mut Markup, view: &View) {
    let timeline = view.timeline;
    let span = &timeline.span;
    let cells = timeline.all();
    let threads = |ns: u64, column: usize| ns as f64 / span.width_ns(column).max(1) as f64;
    let wanted = |(column, cell): (usize, &Cell)| {
        threads(LAYERS.iter().fold(0, |sum, (what, ..)| sum.saturating_add(cell.of(*what))), column)
    };
    let cpus = view.document.facts.program_cpus().len();
    let most = cells.iter().enumerate().map(wanted).fold(cpus as f64, f64::max).max(1.0) * 1.05;
    plot::caption(
        out,
        "Threads that wanted a CPU over time",
        "How many threads ran, and how many were runnable without a CPU, on average in each column.",
    );
    plot::warnings(out, view.holes());
    let plot = Plot { timeline, height: HEIGHT };
    plot.open(out, "threads on CPUs and waiting for CPUs over time");
    let height = |threads: f64| threads / most * HEIGHT as f64;
    out.push_str("<g class=\"axis\">");
    plot::grid(out, (LEFT, PLOT), (most, 6.0), |value| HEIGHT as f64 - height(value));
    let middle = HEIGHT / 2;
    writeln!(out, "<text transform=\"translate({} {middle}) rotate(-90)\">threads</text></g>", LEFT - 60);
    plot.columns(out);
    let mut below = vec![0u64; cells.len()];
    let mut used = Vec::new();
    for (what, class) in LAYERS {
        let above: Vec<u64> =
            cells.iter().zip(&below).map(|(cell, below)| below.saturating_add(cell.of(what))).collect();
        if above == below {
            continue;
        }
        let y = |ns: u64, column: usize| HEIGHT as f64 - height(threads(ns, column));
        let mut path = Markup::default();
        for (column, ns) in above.iter().enumerate() {
            write!(path, "{}{:.1}h1", if column == 0 { "M0 " } else { "V" }, y(*ns, column));
        }
        for (column, ns) in below.iter().enumerate().rev() {
            write!(path, "V{:.1}h-1", y(*ns, column));
        }
        writeln!(out, "<path class=\"{class}\" d=\"{}z\"/>", path.0);
        used.push((class, colours::meaning(class).to_owned()));
        below = above;
    }
    Plot::columns_end(out);
    if cpus > 0 {
        let y = HEIGHT as f64 - height(cpus as f64);
        writeln!(
            out,
            "<path class=\"limit\" d=\"M{LEFT} {y:.1}h{PLOT}\"><title>{}</title></path>",
            counted(cpus as u64, "CPU")
        );
        used.push(("l-limit", format!("the dashed line: {} that the program may use", counted(cpus as u64, "CPU"))));
    }
    plot.close(out);
    plot::legend(out, &used);
    out.push_str("</figure>\n");
}
