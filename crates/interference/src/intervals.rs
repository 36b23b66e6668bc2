//! Makes intervals from events: from when to when something took the CPU from a followed thread, and what it was.
//!
//! The events of one CPU must come in order of time. Events of different CPUs may come in any order, but the event of a sender should come before
//! that of its receiver. `watch` returns all events in order of time.

use std::collections::HashMap;

use wire::noise::{Event, Named, Vector, edge, fault, kind, switch};

use crate::cause::{Cause, Causes, Sender};
use crate::contexts::{Contexts, is_context};
use crate::faults::Faults;
use crate::interval::{Interval, Span};
use crate::senders::Senders;
use crate::waits::{Charged, Waits};

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
        if event.edge & edge::AFTER_LOSS == 0 {
            return self.next(event, named);
        }
        // What has begun on this CPU may have ended, and who waited may have run.
        self.contexts.remove(&event.cpu);
        self.waits.forget(event.cpu);
        self.next(&Event { edge: event.edge & !edge::AFTER_LOSS, ..*event }, named)
    }

    fn next(&mut self, event: &Event, named: Option<&Named>) -> Vec<Interval> {
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

    fn context(&mut self, event: &Event) -> Option<Interval> {
        let contexts = self.contexts.entry(event.cpu).or_default();
        if event.edge == edge::BEGIN {
            let cause = match event.kind {
                kind::CALL if !contexts.answers_calls() => return None,
                kind::CALL => {
                    let sender = if event.b == 0 {
                        self.senders.take_oldest(event.cpu, event.t_ns)
                    } else {
                        self.senders.take(event.cpu, event.t_ns, Some(event.b))
                    };
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
        let cause = Cause::Fault { in_kernel: event.edge & fault::KERNEL != 0, major: event.edge & fault::MAJOR != 0 };
        self.interval(event.tid, event.cpu, span, cause)
    }

    fn switch(&mut self, event: &Event, named: Option<&Named>) -> Vec<Interval> {
        self.contexts.entry(event.cpu).or_default().clear();
        let out_waits = event.b & switch::OUT_RUNNABLE != 0;
        let comm = named.map_or_else(String::new, |named| text(&named.comm));
        if self.waits.name(event.tid, comm.clone()) {
            self.causes.name_thread(event.tid, comm);
        }
        let out = (event.a != switch::OUT_UNKNOWN).then_some(event.a as u32);
        let charged = self.waits.switch(event.cpu, event.t_ns, out, event.tid, out_waits);
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

fn text(comm: &[u8]) -> String {
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Account;

    /// The followed thread, its CPU, and another one.
    const TID: u32 = 100;
    const CPU: u16 = 1;
    const ELSEWHERE: u16 = 2;

    fn event(t_ns: u64, kind: u8, edge: u8, a: u64, b: u64) -> Event {
        Event { t_ns, a, b, tid: TID, cpu: CPU, kind, edge }
    }

    fn begin(t_ns: u64, kind: u8, a: u64) -> Event {
        event(t_ns, kind, edge::BEGIN, a, 0)
    }

    fn end(t_ns: u64, kind: u8, a: u64) -> Event {
        event(t_ns, kind, edge::END, a, 0)
    }

    fn named(tid: u32, comm: &str) -> (u32, Named) {
        let mut named = Named { tgid: tid, call: -1, ..Named::default() };
        named.comm[..comm.len()].copy_from_slice(comm.as_bytes());
        (tid, named)
    }

    /// A switch from `out` to a thread, on a CPU.
    fn switched(t_ns: u64, cpu: u16, out: u64, (tid, named): (u32, Named), flags: u64) -> (Event, Option<Named>) {
        (Event { tid, cpu, ..event(t_ns, kind::SWITCH, edge::POINT, out, flags) }, Some(named))
    }

    fn sent(t_ns: u64, kind: u8, b: u64, (tid, named): (u32, Named)) -> (Event, Option<Named>) {
        (Event { tid, ..event(t_ns, kind, edge::POINT, 0xabc, b) }, Some(named))
    }

    fn plain(event: Event) -> (Event, Option<Named>) {
        (event, None)
    }

    /// What the events take from the thread: cause, begin, end, net time.
    fn taken(events: &[(Event, Option<Named>)]) -> Vec<(Cause, u64, u64, u64)> {
        let mut all = Interference::default();
        let intervals: Vec<Interval> =
            events.iter().flat_map(|(event, named)| all.push(event, named.as_ref())).collect();
        assert!(intervals.iter().all(|interval| interval.tid == TID), "{intervals:?}");
        let cause = |interval: &Interval| all.causes().get(interval.cause).clone();
        intervals.iter().map(|i| (cause(i), i.span.begin_ns, i.span.end_ns, i.span.inside_ns)).collect()
    }

    const TICK: Cause = Cause::Timer { function: 0xf00 };
    const TIMER: u64 = Vector::LocalTimer as u64;

    #[test]
    fn the_interrupt_of_a_timer_is_charged_to_its_first_function() {
        let events = [
            begin(10, kind::VECTOR, TIMER),
            begin(12, kind::HRTIMER, 0xf00),
            end(17, kind::HRTIMER, 0),
            begin(18, kind::HRTIMER, 0xf01),
            end(20, kind::HRTIMER, 0),
            end(22, kind::VECTOR, TIMER),
        ];
        // The second function is apart; the first one and the interrupt itself are one cause.
        let second = (Cause::Timer { function: 0xf01 }, 18, 20, 2);
        assert_eq!(taken(&events.map(plain)), [second, (TICK, 10, 22, 10)]);
    }

    #[test]
    fn time_within_another_cause_counts_once() {
        let events = [
            begin(0, kind::SOFTIRQ, 1),
            begin(2, kind::TIMER, 0xa),
            begin(3, kind::IRQ, 36),
            end(7, kind::IRQ, 36),
            end(9, kind::TIMER, 0),
            event(10, kind::NMI, edge::POINT, 0xbad, 1),
            end(12, kind::SOFTIRQ, 1),
        ];
        let all = taken(&events.map(plain));
        assert_eq!(
            all,
            [
                (Cause::Irq(36), 3, 7, 4),
                (Cause::SoftTimer { function: 0xa }, 2, 9, 3),
                (Cause::Nmi { handler: 0xbad }, 9, 10, 1),
                (Cause::Softirq(1), 0, 12, 4),
            ]
        );
        assert_eq!(all.iter().map(|(.., inside)| inside).sum::<u64>(), 12, "the sum is the time from begin to end");
    }

    #[test]
    fn an_end_without_a_begin_and_a_begin_without_an_end_take_nothing() {
        let events = [
            end(5, kind::IRQ, 36),
            begin(10, kind::SOFTIRQ, 7),
            begin(11, kind::IRQ, 36),
            end(14, kind::SOFTIRQ, 7),
            end(15, kind::IRQ, 36),
        ];
        assert_eq!(taken(&events.map(plain)), [(Cause::Softirq(7), 10, 14, 4)]);
    }

    #[test]
    fn a_call_is_charged_to_the_thread_that_requested_it() {
        let call = Vector::CallFunctionSingle as u64;
        let events = [
            sent(1, kind::QUEUED, 0x11, named(7, "other")),
            sent(2, kind::QUEUED, 0x22, named(8, "sender")),
            plain(begin(5, kind::VECTOR, call)),
            plain(event(6, kind::CALL, edge::BEGIN, 0xf1, 0x22)),
            plain(end(8, kind::CALL, 0)),
            plain(end(9, kind::VECTOR, call)),
        ];
        let sender = Sender { tid: 8, tgid: 8, comm: "sender".into(), call: None, place: 0xabc };
        assert_eq!(taken(&events), [(Cause::Call { function: 0xf1, sender: Some(sender) }, 5, 9, 4)]);
    }

    #[test]
    fn a_call_that_the_thread_makes_itself_takes_nothing() {
        let events = [event(6, kind::CALL, edge::BEGIN, 0, 0), end(8, kind::CALL, 0)];
        assert_eq!(taken(&events.map(plain)), []);
    }

    #[test]
    fn a_reschedule_is_charged_to_the_last_sender() {
        let vector = Vector::Reschedule as u64;
        let events = [
            sent(1, kind::SENT, 0, named(7, "earlier")),
            sent(2, kind::SENT, 0x99, named(9, "a call")),
            sent(3, kind::SENT, 0, named(8, "waker")),
            plain(begin(5, kind::VECTOR, vector)),
            plain(end(9, kind::VECTOR, vector)),
        ];
        let all = taken(&events);
        let [(Cause::Reschedule { sender: Some(sender) }, 5, 9, 4)] = &all[..] else { panic!("{all:?}") };
        assert_eq!(sender.comm, "waker");
    }

    #[test]
    fn the_wait_of_a_preempted_thread_is_charged_to_those_that_ran() {
        let (out, into) = (switch::OUT_FOLLOWED | switch::OUT_RUNNABLE, switch::IN_FOLLOWED);
        let events = [
            switched(10, CPU, TID.into(), named(5, "first"), out),
            switched(14, CPU, 5, named(6, "kworker"), 0),
            plain(event(15, kind::WORK, edge::POINT, 0xe, 0)),
            switched(20, CPU, 6, named(TID, "loop"), into),
        ];
        let first = Cause::Thread { tid: 5, comm: "first".into() };
        // From its arrival on, the kernel thread was there because of its work item.
        assert_eq!(taken(&events), [(first, 10, 14, 4), (Cause::Work { function: 0xe }, 14, 20, 6)]);
    }

    #[test]
    fn a_blocked_thread_waits_for_nobody() {
        let events = [
            switched(10, CPU, TID.into(), named(5, "first"), switch::OUT_FOLLOWED),
            switched(20, CPU, 5, named(TID, "loop"), switch::IN_FOLLOWED),
        ];
        assert_eq!(taken(&events), []);
    }

    #[test]
    fn a_thread_that_ran_before_it_had_a_name_is_one_cause() {
        let (out, into) = (switch::OUT_FOLLOWED | switch::OUT_RUNNABLE, switch::IN_FOLLOWED);
        let moved = Event { cpu: ELSEWHERE, ..event(13, kind::MOVED, edge::POINT, 0, 0) };
        let events = [
            switched(10, CPU, TID.into(), named(5, "first"), out),
            plain(moved),
            // No event has named thread 6 when it leaves.
            switched(20, ELSEWHERE, 6, named(TID, "loop"), into),
            switched(30, ELSEWHERE, TID.into(), named(6, "second"), out),
            switched(50, ELSEWHERE, 6, named(TID, "loop"), into),
        ];
        let [first, second] = [(5, "first"), (6, "second")].map(|(tid, comm)| Cause::Thread { tid, comm: comm.into() });
        assert_eq!(taken(&events), [(first, 10, 13, 3), (second.clone(), 13, 20, 7), (second, 30, 50, 20)]);
    }

    #[test]
    fn a_thread_that_is_moved_waits_for_the_other_cpu() {
        let (out, into) = (switch::OUT_FOLLOWED | switch::OUT_RUNNABLE, switch::IN_FOLLOWED);
        let moved = Event { cpu: ELSEWHERE, ..event(13, kind::MOVED, edge::POINT, 0, 0) };
        let events = [
            switched(10, CPU, TID.into(), named(5, "first"), out),
            plain(moved),
            // What ran elsewhere is known only when it leaves; its name is known from before.
            switched(21, ELSEWHERE, 5, named(TID, "loop"), into),
        ];
        let first = Cause::Thread { tid: 5, comm: "first".into() };
        assert_eq!(taken(&events), [(first.clone(), 10, 13, 3), (first, 13, 21, 8)]);
    }

    #[test]
    fn an_arrival_that_was_not_traced_ends_the_wait() {
        let (out, into) = (switch::OUT_FOLLOWED | switch::OUT_RUNNABLE, switch::IN_FOLLOWED);
        let events = [
            switched(10, CPU, TID.into(), named(5, "first"), out),
            switched(16, CPU, switch::OUT_UNKNOWN, named(TID, "loop"), into),
            switched(30, CPU, TID.into(), named(5, "first"), out),
            switched(33, CPU, 5, named(TID, "loop"), into),
        ];
        let first = Cause::Thread { tid: 5, comm: "first".into() };
        assert_eq!(taken(&events), [(first.clone(), 10, 16, 6), (first, 30, 33, 3)]);
    }

    /// The end of a tick, the next tick's begin, and a thread's return were lost: neither a long tick nor a long wait comes of it.
    #[test]
    fn what_was_under_way_at_a_loss_is_forgotten() {
        let after = |event: Event| Event { edge: event.edge | edge::AFTER_LOSS, ..event };
        let out = switch::OUT_FOLLOWED | switch::OUT_RUNNABLE;
        let (come, named_come) = switched(9_000, CPU, 5, named(6, "second"), 0);
        let events = [
            plain(begin(10, kind::VECTOR, TIMER)),
            plain(after(end(4_000_010, kind::VECTOR, TIMER))),
            plain(begin(8_000_000, kind::VECTOR, TIMER)),
            plain(end(8_000_007, kind::VECTOR, TIMER)),
        ];
        assert_eq!(taken(&events), [(Cause::Vector(Vector::LocalTimer), 8_000_000, 8_000_007, 7)]);
        let events = [switched(10, CPU, TID.into(), named(5, "first"), out), (after(come), named_come)];
        assert_eq!(taken(&events), []);
    }

    /// The thread has come back without an event. What ran before is not known, but it is not the thread itself.
    #[test]
    fn a_thread_that_leaves_has_not_waited() {
        let out = switch::OUT_FOLLOWED | switch::OUT_RUNNABLE;
        let events = [
            switched(10, CPU, TID.into(), named(5, "first"), out),
            switched(500, CPU, TID.into(), named(6, "second"), out),
            switched(510, CPU, 6, named(TID, "loop"), switch::IN_FOLLOWED),
        ];
        assert_eq!(taken(&events), [(Cause::Thread { tid: 6, comm: "second".into() }, 500, 510, 10)]);
    }

    #[test]
    fn a_page_fault_does_not_count_what_interrupted_it() {
        let out = switch::OUT_FOLLOWED | switch::OUT_RUNNABLE;
        let fault = Event { edge: fault::USER | fault::MAJOR, ..event(40, kind::FAULT, edge::POINT, 10, 77) };
        let events = [
            plain(begin(12, kind::IRQ, 36)),
            plain(end(16, kind::IRQ, 36)),
            switched(20, CPU, TID.into(), named(5, "first"), out),
            switched(33, CPU, 5, named(TID, "loop"), switch::IN_FOLLOWED),
            plain(fault),
        ];
        let all = taken(&events);
        assert_eq!(all[2], (Cause::Fault { in_kernel: false, major: true }, 10, 40, 30 - 4 - 13));
        assert_eq!(all.iter().map(|(.., inside)| inside).sum::<u64>(), 30);
    }

    #[test]
    fn an_account_sums_what_ends_in_its_window() {
        let mut all = Interference::default();
        let mut account = Account::new(20, 40);
        for begin_ns in [5, 15, 25, 38] {
            let events = [begin(begin_ns, kind::IRQ, 36), end(begin_ns + 6, kind::IRQ, 36)];
            events.iter().flat_map(|event| all.push(event, None)).for_each(|interval| account.take(&interval));
        }
        let sums = account.of_thread(TID);
        assert_eq!((sums.len(), sums[0].1.inside_ns, sums[0].1.lengths.count()), (1, 12, 2));
        assert_eq!(account.total()[0].1, *sums[0].1);
        assert_eq!(account.threads(), [TID]);
        assert!(account.of_thread(TID + 1).is_empty());
    }
}
