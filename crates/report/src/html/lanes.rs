//! CPU × time: which thread had each CPU.

use std::collections::{BTreeMap, HashMap};

use advise::numbers::duration;
use ledger::timeline::{Holder, Lane};

use super::plot::{self, LEFT, PLOT, Plot};
use super::view::View;
use super::{colours, table};
use crate::markup::Markup;
use crate::style::Style;
use crate::text::cpus;

/// Number of threads with a colour of their own: as many as readers with colour blindness can distinguish.
const COLOURS: usize = 7;

/// If there are more CPUs than this, a column (a time interval of one CPU) shows only the thread that had the CPU longest, and not all threads.
const DIVIDED: usize = 32;

/// The holder of a CPU, as far as colours show it: holders with the same colour have the same value. The variants are in the order in which they are
/// stacked in a column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    /// One of the threads that ran longest: they have colours of their own.
    Thread(usize),
    Ours,
    Stranger,
    Idle,
    Unknown,
}

impl Who {
    fn class(self) -> String {
        match self {
            Who::Thread(at) => format!("t{at}"),
            Who::Ours => colours::ON_A_CPU.to_owned(),
            Who::Stranger => colours::OTHERS.to_owned(),
            Who::Idle => "ground".to_owned(),
            Who::Unknown => colours::UNKNOWN.to_owned(),
        }
    }
}

/// Returns the rows of the threads that ran longest, at most [`COLOURS`]. Threads without a row of their own are never among them.
fn most_run(view: &View) -> Vec<usize> {
    let mut ran: HashMap<usize, u64> = HashMap::new();
    for (holder, ns) in view.timeline.lanes.values().flat_map(|lane| &lane.cells).flatten() {
        if let Holder::Row(row) = holder {
            let sum = ran.entry(*row).or_default();
            *sum = sum.saturating_add(*ns);
        }
    }
    let own = |row: &usize| view.timeline.rows[*row].tid.is_some();
    let mut rows: Vec<(usize, u64)> = ran.into_iter().filter(|(row, _)| own(row)).collect();
    rows.sort_by_key(|(row, ns)| (std::cmp::Reverse(*ns), *row));
    let mut rows: Vec<usize> = rows.into_iter().take(COLOURS).map(|(row, _)| row).collect();
    rows.sort_unstable();
    rows
}

fn who(holder: Holder, coloured: &[usize]) -> Who {
    match holder {
        Holder::Row(row) => coloured.iter().position(|known| *known == row).map_or(Who::Ours, Who::Thread),
        Holder::Stranger => Who::Stranger,
        Holder::Idle => Who::Idle,
        Holder::Unknown => Who::Unknown,
    }
}

/// Divides a column (a time interval of one CPU) into parts, in the order in which they are stacked. Returns the time of each part.
fn column(cell: &[(Holder, u64)], coloured: &[usize]) -> BTreeMap<Who, u64> {
    let mut parts = BTreeMap::new();
    for (holder, ns) in cell {
        let sum: &mut u64 = parts.entry(who(*holder, coloured)).or_default();
        *sum = sum.saturating_add(*ns);
    }
    parts
}

/// The drawing so far: one path for each colour.
type Paths = BTreeMap<Who, Markup>;

pub(super) fn write(out: &mut Markup, view: &View) {
    let lanes = &view.timeline.lanes;
    plot::caption(
        out,
        "CPU × time: who ran",
        if lanes.len() > DIVIDED {
            "Each column is a time interval. It has the colour of the thread that ran longest in it; blank means that the CPU was idle. The threads that ran longest have colours of their own."
        } else {
            "Each column is a time interval, divided among the threads that ran on the CPU; blank means that the CPU was idle. The threads that ran longest have colours of their own."
        },
    );
    if lanes.is_empty() {
        out.push_str("<p class=\"none\">No CPU was seen.</p></figure>\n");
        return;
    }
    plot::warnings(out, view.holes());
    let height = lane_height(lanes.len());
    let plot = Plot { timeline: view.timeline, height: height * lanes.len() as u64 };
    plot.open(out, "who had each CPU over time");
    for (y, cpu) in (0..).step_by(height as usize).zip(lanes.keys()) {
        plot.name(out, y, height, &format!("CPU {cpu}"));
    }
    plot.columns(out);
    let coloured = most_run(view);
    let mut paths = Paths::new();
    for (y, lane) in (0..).step_by(height as usize).zip(lanes.values()) {
        if lanes.len() > DIVIDED {
            dominated(&mut paths, lane, &coloured, y, height - 1);
        } else {
            divided(&mut paths, lane, &coloured, y, height - 2);
        }
    }
    for (who, path) in &paths {
        writeln!(out, "<path class=\"{}\" d=\"{}\"/>", who.class(), path.0);
    }
    Plot::columns_end(out);
    for (y, (cpu, lane)) in (0..).step_by(height as usize).zip(lanes) {
        let strangers = duration(lane.total_ns(Holder::Stranger));
        let idle = duration(lane.total_ns(Holder::Idle));
        writeln!(
            out,
            "<rect class=\"over\" x=\"{LEFT}\" y=\"{y}\" width=\"{PLOT}\" height=\"{height}\"><title>CPU {cpu}: idle {idle}, others {strangers}</title></rect>"
        );
    }
    plot.close(out);
    legend(out, view, &coloured, &paths);
    out.push_str("</figure>\n");
    let style = Style::default();
    out.push_str("<div class=\"pair\">");
    for table in [cpus::cpus(view.document, &style), cpus::preemptors(view.document, &style)].into_iter().flatten() {
        table::write(out, &table, "");
    }
    out.push_str("</div>\n");
}

fn lane_height(lanes: usize) -> u64 {
    match lanes {
        0..=4 => 44,
        5..=8 => 32,
        9..=DIVIDED => 22,
        _ => 9,
    }
}

fn legend(out: &mut Markup, view: &View, coloured: &[usize], paths: &Paths) {
    let words = |who: Who| match who {
        Who::Thread(at) => view.timeline.rows[coloured[at]].tid.map_or_else(String::new, |tid| view.name(tid)),
        Who::Idle => "idle".to_owned(),
        Who::Ours | Who::Stranger | Who::Unknown => colours::meaning(&who.class()).to_owned(),
    };
    let entries: Vec<(String, String)> = paths.keys().map(|who| (who.class(), words(*who))).collect();
    plot::legend(out, &entries);
}

/// Draws each column (a time interval of one CPU) as a stack of its parts, from below. Idle time is left blank.
fn divided(paths: &mut Paths, lane: &Lane, coloured: &[usize], top: u64, height: u64) {
    for (x, cell) in lane.cells.iter().enumerate() {
        let parts = column(cell, coloured);
        let whole = parts.values().fold(0u64, |sum, ns| sum.saturating_add(*ns));
        let mut bottom = (top + 1 + height) as f64;
        for (who, ns) in parts.into_iter().filter(|(who, _)| *who != Who::Idle) {
            let part = ns as f64 / whole.max(1) as f64 * height as f64;
            if part >= 0.05 {
                write!(paths.entry(who).or_default(), "M{x} {bottom:.1}h1v-{part:.1}h-1z");
            }
            bottom -= part;
        }
    }
}

/// Draws each column (a time interval of one CPU) in one colour: that of its longest part. Neighbouring columns of one colour are joined in one
/// rectangle.
fn dominated(paths: &mut Paths, lane: &Lane, coloured: &[usize], top: u64, height: u64) {
    let most =
        |cell: &Vec<(Holder, u64)>| column(cell, coloured).into_iter().max_by_key(|(_, ns)| *ns).map(|(who, _)| who);
    let (mut from, mut holder) = (0, None);
    for (x, next) in lane.cells.iter().map(most).chain([None]).enumerate() {
        if next == holder && x < lane.cells.len() {
            continue;
        }
        if let Some(who) = holder.filter(|who| *who != Who::Idle) {
            let run = x - from;
            write!(paths.entry(who).or_default(), "M{from} {top}h{run}v{height}h-{run}z");
        }
        (from, holder) = (x, next);
    }
}
