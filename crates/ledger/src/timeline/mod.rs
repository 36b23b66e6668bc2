//! Events over time, for diagrams: the window is divided into columns, and the states of threads are summed by thread and column.
//!
//! Memory is bounded by rows × columns and by CPUs × columns, independent of the number of events; threads without a row of their own share one.
//! Nothing is rounded: a stretch over several columns is divided at their borders to the nanosecond, so sums over columns equal sums of stretches.
//!
//! 1. [`Timeline::new`] gets the window and the threads that have rows.
//! 2. [`Timeline::stretch`] and [`Timeline::trace_event`] take the contents of a recording, trace events in order of time.
//! 3. [`Timeline::finish`] closes the last interval of each CPU.
//!
//! Events outside the window are left out.

mod histogram;
mod lanes;
mod span;

use std::collections::{BTreeMap, HashMap};

use wire::{Cause, Left, TraceEvent, What};

use crate::stretch::{Doing, Stretch};

pub use histogram::{BUCKETS, Histogram};
pub use lanes::{Holder, Lane};
pub use span::Span;

use lanes::Lanes;

/// State of a thread, as far as diagrams distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// Running on a CPU.
    Run,
    /// Woken, and waiting for a CPU.
    WakeDelay,
    /// Preempted, and waiting for a CPU.
    Preempted,
    /// Yielded its CPU (sched_yield), and waiting for a CPU.
    Yielded,
    /// Asleep on a futex.
    Futex,
    /// Blocked by another cause.
    Blocked,
    /// Unknown.
    Unknown,
}

/// Number of activities.
pub const ACTIVITIES: usize = 7;

impl Activity {
    /// All activities, in the order of [`Cell::ns`].
    pub const ALL: [Activity; ACTIVITIES] = [
        Activity::Run,
        Activity::WakeDelay,
        Activity::Preempted,
        Activity::Yielded,
        Activity::Futex,
        Activity::Blocked,
        Activity::Unknown,
    ];

    fn of(doing: Doing) -> Activity {
        match doing {
            Doing::Run => Activity::Run,
            Doing::WakeDelay => Activity::WakeDelay,
            Doing::Preempted { yielded: false } => Activity::Preempted,
            Doing::Preempted { yielded: true } => Activity::Yielded,
            Doing::Blocked(Cause::Futex) => Activity::Futex,
            Doing::Blocked(_) => Activity::Blocked,
            Doing::Unknown => Activity::Unknown,
        }
    }
}

/// What the threads of one row did in one column of a timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Time in each [`Activity`] in ns, summed over the row's threads.
    pub ns: [u64; ACTIVITIES],
    /// Number of switch-outs, without the last one of each thread.
    pub switches: u64,
    /// Number of migrations.
    pub migrations: u64,
}

impl Cell {
    /// Returns the time, ns, that the row's threads spent in `activity`, summed over the threads.
    #[must_use]
    pub fn of(&self, activity: Activity) -> u64 {
        self.ns[activity as usize]
    }

    /// Returns the time waited for a CPU: wake delay and preempt wait, without waits after sched_yield, as in [`Sums`](crate::summary::Sums).
    #[must_use]
    pub fn waiting_for_cpu_ns(&self) -> u64 {
        self.of(Activity::WakeDelay).saturating_add(self.of(Activity::Preempted))
    }

    fn add(&mut self, other: &Cell) {
        // Saturates, because in a damaged file threads may live for centuries.
        self.ns.iter_mut().zip(other.ns).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
        self.switches += other.switches;
        self.migrations += other.migrations;
    }
}

/// One thread over time, or all threads without a row of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Thread id; `None` for the row that others share. If an id was reused, the row contains all its threads.
    pub tid: Option<u32>,
    /// What the threads did, by column.
    pub cells: Vec<Cell>,
}

impl Row {
    fn new(tid: Option<u32>, columns: usize) -> Row {
        Row { tid, cells: vec![Cell::default(); columns] }
    }

    /// Returns the sum over all columns.
    #[must_use]
    pub fn total(&self) -> Cell {
        sum(&self.cells)
    }
}

fn sum<'c>(cells: impl IntoIterator<Item = &'c Cell>) -> Cell {
    cells.into_iter().fold(Cell::default(), |mut sum, cell| {
        sum.add(cell);
        sum
    })
}

/// A session over time; see the module's header.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The window and its columns.
    pub span: Span,
    /// Threads with rows of their own, in the requested order, then the row of all other threads.
    pub rows: Vec<Row>,
    /// For each CPU with events, which thread held it over time.
    pub lanes: BTreeMap<u16, Lane>,
    /// Number of migrations, by old and new CPU.
    pub moves: BTreeMap<(u16, u16), u64>,
    /// Lengths of the wake delays that begin and end inside the window.
    pub wake_delays: Histogram,
    /// Lengths of the stints (stays of a thread on a CPU) that begin and end inside the window.
    pub runs: Histogram,
    /// Number of lost trace events, by the column in which the loss began.
    pub lost: Vec<u64>,
    /// True for columns in which trace events are missing.
    pub holes: Vec<bool>,
    row_of: HashMap<u32, usize>,
    open: Lanes,
}

impl Timeline {
    /// Creates an empty timeline. Threads in `shown` get rows of their own.
    #[must_use]
    pub fn new(span: Span, shown: &[u32]) -> Timeline {
        let columns = span.columns();
        let own = shown.iter().map(|tid| Row::new(Some(*tid), columns));
        Timeline {
            rows: own.chain([Row::new(None, columns)]).collect(),
            lanes: BTreeMap::new(),
            moves: BTreeMap::new(),
            wake_delays: Histogram::default(),
            runs: Histogram::default(),
            lost: vec![0; columns],
            holes: vec![false; columns],
            row_of: shown.iter().enumerate().map(|(row, tid)| (*tid, row)).collect(),
            open: Lanes::default(),
            span,
        }
    }

    /// Returns a thread's row; threads without a row of their own share the last one.
    fn row(&self, tid: u32) -> usize {
        self.row_of.get(&tid).copied().unwrap_or(self.rows.len() - 1)
    }

    /// Adds a stretch (an interval in which a thread had one state), divided at the borders of columns.
    pub fn stretch(&mut self, stretch: &Stretch) {
        let row = self.row(stretch.tid);
        let activity = Activity::of(stretch.doing) as usize;
        let cells = &mut self.rows[row].cells;
        self.span.divide(stretch.from_ns, stretch.until_ns, |column, ns| {
            let sum = &mut cells[column].ns[activity];
            *sum = sum.saturating_add(ns);
        });
        if self.span.holds(stretch.from_ns, stretch.until_ns) {
            match stretch.doing {
                Doing::Run => self.runs.take(stretch.length_ns()),
                Doing::WakeDelay => self.wake_delays.take(stretch.length_ns()),
                _ => {}
            }
        }
    }

    /// Adds a trace event.
    pub fn trace_event(&mut self, trace_event: &TraceEvent) {
        let Some(column) = self.span.column(trace_event.t_ns) else { return };
        // A sample does not contain its CPU.
        if !matches!(trace_event.what(), Some(What::Sample { .. })) {
            self.open.told(trace_event.cpu, trace_event.t_ns, &self.span, &mut self.holes);
        }
        match trace_event.what() {
            Some(What::Switch { out, left, out_is_member, into, in_is_member, .. }) => {
                if out_is_member && left != Left::Dead {
                    let row = self.row(out);
                    self.rows[row].cells[column].switches += 1;
                }
                let holder = match into {
                    0 => Holder::Idle,
                    tid if in_is_member => Holder::Row(self.row(tid)),
                    _ => Holder::Stranger,
                };
                let before = self.open.switch(trace_event.cpu, trace_event.t_ns, holder);
                self.book(trace_event.cpu, before, trace_event.t_ns);
            }
            // The thread runs on this CPU now, although no switch to it was recorded.
            Some(What::Arrived { tid }) => {
                let holder = Holder::Row(self.row(tid));
                let before = self.open.switch(trace_event.cpu, trace_event.t_ns, holder);
                self.book(trace_event.cpu, before, trace_event.t_ns);
            }
            Some(What::Migration { tid, from, .. }) => {
                let row = self.row(tid);
                self.rows[row].cells[column].migrations += 1;
                *self.moves.entry((from, trace_event.cpu)).or_default() += 1;
            }
            Some(What::Lost { count }) => {
                self.lost[column] += u64::from(count);
                // The holder of the CPU during the gap is unknown.
                let before = self.open.gap(trace_event.cpu, trace_event.t_ns);
                self.book(trace_event.cpu, before, trace_event.t_ns);
            }
            _ => {}
        }
    }

    fn book(&mut self, cpu: u16, held: Option<(Holder, u64)>, until_ns: u64) {
        let columns = self.span.columns();
        let lane = self.lanes.entry(cpu).or_insert_with(|| Lane::new(columns));
        let (holder, from_ns) = held.unwrap_or((Holder::Unknown, self.span.start_ns()));
        self.span.divide(from_ns, until_ns, |column, ns| lane.book(column, holder, ns));
    }

    /// Closes all open intervals.
    #[must_use]
    pub fn finish(mut self) -> Timeline {
        let end_ns = self.span.end_ns();
        for (cpu, holder, from_ns) in self.open.close(&self.span, &mut self.holes) {
            self.book(cpu, Some((holder, from_ns)), end_ns);
        }
        self
    }

    /// Returns the sum over all threads, by column.
    #[must_use]
    pub fn all(&self) -> Vec<Cell> {
        let at = |column: usize| sum(self.rows.iter().map(|row| &row.cells[column]));
        (0..self.span.columns()).map(at).collect()
    }

    /// Returns the number of lost trace events.
    #[must_use]
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().sum()
    }
}

#[cfg(test)]
mod tests;
