//! The net time of page faults. A fault is reported at its end, with its begin. What interrupted it, or ran instead of it while it slept, has been
//! reported before and counts apart.

use std::collections::HashMap;

use wire::noise::Event;

use crate::interval::Span;

/// The page faults of all threads.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// For each thread: the last times that were taken from it, the latest last.
    taken: HashMap<u32, Vec<(u64, u64)>>,
    /// Since when a thread is not on a CPU.
    left: HashMap<u32, u64>,
}

/// Number of intervals that are remembered for each thread. A fault that is interrupted more often is charged with the earliest of these times.
const REMEMBERED: usize = 32;

impl Faults {
    /// Something took this time from the thread.
    pub(crate) fn interrupted(&mut self, tid: u32, span: Span) {
        let taken = self.taken.entry(tid).or_default();
        if taken.len() == REMEMBERED {
            taken.remove(0);
        }
        taken.push((span.begin_ns, span.end_ns));
    }

    /// The thread left its CPU.
    pub(crate) fn left(&mut self, tid: u32, t_ns: u64) {
        self.left.insert(tid, t_ns);
    }

    /// The thread came to a CPU.
    pub(crate) fn came(&mut self, tid: u32, t_ns: u64) {
        if let Some(begin_ns) = self.left.remove(&tid) {
            self.interrupted(tid, Span { begin_ns, end_ns: t_ns, inside_ns: 0, outermost: true });
        }
    }

    /// Returns the span of a fault that ends with this event.
    pub(crate) fn end(&self, event: &Event) -> Span {
        let (begin_ns, end_ns) = (event.a, event.t_ns);
        let taken = self.taken.get(&event.tid).map_or(&[][..], Vec::as_slice);
        let within = taken.iter().map(|(from, to)| to.min(&end_ns).saturating_sub(*from.max(&begin_ns)));
        let inside_ns = end_ns.saturating_sub(begin_ns).saturating_sub(within.sum());
        Span { begin_ns, end_ns, inside_ns, outermost: true }
    }
}
