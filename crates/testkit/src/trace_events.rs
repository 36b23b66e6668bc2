//! Trace events made by hand, and random changes to them.

use wire::{Cause, Left, Migration, TraceEvent, What};

use crate::Random;
use crate::text::change_order;

/// Returns trace events of every kind for three threads of one process, whose IDs begin with `first`, and for an untracked thread, 7. One event in
/// nine reports that three events were lost.
#[must_use]
pub fn some(count: u64, first: u32) -> Vec<TraceEvent> {
    let trace_event = |n: u64| {
        let tid = first + (n % 3) as u32;
        let what = match n % 9 {
            0 => What::Born { tid, tgid: first, parent_tgid: 1 },
            1 => What::Enrolled { tid, tgid: first, blocked: Some(Cause::Poll) },
            2 => What::Waking { tid, waker: 0, last_cpu: 1 },
            3 => What::Migration { tid, from: 0, kind: Migration::AtWakeup },
            4 => What::Exec { tid, caller: tid + 1 },
            5 => What::Arrived { tid },
            6 => What::Why { tid, cause: Cause::Disk },
            7 => What::Lost { count: 3 },
            _ => What::Switch {
                out: tid,
                left: if n.is_multiple_of(4) {
                    Left::Preempted { yielded: n.is_multiple_of(8) }
                } else {
                    Left::Blocked(None)
                },
                out_is_member: true,
                into: if n.is_multiple_of(2) { 7 } else { first },
                in_is_member: n % 2 == 1,
                in_cause: Some(Cause::Futex),
            },
        };
        TraceEvent::new(1_000 + n * 700, (n % 2) as u16, what)
    };
    (0..count).map(trace_event).collect()
}

/// Changes fields of some events, their order and their number.
pub fn change(trace_events: &mut Vec<TraceEvent>, random: &mut Random) {
    for _ in 0..=random.below(6) {
        if random.one_in(3) {
            change_order(trace_events, random);
            continue;
        }
        let at = random.below(trace_events.len());
        let Some(trace_event) = trace_events.get_mut(at) else { return };
        match random.below(9) {
            0 => trace_event.t_ns = random.nasty(),
            1 => trace_event.t_ns = trace_event.t_ns.wrapping_add(random.nasty()),
            2 => trace_event.tid = random.nasty() as u32,
            3 => trace_event.other = random.nasty() as u32,
            4 => trace_event.cpu = random.nasty() as u16,
            5 => trace_event.kind = random.below(12) as u8,
            6 => trace_event.detail = random.nasty() as u8,
            7 => trace_event.more = random.nasty() as u32,
            _ => std::mem::swap(&mut trace_event.tid, &mut trace_event.other),
        }
    }
}
