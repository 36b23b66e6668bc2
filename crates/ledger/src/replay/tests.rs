//! Threads described event by event, and the clocks that `Replay` computes from the events.

use super::*;
use wire::Migration;
use wire::latency::LONGEST;

fn at(t_ns: u64, tid: u32, kind: EventKind) -> Event {
    Event { t_ns, tid, kind }
}

fn born(tgid: u32) -> EventKind {
    EventKind::Born { tgid, parent_tgid: 7 }
}

fn switched_in() -> EventKind {
    EventKind::In { cpu: 2 }
}

fn out(left: Left) -> EventKind {
    EventKind::Out { left }
}

fn blocked(cause: Cause) -> EventKind {
    out(Left::Blocked(Some(cause)))
}

fn named(comm: &str, exec: bool) -> EventKind {
    EventKind::Named { comm: comm.into(), exec }
}

fn replayed(events: Vec<Event>, end_ns: u64) -> Vec<Clock> {
    let mut replay = Replay::new();
    events.into_iter().for_each(|event| replay.push(event));
    let clocks = replay.finish(end_ns);
    assert!(clocks.iter().all(Clock::is_whole), "{clocks:#?}");
    clocks
}

fn alive(c: &Clock) -> bool {
    c.state != State::Dead as u8
}

fn a_life() -> Vec<Event> {
    vec![
        at(100, 5, born(4)),
        at(110, 5, switched_in()),
        at(150, 5, out(Left::Preempted { yielded: true })),
        at(170, 5, switched_in()),
        at(200, 5, blocked(Cause::Disk)),
        at(260, 5, EventKind::Waking { waker: 9 }),
        at(262, 5, EventKind::Waking { waker: 8 }), // already woken
        at(265, 5, EventKind::Migrated { cpu: 3, kind: Migration::AtWakeup }),
        at(280, 5, EventKind::In { cpu: 3 }),
        at(300, 5, EventKind::Exit),
        at(310, 5, out(Left::Dead)),
    ]
}

#[test]
fn a_life_is_booked_state_by_state() {
    let clocks = replayed(a_life(), 1_000);
    let [c] = clocks[..] else { panic!("{clocks:?}") };
    assert_eq!((c.tid, c.tgid, c.parent_tgid), (5, 4, 7));
    assert_eq!((c.born_ns, c.since_ns, alive(&c)), (100, 310, false));
    assert_eq!((c.run_ns, c.wake_delay_ns, c.preempt_wait_ns, c.yield_wait_ns), (100, 30, 20, 20));
    assert_eq!((c.blocked_ns[Cause::Disk as usize], c.unknown_ns), (60, 0));
    assert_eq!((c.switches_voluntary, c.switches_involuntary, c.wakeups), (1, 1, 2));
    assert_eq!((c.migrations, c.impossible), ([1, 0, 0], 0));
    assert_eq!((c.cpu_id[..2].to_vec(), c.cpu_run_ns[..2].to_vec()), (vec![3, 4], vec![70, 30]));
}

#[test]
fn order_of_arrival_does_not_matter_before_the_advance() {
    let mut backwards = Replay::new();
    a_life().into_iter().rev().for_each(|event| backwards.push(event));
    assert_eq!(backwards.finish(1_000), replayed(a_life(), 1_000));
    assert_eq!(backwards.events(), 11);
    assert_eq!(backwards.pairs(), [(Pair { waker: 9, wakee: 5 }, PairSum { count: 1, blocked_ns: 60 })]);
}

#[test]
fn what_arrives_after_its_time_was_passed_is_applied() {
    let mut replay = Replay::new();
    replay.push(at(100, 5, born(4)));
    replay.push(at(200, 5, blocked(Cause::Pipe)));
    replay.advance(200);
    replay.push(at(110, 5, switched_in()));
    let c = replay.finish(300)[0];
    assert!(c.is_whole());
    assert_eq!((c.wake_delay_ns, c.run_ns, c.blocked_ns[Cause::Pipe as usize]), (10, 90, 100));
}

#[test]
fn without_wakings_the_wake_delay_is_inside_blocked() {
    let events = a_life().into_iter().filter(|event| !matches!(event.kind, EventKind::Waking { .. })).collect();
    let c = replayed(events, 1_000)[0];
    assert_eq!((c.blocked_total_ns(), c.wake_delay_ns, c.wakeups), (80, 10, 2));
}

#[test]
fn a_block_that_began_before_its_thread_was_enrolled_is_no_interval() {
    let mut replay = Replay::new().with_latencies(false);
    let woken = EventKind::Waking { waker: 9 };
    let events = [
        at(100, 5, EventKind::Enrolled { tgid: 4, blocked: Some(Cause::Futex) }),
        at(160, 5, woken.clone()),
        at(170, 5, switched_in()),
        at(180, 5, blocked(Cause::Disk)),
        at(200, 5, woken),
        at(230, 5, switched_in()),
    ];
    events.into_iter().for_each(|event| replay.push(event));
    assert_eq!(replay.finish(300)[0].blocked_total_ns(), 80);
    let counted = |kind: Interval| {
        let counts = replay.latencies().into_iter().filter(move |count| count.interval == kind as u16);
        counts.filter(|count| count.bucket != LONGEST).map(|count| (count.bucket, count.count)).collect::<Vec<_>>()
    };
    assert_eq!(counted(Interval::Blocked), [(20, 1)]);
    assert_eq!(counted(Interval::WakeDelay), [(10, 1), (30, 1)]);
}

#[test]
fn an_unknown_thread_is_met_alive_and_unknown_until_its_first_switch() {
    let c = replayed(vec![at(50, 5, EventKind::Waking { waker: 0 }), at(80, 5, switched_in())], 100)[0];
    assert_eq!((c.born_ns, c.unknown_ns, c.run_ns, c.tgid), (50, 30, 20, 5));
    assert_eq!((c.flags, alive(&c)), (wire::layout::ENROLLED_ALIVE, true));
}

#[test]
fn a_birth_or_enrolment_seen_late_completes_an_implied_clock() {
    for kind in [born(4), EventKind::Enrolled { tgid: 4, blocked: None }] {
        let clocks = replayed(vec![at(50, 5, switched_in()), at(60, 5, kind)], 100);
        assert_eq!(clocks.len(), 1);
        assert_eq!((clocks[0].tgid, clocks[0].run_ns), (4, 50));
    }
}

#[test]
fn enrolling_a_known_thread_changes_nothing() {
    let mut events = a_life();
    events.push(at(120, 5, EventKind::Enrolled { tgid: 4, blocked: None }));
    assert_eq!(replayed(events, 1_000), replayed(a_life(), 1_000));
}

#[test]
fn a_reused_id_is_another_thread() {
    let mut events = a_life();
    events.extend([at(400, 5, born(8)), at(410, 5, switched_in())]);
    let clocks = replayed(events, 500);
    assert_eq!(
        clocks.iter().map(|c| (c.tid, c.tgid, c.born_ns, c.since_ns)).collect::<Vec<_>>(),
        [(5, 4, 100, 310), (5, 8, 400, 500)]
    );
    // The death of the first was lost: it ends at its last event, and is not impossible.
    let clocks = replayed(vec![at(100, 5, born(4)), at(150, 5, switched_in()), at(400, 5, born(8))], 500);
    assert_eq!((clocks[0].since_ns, alive(&clocks[0]), clocks[1].born_ns), (150, false, 400));
    // The birth of the second was lost.
    let mut events = a_life();
    events.extend([at(400, 5, switched_in())]);
    let clocks = replayed(events, 500);
    assert_eq!((clocks[1].born_ns, clocks[1].run_ns, clocks[1].tgid), (400, 100, 5));
}

#[test]
fn late_copies_do_not_raise_the_dead() {
    let mut events = a_life();
    events.extend([at(305, 5, switched_in()), at(400, 5, blocked(Cause::Futex)), at(410, 5, EventKind::Exit)]);
    let mut replay = Replay::new();
    events.into_iter().for_each(|event| {
        replay.push(event);
        replay.advance(311);
    });
    let clocks = replay.finish(500);
    assert_eq!((clocks.len(), clocks[0].since_ns, clocks[0].impossible), (1, 310, 2));
}

#[test]
fn an_exit_ends_a_thread_whose_last_switch_is_not_reported() {
    let c = replayed(a_life().into_iter().take(10).collect(), 1_000)[0];
    assert_eq!((c.since_ns, c.run_ns, alive(&c)), (300, 90, false));
    // perf reports the last switch-out, if at all, as an ordinary one.
    let mut events = a_life();
    events[10].kind = blocked(Cause::Unspecified);
    let c = replayed(events, 1_000)[0];
    assert_eq!((c.since_ns, c.run_ns, alive(&c), c.switches_voluntary), (310, 100, false, 1));
    // Exit proves that it ran, not since when or where: run time is only what a CPU is known for.
    let c = replayed(vec![at(100, 5, born(4)), at(150, 5, EventKind::Exit), at(160, 5, out(Left::Dead))], 500)[0];
    assert_eq!((c.unknown_ns, c.run_ns, c.elsewhere_run_ns, c.impossible), (60, 0, 0, 1));
}

#[test]
fn after_exec_the_caller_goes_on_under_the_id_of_the_process() {
    let clocks = replayed(
        vec![
            at(0, 4, born(4)),
            at(0, 4, switched_in()),
            at(10, 5, born(4)),
            at(10, 6, born(4)),
            at(10, 9, born(9)),
            at(20, 4, blocked(Cause::Futex)),
            at(20, 6, switched_in()),
            at(25, 9, EventKind::In { cpu: 3 }),
            at(30, 4, named("new-name-longer-than-15", true)),
            at(50, 4, blocked(Cause::Pipe)),
        ],
        100,
    );
    let of: Vec<_> = clocks.iter().map(|c| (c.tid, c.born_ns, c.since_ns, alive(c), c.comm())).collect();
    let renamed = "new-name-longer".to_owned();
    let none = String::new;
    assert_eq!(
        of,
        [
            (4, 0, 20, false, none()),
            (4, 10, 100, true, renamed),
            (5, 10, 10, false, none()),
            (9, 10, 100, true, none())
        ]
    );
    assert_eq!((clocks[1].run_ns, clocks[1].blocked_ns[Cause::Pipe as usize]), (30, 50));
    assert_eq!(clocks[1].flags, EXECED);
}

#[test]
fn exec_of_the_first_thread_keeps_its_clock() {
    let clocks = replayed(vec![at(0, 4, born(4)), at(5, 4, switched_in()), at(9, 4, named("x", true))], 20);
    assert_eq!((clocks.len(), clocks[0].run_ns, clocks[0].comm()), (1, 15, "x".to_owned()));
    // Another one that still seems to run has lost its end.
    let clocks = replayed(
        vec![
            at(0, 4, born(4)),
            at(1, 5, born(4)),
            at(5, 4, switched_in()),
            at(6, 5, EventKind::In { cpu: 3 }),
            at(9, 4, named("x", true)),
        ],
        20,
    );
    assert_eq!(clocks.iter().map(|c| (c.tid, alive(c), c.run_ns)).collect::<Vec<_>>(), [(4, true, 15), (5, false, 0)]);
}

#[test]
fn what_comes_after_the_window_is_not_in_it() {
    let clocks = replayed(a_life(), 250);
    assert_eq!((clocks[0].since_ns, alive(&clocks[0]), clocks[0].wake_delay_ns), (250, true, 10));
    assert!(replayed(a_life(), 50).is_empty());
    let mut replay = Replay::new();
    a_life().into_iter().for_each(|event| replay.push(event));
    assert_eq!((replay.finish(250).len(), replay.finish(1_000).len()), (1, 0));
}

/// Who calls exec again and again would meet all of them each time.
#[test]
fn exec_leaves_nobody_to_look_at_but_the_first_thread() {
    let mut replay = Replay::new();
    replay.push(at(10, 4, born(4)));
    (5..100).for_each(|tid| replay.push(at(20, tid, born(4))));
    replay.push(at(30, 7, switched_in()));
    replay.push(at(40, 4, named("new", true)));
    replay.advance(50);
    assert_eq!(replay.members[&4], BTreeSet::from([4]));
    assert_eq!(replay.present[&4].clock.born_ns, 20, "the caller goes on");
}

#[test]
fn an_id_that_is_used_again_may_be_blocked_for_centuries_each_time() {
    let mut replay = Replay::new();
    for _ in 0..3 {
        let life = [born(4), switched_in(), blocked(Cause::Disk), EventKind::Waking { waker: 9 }];
        for (t_ns, kind) in [1, 2, 3, u64::MAX - 5].into_iter().zip(life) {
            replay.push(at(t_ns, 5, kind));
        }
        // Times of the next one are late.
        replay.advance(u64::MAX);
    }
    assert_eq!(replay.pairs()[0].1, PairSum { count: 3, blocked_ns: u64::MAX });
}

fn had(cpu: u16) -> EventKind {
    EventKind::Had { cpu }
}

/// Each row of the table in `cpus`: what is unknown and what is run, of thread 4, and how often something contradicts.
#[test]
fn a_cpu_runs_one_thread_at_a_time() {
    let told = |more: Vec<Event>| {
        let mut events = vec![at(0, 4, born(4)), at(0, 5, born(4)), at(10, 4, switched_in())];
        events.extend(more);
        let clocks = replayed(events, 100);
        let c = clocks.iter().find(|c| c.tid == 4).unwrap();
        (c.unknown_ns, c.run_ns, c.impossible)
    };
    assert_eq!(told(vec![at(30, 4, had(2)), at(30, 4, blocked(Cause::Disk))]), (0, 20, 0), "as it should be");
    assert_eq!(told(vec![at(50, 5, switched_in())]), (90, 0, 1), "another one comes to its CPU");
    assert_eq!(told(vec![at(50, 0, had(2))]), (90, 0, 1), "the CPU was idle");
    assert_eq!(
        told(vec![at(50, 5, had(2)), at(70, 4, had(2)), at(70, 4, blocked(Cause::Disk))]),
        (60, 0, 1),
        "until its next event"
    );
    assert_eq!(told(vec![at(50, 4, had(3)), at(50, 4, blocked(Cause::Disk))]), (40, 0, 1), "it leaves another CPU");
    assert_eq!(told(vec![at(50, 4, EventKind::In { cpu: 3 })]), (40, 50, 1), "it comes to another CPU");
    // Told late: another one has had the CPU until 60.
    let mut replay = Replay::new();
    for event in [at(0, 5, born(4)), at(10, 5, switched_in()), at(60, 5, blocked(Cause::Disk))] {
        replay.push(event);
    }
    replay.advance(70);
    for event in [at(20, 4, born(4)), at(40, 4, switched_in()), at(80, 4, blocked(Cause::Disk))] {
        replay.push(event);
    }
    let clocks = replay.finish(100);
    let c = clocks.iter().find(|c| c.tid == 4).unwrap();
    assert_eq!((c.unknown_ns, c.run_ns, c.impossible), (20, 20, 1));
}
