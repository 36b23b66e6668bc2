//! Trace events made by hand, and random changes to them.

use wire::{Cause, Left, Migration, Moment, What};

use crate::Random;
use crate::text::change_order;

/// Returns trace events of every kind for three threads of one process, whose IDs begin with `first`, and for an untracked thread, 7. One event in
/// nine reports that three events were lost.
#[must_use]
pub fn some(count: u64, first: u32) -> Vec<Moment> {
    let moment = |n: u64| {
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
        Moment::new(1_000 + n * 700, (n % 2) as u16, what)
    };
    (0..count).map(moment).collect()
}

/// Changes fields of some events, their order and their number.
pub fn change(moments: &mut Vec<Moment>, random: &mut Random) {
    for _ in 0..=random.below(6) {
        if random.one_in(3) {
            change_order(moments, random);
            continue;
        }
        let at = random.below(moments.len());
        let Some(moment) = moments.get_mut(at) else { return };
        match random.below(9) {
            0 => moment.t_ns = random.nasty(),
            1 => moment.t_ns = moment.t_ns.wrapping_add(random.nasty()),
            2 => moment.tid = random.nasty() as u32,
            3 => moment.other = random.nasty() as u32,
            4 => moment.cpu = random.nasty() as u16,
            5 => moment.kind = random.below(12) as u8,
            6 => moment.detail = random.nasty() as u8,
            7 => moment.more = random.nasty() as u32,
            _ => std::mem::swap(&mut moment.tid, &mut moment.other),
        }
    }
}
