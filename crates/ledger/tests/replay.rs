//! `Replay` with events in any order, possible and impossible: no thread is lost, no time is negative, and states sum to wall time.

use std::collections::{BTreeMap, BTreeSet};

use ledger::replay::Replay;
use ledger::stretch::{Doing, Stretch};
use proptest::prelude::*;
use wire::{Cause, Clock, Event, EventKind, Left, Migration, State};

fn cause() -> impl Strategy<Value = Cause> {
    prop::sample::select(Cause::ALL.to_vec())
}

fn kind() -> impl Strategy<Value = EventKind> {
    let id = 0u32..6;
    let left = prop_oneof![
        any::<bool>().prop_map(|yielded| Left::Preempted { yielded }),
        prop::option::of(cause()).prop_map(Left::Blocked),
        Just(Left::Dead),
    ];
    prop_oneof![
        1 => (id.clone(), id.clone()).prop_map(|(tgid, parent_tgid)| EventKind::Born { tgid, parent_tgid }),
        1 => (id.clone(), prop::option::of(cause())).prop_map(|(tgid, blocked)| EventKind::Enrolled { tgid, blocked }),
        1 => cause().prop_map(|cause| EventKind::Why { cause }),
        1 => id.clone().prop_map(|caller| EventKind::Exec { caller }),
        3 => id.prop_map(|waker| EventKind::Waking { waker }),
        5 => (0u16..40).prop_map(|cpu| EventKind::In { cpu }),
        5 => left.prop_map(|left| EventKind::Out { left }),
        1 => (0u16..40, prop::sample::select(Migration::ALL.to_vec()))
            .prop_map(|(cpu, kind)| EventKind::Migrated { cpu, kind }),
        1 => (prop::sample::select(vec!["", "a", "nul\0", "a name of more than 15", "täglich täglich"]), any::<bool>()).prop_map(|(comm, exec)| EventKind::Named { comm: comm.to_owned(), exec }),
        1 => Just(EventKind::Exit),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let time = prop_oneof![9 => 0u64..2_000, 1 => Just(u64::MAX)];
    prop::collection::vec((time, 0u32..6, kind()).prop_map(|(t_ns, tid, kind)| Event { t_ns, tid, kind }), 0..80)
}

/// What must hold of the clocks whatever the events were.
fn accounted(events: &[Event], clocks: &[Clock], end_ns: u64) -> Result<(), TestCaseError> {
    for c in clocks {
        prop_assert!(c.is_whole(), "{c:?}");
        prop_assert!(c.since_ns <= end_ns, "{c:?}");
        prop_assert!(c.state == State::Dead as u8 || c.since_ns == end_ns, "open: {c:?}");
        prop_assert!(c.yield_wait_ns <= c.preempt_wait_ns);
        prop_assert_eq!(c.cpu_run_ns.iter().sum::<u64>() + c.elsewhere_run_ns, c.run_ns);
        prop_assert!(c.tgid != 0 || c.tid == 0, "no process: {c:?}");
    }
    let listed: BTreeSet<u32> = clocks.iter().map(|c| c.tid).collect();
    let in_window = || events.iter().filter(|e| e.t_ns <= end_ns);
    // Why somebody is blocked who was never met is nobody's.
    let meets = |e: &&Event| !matches!(e.kind, EventKind::Why { .. });
    let seen: BTreeSet<u32> = in_window().filter(meets).map(|e| e.tid).collect();
    let execs =
        in_window().filter(|e| matches!(e.kind, EventKind::Named { exec: true, .. } | EventKind::Exec { .. })).count();
    prop_assert!(listed.is_subset(&seen));
    // An exec may take the id of its caller away.
    prop_assert!(listed.len() + execs >= seen.len(), "{seen:?} seen, {listed:?} listed");
    // A life needs a first event of its id, a start, or an exec that gave its id away.
    let starts =
        |e: &&Event| matches!(e.kind, EventKind::Born { .. } | EventKind::Enrolled { .. } | EventKind::In { .. });
    prop_assert!(clocks.len() <= seen.len() + in_window().filter(starts).count() + execs);
    Ok(())
}

/// Run, wake delay, preempted, yielded, unknown; then blocked by cause.
type Sums = ([u64; 5], [u64; Cause::ALL.len()]);

fn sums(life: &[Stretch]) -> Sums {
    let mut sums: Sums = Default::default();
    for stretch in life {
        let sum = match stretch.doing {
            Doing::Run => &mut sums.0[0],
            Doing::WakeDelay => &mut sums.0[1],
            Doing::Preempted { yielded: false } => &mut sums.0[2],
            Doing::Preempted { yielded: true } => &mut sums.0[3],
            Doing::Unknown => &mut sums.0[4],
            Doing::Blocked(cause) => &mut sums.1[cause as usize],
        };
        *sum += stretch.length_ns();
    }
    sums.0[4] += sums.1.iter().sum::<u64>();
    sums
}

/// The same of a clock. With the blocked time in the last sum once more: nobody is left out who was only that.
fn kept(c: &Clock) -> Sums {
    let preempted_ns = c.preempt_wait_ns - c.yield_wait_ns;
    let blocked_ns = c.blocked_ns.iter().sum::<u64>();
    ([c.run_ns, c.wake_delay_ns, preempted_ns, c.yield_wait_ns, c.unknown_ns + blocked_ns], c.blocked_ns)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_events_leave_whole_clocks(events in events(), end_ns in 0u64..2_500, every in 1usize..20) {
        let mut replay = Replay::new();
        for (i, event) in events.iter().enumerate() {
            replay.push(event.clone());
            if i % every == 0 {
                replay.advance(event.t_ns.min(end_ns));
            }
        }
        let clocks = replay.finish(end_ns);
        accounted(&events, &clocks, end_ns)?;
        prop_assert_eq!(replay.events(), events.len() as u64);
        prop_assert!(replay.pairs().iter().all(|(_, sum)| sum.count > 0));
        // How many ran at a time, times how long, is how long all ran: also where events contradict one another.
        let levels = replay.levels();
        let open_ns = end_ns.wrapping_mul(levels.busy as u64);
        let busy_ns = levels.words.iter().fold(open_ns, |sum, word| sum.wrapping_add(*word));
        prop_assert_eq!(busy_ns, clocks.iter().map(|clock| clock.run_ns).sum::<u64>());
    }

    /// Of events that don't contradict one another: CPUs on which a thread comes and leaves in turn.
    #[test]
    fn levels_are_how_many_ran_at_a_time(steps in prop::collection::vec((0u16..4, 0u64..1_000), 1..100)) {
        let mut replay = Replay::new();
        let (mut busy, mut more_than_ns) = ([false; 4], [0u64; 4]);
        let start_ns = 1_000_000_000;
        let mut t_ns = start_ns;
        for (cpu, gap_ns) in steps {
            let count = busy.iter().filter(|busy| **busy).count();
            more_than_ns[..count].iter_mut().for_each(|ns| *ns += gap_ns);
            t_ns += gap_ns;
            let on = &mut busy[usize::from(cpu)];
            *on = !*on;
            let kind = if *on { EventKind::In { cpu } } else { EventKind::Out { left: Left::Blocked(Some(Cause::Futex)) } };
            replay.push(Event { t_ns, tid: 10 + u32::from(cpu), kind });
        }
        let open = busy.iter().filter(|busy| **busy).count();
        more_than_ns[..open].iter_mut().for_each(|ns| *ns += 77);
        let clocks = replay.finish(t_ns + 77);
        prop_assert_eq!(more_than_ns.iter().sum::<u64>(), clocks.iter().map(|clock| clock.run_ns).sum::<u64>());
        let mut levels = replay.levels().more_than_ns(start_ns, t_ns + 77).expect("possible times");
        levels.resize(4, 0);
        prop_assert_eq!(levels, more_than_ns);
    }

    /// What threads did from when to when is what their clocks say: no gap, no overlap, and the same sums.
    #[test]
    fn stretches_add_up_to_clocks(events in events(), end_ns in 0u64..2_500, every in 1usize..20) {
        let mut replay = Replay::with_stretches();
        let mut stretches = Vec::new();
        for (i, event) in events.iter().enumerate() {
            replay.push(event.clone());
            if i % every == 0 {
                replay.advance(event.t_ns.min(end_ns));
                stretches.extend(replay.take_stretches());
            }
        }
        let clocks = replay.finish(end_ns);
        stretches.extend(replay.take_stretches());
        let mut lives: BTreeMap<u32, Vec<Stretch>> = BTreeMap::new();
        stretches.iter().for_each(|stretch| lives.entry(stretch.life).or_default().push(*stretch));
        for life in lives.values() {
            prop_assert!(life.windows(2).all(|two| two[0].until_ns == two[1].from_ns), "a gap: {life:?}");
        }
        // Whose life is whose is not told; so all of them as sums, in an order that does not hang on it.
        let mut told: Vec<_> = lives.values().map(|life| sums(life)).collect();
        let mut kept: Vec<_> = clocks.iter().map(kept).filter(|sums| sums.0.iter().sum::<u64>() > 0).collect();
        told.sort();
        kept.sort();
        prop_assert_eq!(told, kept);
    }

    /// With distinct times and one advance at the end, only the times matter.
    #[test]
    fn arrival_order_is_forgotten(events in events(), seed in any::<u64>()) {
        let mut events: Vec<Event> = events;
        events.sort_by_key(|e| e.t_ns);
        events.dedup_by_key(|e| e.t_ns);
        let mut shuffled = events.clone();
        shuffled.sort_by_key(|e| (e.t_ns ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let play = |events: &[Event]| {
            let mut replay = Replay::new();
            events.iter().for_each(|event| replay.push(event.clone()));
            let clocks = replay.finish(2_500);
            (clocks, replay.pairs())
        };
        prop_assert_eq!(play(&events), play(&shuffled));
    }
}
