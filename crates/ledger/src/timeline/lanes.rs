//! The holder of each CPU over time.

use std::collections::HashMap;

use super::Span;

/// The holder of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A tracked thread. The number is that of the row in the timeline that shows the thread.
    Row(usize),
    /// A thread outside the session.
    Stranger,
    /// No thread: the CPU is idle.
    Idle,
    /// Unknown: before the CPU's first switch, or where trace events were lost.
    Unknown,
}

/// The holders of one CPU over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// By column: the holders, with the time of each. The times sum to the column's length.
    pub cells: Vec<Vec<(Holder, u64)>>,
}

impl Lane {
    pub(super) fn new(columns: usize) -> Lane {
        Lane { cells: vec![Vec::new(); columns] }
    }

    pub(super) fn book(&mut self, column: usize, holder: Holder, ns: u64) {
        let cell = &mut self.cells[column];
        match cell.iter_mut().find(|(known, _)| *known == holder) {
            Some((_, sum)) => *sum = sum.saturating_add(ns),
            None => cell.push((holder, ns)),
        }
    }

    /// Returns the total time for which `holder` held the CPU of this lane.
    #[must_use]
    pub fn total_ns(&self, holder: Holder) -> u64 {
        self.cells.iter().flatten().filter(|(who, _)| *who == holder).fold(0, |sum, (_, ns)| sum.saturating_add(*ns))
    }
}

/// For each CPU, the present holder with the time since which it holds the CPU; and the start of a gap, if trace events of this CPU were lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    held: HashMap<u16, (Holder, u64)>,
    gaps: HashMap<u16, u64>,
}

impl Lanes {
    /// Sets a CPU's holder from `t_ns` on, and returns the previous holder and since when it held the CPU.
    pub(super) fn switch(&mut self, cpu: u16, t_ns: u64, holder: Holder) -> Option<(Holder, u64)> {
        self.held.insert(cpu, (holder, t_ns))
    }

    /// Starts a gap (lost trace events) of a CPU. Returns the previous holder, and since when it held the CPU.
    pub(super) fn gap(&mut self, cpu: u16, t_ns: u64) -> Option<(Holder, u64)> {
        self.gaps.insert(cpu, t_ns);
        self.held.insert(cpu, (Holder::Unknown, t_ns))
    }

    /// Called at an event of a CPU: if trace events of the CPU were lost before it, this gap ends here. Marks the columns of the gap in `holes`.
    pub(super) fn told(&mut self, cpu: u16, t_ns: u64, span: &Span, holes: &mut [bool]) {
        if let Some(from_ns) = self.gaps.remove(&cpu) {
            // Even a gap of length 0 marks the column in which it lies.
            span.divide(from_ns, t_ns.max(from_ns.saturating_add(1)), |column, _| holes[column] = true);
        }
    }

    /// Ends all gaps at the end of the window. Returns each CPU's last holder and since when it held the CPU.
    pub(super) fn close(&mut self, span: &Span, holes: &mut [bool]) -> Vec<(u16, Holder, u64)> {
        let cpus: Vec<u16> = self.gaps.keys().copied().collect();
        cpus.into_iter().for_each(|cpu| self.told(cpu, span.end_ns(), span, holes));
        self.held.drain().map(|(cpu, (holder, from_ns))| (cpu, holder, from_ns)).collect()
    }
}
