//! Makes intervals from events: from when to when something took the CPU from a followed thread, and what it was.
//!
//! The events of one CPU must come in order of time. Events of different CPUs may come in any order, but the event of a sender should come before
//! that of its receiver; the ring of BPF keeps that order.

use std::collections::HashMap;

use wire::noise::{Event, Named, Vector, edge, fault, kind, switch};

use crate::cause::{Cause, CauseId, Causes, Sender};
use crate::contexts::{Contexts, is_context};
use crate::senders::Senders;
use crate::waits::{Charged, Waits};

/// Time that a cause took from a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The thread that lost the time.
    pub tid: u32,
    /// The CPU on which that happened.
    pub cpu: u16,
    /// Begin, end and net time.
    pub span: Span,
    /// What took the time.
    pub cause: CauseId,
}

/// From when to when an interval lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Begin, ns on CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// End, ns on CLOCK_MONOTONIC.
    pub end_ns: u64,
    /// Net time, ns: without the intervals of other causes within this one.
    pub inside_ns: u64,
    /// Whether this interval lies in no other one.
    pub outermost: bool,
}

/// Turns events into intervals.
#[derive(Debug, Default)]
pub struct Interference {
    causes: Causes,
    contexts: HashMap<u16, Contexts>,
    senders: Senders,
    waits: Waits,
    faults: Faults,
}

impl Interference {
    /// Takes the next event, and returns the intervals that end with it.
    pub fn push(&mut self, event: &Event, named: Option<&Named>) -> Vec<Interval> {
        match event.kind {
            _ if is_context(event) => self.context(event).into_iter().collect(),
            kind::NMI => {
                let span = self.contexts.entry(event.cpu).or_default().point(event.t_ns, event.b);
                vec![self.interval(event.tid, event.cpu, span, Cause::Nmi { handler: event.a })]
            }
            kind::FAULT => vec![self.fault(event)],
            kind::SWITCH => self.switch(event, named),
            kind::SENT | kind::SENT_MASK | kind::QUEUED => {
                self.sent(event, named);
                Vec::new()
            }
            kind::WORK => {
                let charged = self.waits.work(event.cpu, event.t_ns, event.a);
                self.charged(event.cpu, charged)
            }
            kind::MOVED => {
                let charged = self.waits.moved(event.tid, event.cpu, event.t_ns);
                self.charged(event.cpu, charged)
            }
            _ => Vec::new(),
        }
    }

    /// Returns the causes that were seen so far.
    #[must_use]
    pub fn causes(&self) -> &Causes {
        &self.causes
    }

    /// Returns how many page faults of a thread the kernel has begun to handle, up to the last one whose time is known.
    #[must_use]
    pub fn faults_of(&self, tid: u32) -> u64 {
        self.faults.counts.get(&tid).copied().unwrap_or(0)
    }

    fn context(&mut self, event: &Event) -> Option<Interval> {
        let contexts = self.contexts.entry(event.cpu).or_default();
        if event.edge == edge::BEGIN {
            let cause = match event.kind {
                kind::CALL => {
                    let sender = self.senders.take(event.cpu, event.t_ns, Some(event.b));
                    Some(Cause::Call { function: event.a, sender })
                }
                kind::VECTOR if Vector::of(event.a) == Some(Vector::Reschedule) => {
                    Some(Cause::Reschedule { sender: self.senders.take(event.cpu, event.t_ns, None) })
                }
                _ => None,
            };
            contexts.begin(event.kind, event.a, event.t_ns, cause);
            return None;
        }
        let (span, cause) = contexts.end(event.kind, event.a, event.t_ns)?;
        if span.outermost {
            self.faults.interrupted(event.tid, span);
        }
        Some(self.interval(event.tid, event.cpu, span, cause))
    }

    fn fault(&mut self, event: &Event) -> Interval {
        let span = self.faults.end(event);
        let cause =
            Cause::Fault { in_kernel: event.edge & fault::KERNEL != 0, major: event.edge & fault::MAJOR != 0 };
        self.interval(event.tid, event.cpu, span, cause)
    }

    fn switch(&mut self, event: &Event, named: Option<&Named>) -> Vec<Interval> {
        self.contexts.entry(event.cpu).or_default().clear();
        let out_waits = event.b & switch::OUT_RUNNABLE != 0;
        let into = (event.tid, named.map_or_else(String::new, |named| text(&named.comm)));
        let out = (event.a != switch::OUT_UNKNOWN).then_some(event.a as u32);
        let charged = self.waits.switch(event.cpu, event.t_ns, out, into, out_waits);
        if event.b & switch::OUT_FOLLOWED != 0 {
            self.faults.left(event.a as u32, event.t_ns);
        }
        if event.b & switch::IN_FOLLOWED != 0 {
            self.faults.came(event.tid, event.t_ns);
        }
        self.charged(event.cpu, charged)
    }

    fn sent(&mut self, event: &Event, named: Option<&Named>) {
        let Some(named) = named else { return };
        let sender = Sender {
            tid: event.tid,
            tgid: named.tgid,
            comm: text(&named.comm),
            call: u32::try_from(named.call).ok(),
            place: event.a,
        };
        match event.kind {
            kind::QUEUED => self.senders.sent(event.cpu, event.t_ns, Some(event.b), sender),
            // An interrupt without a callback makes the CPU choose a thread anew. Those with one accompany a request.
            kind::SENT if event.b == 0 => self.senders.sent(event.cpu, event.t_ns, None, sender),
            _ => {}
        }
    }

    fn charged(&mut self, cpu: u16, charged: Vec<Charged>) -> Vec<Interval> {
        let interval = |(tid, begin_ns, end_ns, cause): Charged| {
            let span = Span { begin_ns, end_ns, inside_ns: end_ns.saturating_sub(begin_ns), outermost: true };
            self.interval(tid, cpu, span, cause)
        };
        charged.into_iter().map(interval).collect()
    }

    fn interval(&mut self, tid: u32, cpu: u16, span: Span, cause: Cause) -> Interval {
        Interval { tid, cpu, span, cause: self.causes.number(cause) }
    }
}

/// The net time of page faults. A fault is reported at its end, with its begin. What interrupted it, or ran instead of it while it slept, has been
/// reported before and counts apart.
#[derive(Debug, Default)]
struct Faults {
    /// For each thread: the last times that were taken from it, the latest last.
    taken: HashMap<u32, Vec<(u64, u64)>>,
    /// Since when a thread is not on a CPU.
    left: HashMap<u32, u64>,
    counts: HashMap<u32, u64>,
}

/// Number of intervals that are remembered for each thread. A fault that is interrupted more often is charged with the earliest of these times.
const REMEMBERED: usize = 32;

impl Faults {
    fn interrupted(&mut self, tid: u32, span: Span) {
        let taken = self.taken.entry(tid).or_default();
        if taken.len() == REMEMBERED {
            taken.remove(0);
        }
        taken.push((span.begin_ns, span.end_ns));
    }

    fn left(&mut self, tid: u32, t_ns: u64) {
        self.left.insert(tid, t_ns);
    }

    fn came(&mut self, tid: u32, t_ns: u64) {
        if let Some(begin_ns) = self.left.remove(&tid) {
            self.interrupted(tid, Span { begin_ns, end_ns: t_ns, inside_ns: 0, outermost: true });
        }
    }

    fn end(&mut self, event: &Event) -> Span {
        let (begin_ns, end_ns) = (event.a, event.t_ns);
        self.counts.insert(event.tid, event.b);
        let taken = self.taken.get(&event.tid).map_or(&[][..], Vec::as_slice);
        let within = taken.iter().map(|(from, to)| to.min(&end_ns).saturating_sub(*from.max(&begin_ns)));
        let inside_ns = end_ns.saturating_sub(begin_ns).saturating_sub(within.sum());
        Span { begin_ns, end_ns, inside_ns, outermost: true }
    }
}

fn text(comm: &[u8]) -> String {
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..end]).into_owned()
}
