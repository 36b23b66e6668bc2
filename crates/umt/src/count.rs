//! Turns a thread's log of switches into counts for each CPU. Pure; used by [`logs`](crate::logs).
//!
//! Each record tells the thread's state just before the switch and just after it:
//!
//! | record, on CPU c | before | after |
//! |---|---|---|
//! | in | | ready on c |
//! | out, preempted | ready on c | ready on c |
//! | out | ready on c | blocked |
//!
//! If the known state differs from the record's *before*, the difference is counted first: a thread that was ready on another CPU has
//! moved, and a thread that was blocked or unknown has unblocked. So even if records are missing, *unblocked − blocked of a CPU is the
//! number of threads that are ready there*, according to the last records. Missing records only remove pairs of one block and one unblock.

#![forbid(unsafe_code)]

use umt_client::records::{Kind, Switch};
use wire::umt::Moves;

/// The counters of all CPUs.
#[derive(Clone, Debug)]
pub struct Tally(Vec<Moves>);

/// Where a thread is, according to the records read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whereabouts {
    /// Blocked, not yet known, or ended.
    #[default]
    Away,
    /// Running or queued on this CPU.
    Ready(u32),
}

impl Tally {
    /// Makes the counters of `cpus` CPUs.
    pub fn new(cpus: usize) -> Tally {
        Tally(vec![Moves::default(); cpus])
    }

    /// Returns the counts of a CPU; zeros for an unknown CPU.
    pub fn on(&self, cpu: usize) -> Moves {
        self.0.get(cpu).copied().unwrap_or_default()
    }

    fn block(&mut self, cpu: u32) {
        if let Some(moves) = self.0.get_mut(cpu as usize) {
            moves.blocked = moves.blocked.wrapping_add(1);
        }
    }

    fn unblock(&mut self, cpu: u32) {
        if let Some(moves) = self.0.get_mut(cpu as usize) {
            moves.unblocked = moves.unblocked.wrapping_add(1);
        }
    }
}

impl Whereabouts {
    /// Applies the next record of the thread's log, and adds the blocks and unblocks that it shows to `tally`.
    pub fn goes_on(&mut self, switch: Switch, tally: &mut Tally) {
        self.is_ready(switch.cpu, tally);
        if switch.kind == Kind::Blocked {
            self.ends(tally);
        }
    }

    /// Called when the thread has blocked or ended. If it was ready until now, counts a block on its CPU.
    pub fn ends(&mut self, tally: &mut Tally) {
        if let Whereabouts::Ready(cpu) = std::mem::take(self) {
            tally.block(cpu);
        }
    }

    fn is_ready(&mut self, cpu: u32, tally: &mut Tally) {
        let before = std::mem::replace(self, Whereabouts::Ready(cpu));
        if before == *self {
            return;
        }
        tally.unblock(cpu);
        if let Whereabouts::Ready(elsewhere) = before {
            tally.block(elsewhere);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CPUS: u32 = 3;

    /// What a thread does next: it blocks or is preempted, and is switched in again on `cpu`.
    #[derive(Clone, Copy, Debug)]
    struct Act {
        blocks: bool,
        cpu: u32,
        is_lost: bool,
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = (any::<bool>(), 0..CPUS, prop::bool::weighted(0.2));
        prop::collection::vec(act.prop_map(|(blocks, cpu, is_lost)| Act { blocks, cpu, is_lost }), 0..60)
    }

    /// Returns the records that the kernel would write for a thread that does `acts`: alternately a switch-out and a switch-in. With each record,
    /// whether the test loses it.
    fn records(acts: &[Act]) -> Vec<(Switch, bool)> {
        let (mut here, mut all) = (0, Vec::new());
        for act in acts {
            let out = if act.blocks { Kind::Blocked } else { Kind::Preempted };
            all.push((Switch { kind: out, cpu: here, time_ns: 0 }, act.is_lost));
            here = act.cpu;
            all.push((Switch { kind: Kind::In, cpu: here, time_ns: 0 }, act.is_lost));
        }
        all
    }

    fn sum(tally: &Tally) -> (u32, u32) {
        tally.0.iter().fold((0, 0), |(blocked, unblocked), on| (blocked + on.blocked, unblocked + on.unblocked))
    }

    proptest! {
        #[test]
        fn ready_threads_are_the_difference_whatever_is_lost(threads in prop::collection::vec(acts(), 1..4), ended: usize) {
            let mut tally = Tally::new(CPUS as usize);
            let mut places = Vec::new();
            for acts in &threads {
                let mut place = Whereabouts::default();
                let kept = records(acts).into_iter().filter(|(_, is_lost)| !is_lost);
                kept.for_each(|(switch, _)| place.goes_on(switch, &mut tally));
                places.push(place);
            }
            let at = ended % places.len();
            places[at].ends(&mut tally);
            for cpu in 0..CPUS {
                let ready = places.iter().filter(|place| **place == Whereabouts::Ready(cpu)).count();
                prop_assert_eq!(tally.on(cpu as usize).ready(), ready as i32);
            }
        }

        #[test]
        fn each_block_counts_once_where_it_is_and_each_move_where_it_goes(acts in acts()) {
            let (mut tally, mut place) = (Tally::new(CPUS as usize), Whereabouts::default());
            records(&acts).into_iter().for_each(|(switch, _)| place.goes_on(switch, &mut tally));
            // The expected counts, computed independently: the first record makes the thread ready on CPU 0.
            let (mut blocked, mut unblocked, mut here) = ([0; CPUS as usize], [0; CPUS as usize], 0);
            unblocked[0] += u32::from(!acts.is_empty());
            for act in &acts {
                if act.blocks || act.cpu != here {
                    blocked[here as usize] += 1;
                    unblocked[act.cpu as usize] += 1;
                }
                here = act.cpu;
            }
            for cpu in 0..CPUS as usize {
                let expected = Moves { blocked: blocked[cpu], unblocked: unblocked[cpu] };
                prop_assert_eq!(tally.on(cpu), expected);
            }
        }

        #[test]
        fn preemption_where_one_stays_counts_nothing(times in 0..50usize) {
            let acts = vec![Act { blocks: false, cpu: 0, is_lost: false }; times];
            let (mut tally, mut place) = (Tally::new(CPUS as usize), Whereabouts::default());
            records(&acts).into_iter().for_each(|(switch, _)| place.goes_on(switch, &mut tally));
            prop_assert_eq!(sum(&tally), (0, u32::from(times > 0)));
        }
    }

    #[test]
    fn a_cpu_that_is_unknown_is_left_out() {
        let (mut tally, mut place) = (Tally::new(1), Whereabouts::default());
        place.goes_on(Switch { kind: Kind::In, cpu: 7, time_ns: 0 }, &mut tally);
        place.goes_on(Switch { kind: Kind::Blocked, cpu: 0, time_ns: 0 }, &mut tally);
        assert_eq!((tally.on(0), tally.on(7)), (Moves { blocked: 1, unblocked: 1 }, Moves::default()));
    }
}
