//! Who had each CPU over time.

use std::collections::HashMap;

use super::Span;

/// Who has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A thread of the timeline's row of this number.
    Row(usize),
    /// Somebody who is not of the session.
    Stranger,
    /// Nobody.
    Idle,
    /// Before the first switch of a CPU, and where moments were lost.
    Unknown,
}

/// A CPU over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// By column: who had it, and how long. They sum to the column's length.
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

    /// How long somebody had it.
    #[must_use]
    pub fn total_ns(&self, holder: Holder) -> u64 {
        self.cells.iter().flatten().filter(|(who, _)| *who == holder).fold(0, |sum, (_, ns)| sum.saturating_add(*ns))
    }
}

/// Who has each CPU now, and since when; and since when a CPU's moments have been lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    held: HashMap<u16, (Holder, u64)>,
    gaps: HashMap<u16, u64>,
}

impl Lanes {
    /// Somebody else has a CPU from now on; who had it before is returned.
    pub(super) fn switch(&mut self, cpu: u16, t_ns: u64, holder: Holder) -> Option<(Holder, u64)> {
        self.held.insert(cpu, (holder, t_ns))
    }

    /// Moments of a CPU are lost from now on.
    pub(super) fn gap(&mut self, cpu: u16, t_ns: u64) -> Option<(Holder, u64)> {
        self.gaps.insert(cpu, t_ns);
        self.held.insert(cpu, (Holder::Unknown, t_ns))
    }

    /// A CPU says something: until now its moments may have been lost.
    pub(super) fn told(&mut self, cpu: u16, t_ns: u64, span: &Span, holes: &mut [bool]) {
        if let Some(from_ns) = self.gaps.remove(&cpu) {
            // A gap of no length is one, too.
            span.divide(from_ns, t_ns.max(from_ns.saturating_add(1)), |column, _| holes[column] = true);
        }
    }

    /// What is open at the end of the window.
    pub(super) fn close(&mut self, span: &Span, holes: &mut [bool]) -> Vec<(u16, Holder, u64)> {
        let cpus: Vec<u16> = self.gaps.keys().copied().collect();
        cpus.into_iter().for_each(|cpu| self.told(cpu, span.end_ns(), span, holes));
        self.held.drain().map(|(cpu, (holder, from_ns))| (cpu, holder, from_ns)).collect()
    }
}
