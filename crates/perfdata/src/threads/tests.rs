use wire::layout::comm_text;

use super::*;
use crate::event::{Raw, comm};

fn at(t_ns: u64, kind: Kind) -> Event {
    Event { t_ns, cpu: 1, pid: 50, tid: 51, kind }
}

fn switch(t_ns: u64, prev: u32, left: Left, next: u32) -> Event {
    let name = |tid: u32| comm(format!("t{tid}").as_bytes());
    at(t_ns, Kind::Switch { prev, prev_comm: name(prev), left, raw: Raw::Other, next, next_comm: name(next) })
}

fn told(threads: &mut Threads, events: &[Event]) -> Vec<(u64, What)> {
    let mut trace_events = Vec::new();
    for event in events {
        threads.take(event, |trace_event| trace_events.push((trace_event.t_ns, trace_event.what().unwrap())));
    }
    trace_events
}

/// The last name of the thread that had this id at that time.
fn last_name(threads: &Threads, tid: u32, born_ns: u64) -> Option<String> {
    Some(threads.comm(tid, born_ns)).filter(|comm| comm[0] != 0).map(|comm| comm_text(&comm))
}

const BLOCKED: Left = Left::Blocked(None);

#[test]
fn who_was_there_is_enrolled_at_the_first_event_in_its_process() {
    let mut threads = Threads::default();
    let there = [at(0, Kind::Comm { pid: 7, tid: 8, comm: comm(b"old"), exec: false })];
    assert_eq!(told(&mut threads, &there), []);
    let trace_events = told(&mut threads, &[switch(100, 0, BLOCKED, 8)]);
    assert_eq!(trace_events[0], (100, What::Enrolled { tid: 8, tgid: 7, blocked: None }));
    assert!(matches!(
        trace_events[1],
        (100, What::Switch { out: 0, out_is_member: false, into: 8, in_is_member: true, .. })
    ));
    assert_eq!(last_name(&threads, 8, 100).as_deref(), Some("t8"));
}

#[test]
fn a_birth_that_is_told_twice_is_one() {
    let mut threads = Threads::default();
    let x = comm(b"x");
    // Before the scheduler's events, it is one of those that were there.
    let early = at(5, Kind::Fork { pid: 7, parent_pid: 5, tid: 8, parent: 6 });
    assert_eq!(told(&mut threads, &[early]), []);
    assert_eq!(told(&mut threads, &[at(9, Kind::Ran { tid: 1, run_ns: 1 })]), []);
    let trace_events = told(
        &mut threads,
        &[
            at(10, Kind::Fork { pid: 7, parent_pid: 5, tid: 9, parent: 6 }),
            at(11, Kind::Forked { parent: 6, child: 9, comm: x }),
            at(12, Kind::Waking { tid: 9, comm: x, is_new: true, by_interrupt: false }),
        ],
    );
    assert_eq!(trace_events, [(10, What::Born { tid: 9, tgid: 7, parent_tgid: 5 })]);
    // Told by the tracepoint alone, the thread is its own process.
    let trace_events = told(&mut threads, &[at(20, Kind::Forked { parent: 9, child: 10, comm: x })]);
    assert_eq!(trace_events, [(20, What::Born { tid: 10, tgid: 10, parent_tgid: 7 })]);
}

#[test]
fn an_arrival_that_was_lost_is_found_by_what_was_charged() {
    let mut threads = Threads::default();
    let events = [
        switch(100, 8, BLOCKED, 0),
        at(200, Kind::Waking { tid: 8, comm: comm(b"t8"), is_new: false, by_interrupt: true }),
        // From idle to 8: not recorded.
        at(250, Kind::Ran { tid: 8, run_ns: 20 }),
        at(299, Kind::Ran { tid: 8, run_ns: 50 }),
        switch(300, 8, BLOCKED, 0),
    ];
    let trace_events = told(&mut threads, &events);
    assert!(trace_events.contains(&(200, What::Waking { tid: 8, waker: 0, last_cpu: 1 })), "{trace_events:?}");
    assert!(trace_events.contains(&(230, What::Arrived { tid: 8 })), "{trace_events:?}");
    assert_eq!(threads.recovered, 1);
    // Not before it was woken, and not where its coming was seen.
    let late = [
        at(400, Kind::Waking { tid: 8, comm: comm(b"t8"), is_new: false, by_interrupt: false }),
        at(450, Kind::Ran { tid: 8, run_ns: 1000 }),
        switch(500, 8, BLOCKED, 0),
        switch(600, 0, BLOCKED, 8),
        at(610, Kind::Ran { tid: 8, run_ns: 5 }),
        switch(620, 8, BLOCKED, 0),
    ];
    let arrivals: Vec<u64> = told(&mut threads, &late)
        .iter()
        .filter(|(_, what)| matches!(what, What::Arrived { .. }))
        .map(|m| m.0)
        .collect();
    assert_eq!(arrivals, [400]);
}

#[test]
fn a_migration_of_a_blocked_thread_was_chosen_by_its_wake_up() {
    let mut threads = Threads::default();
    let kinds = |trace_events: Vec<(u64, What)>| {
        let kind = |(_, what)| if let What::Migration { kind, .. } = what { Some(kind) } else { None };
        trace_events.into_iter().filter_map(kind).collect::<Vec<_>>()
    };
    let moved = at(5, Kind::Migration { tid: 8, from: 0, to: 1 });
    assert_eq!(kinds(told(&mut threads, &[switch(1, 8, BLOCKED, 0), moved])), [Migration::AtWakeup]);
    let preempted = Left::Preempted { yielded: false };
    assert_eq!(kinds(told(&mut threads, &[switch(6, 8, preempted, 0), moved])), [Migration::WhileQueued]);
}

#[test]
fn an_id_that_is_used_again_has_two_names() {
    let mut threads = Threads::default();
    told(
        &mut threads,
        &[
            at(10, Kind::Forked { parent: 6, child: 9, comm: comm(b"first") }),
            switch(20, 9, Left::Dead, 0),
            at(30, Kind::Forked { parent: 6, child: 9, comm: comm(b"second") }),
        ],
    );
    assert_eq!(
        (last_name(&threads, 9, 10).as_deref(), last_name(&threads, 9, 30).as_deref()),
        (Some("t9"), Some("second"))
    );
    // A late waking of the dead wakes nobody.
    told(&mut threads, &[switch(40, 9, Left::Dead, 0)]);
    let waking = at(41, Kind::Waking { tid: 9, comm: comm(b"x"), is_new: false, by_interrupt: false });
    assert_eq!(told(&mut threads, &[waking]), []);
}

#[test]
fn lives_stay_in_order_when_one_is_told_late() {
    let mut threads = Threads::default();
    told(&mut threads, &[switch(1, 0, BLOCKED, 6)]);
    // Each ends before the next one is told of: by its birth, or by its first switch.
    let mut live = |t_ns: u64| {
        told(&mut threads, &[at(t_ns, Kind::Forked { parent: 6, child: 9, comm: comm(b"x") })]);
        told(&mut threads, &[switch(t_ns + 2, 9, Left::Dead, 0)]);
        threads.by_tid.get_mut(&9).unwrap().name(comm(format!("n{t_ns}").as_bytes()));
        told(&mut threads, &[switch(t_ns + 4, 9, Left::Dead, 0)]);
        threads.by_tid.get_mut(&9).unwrap().name(comm(format!("m{t_ns}").as_bytes()));
    };
    let (in_order, late) = ([100, 110, 120, 130, 140, 150], [50, 60, 70, 80, 90, 10, 20, 30, 40]);
    in_order.iter().chain(&late).chain(&[160]).for_each(|t_ns| live(*t_ns));
    assert!(threads.by_tid[&9].lives.is_sorted_by_key(|life| life.born_ns));
    for t_ns in [100, 110, 120, 130, 140, 150, 160] {
        assert_eq!(last_name(&threads, 9, t_ns), Some(format!("n{t_ns}")), "{t_ns}");
    }
    // What is told late is of the last one.
    assert_eq!(last_name(&threads, 9, 155).as_deref(), Some("m40"));
}

#[test]
fn a_cpu_counts_whatever_was_told_of_it() {
    let on = |cpu: u32, kind: Kind| {
        let mut threads = Threads::default();
        let trace_events = told(&mut threads, &[switch(1, 0, BLOCKED, 8), Event { cpu, ..at(5, kind) }]);
        (trace_events.len(), threads.cpus)
    };
    let moved = Kind::Migration { tid: 8, from: 0, to: 30 };
    assert_eq!(on(2, moved), (3, 31), "where to, and not who said it");
    assert_eq!(on(20, Kind::Lost { count: 1 }), (3, 21));
    assert_eq!(on(20, Kind::Waking { tid: 8, comm: comm(b"x"), is_new: false, by_interrupt: true }), (3, 21));
    assert_eq!(on(20, Kind::Ran { tid: 8, run_ns: 1 }), (2, 2), "no trace event, and nothing to draw");
}

/// CPU time of 2,000 lookups among so many lives.
fn lookup_ns(threads: &Threads, lives: u64) -> u64 {
    let once = |_| {
        let begin_ns = arch::clock::thread_cpu_ns();
        for n in 0..2000 {
            std::hint::black_box(threads.comm(9, 10 + n * lives / 2000 * 10));
        }
        arch::clock::thread_cpu_ns() - begin_ns
    };
    (0..5).map(once).min().unwrap_or(0)
}

/// Among a hundred times as many, a look at each of the lives takes a hundred times as long.
#[test]
fn an_id_that_is_used_again_and_again_is_looked_up_quickly() {
    let mut threads = Threads::default();
    told(&mut threads, &[switch(1, 0, BLOCKED, 6)]);
    let (some, lives) = (2000, 200_000);
    let mut among_some_ns = 0;
    for n in 0..lives {
        if n == some {
            among_some_ns = lookup_ns(&threads, some);
        }
        let name = comm(format!("n{n}").as_bytes());
        told(&mut threads, &[at(10 + n * 10, Kind::Forked { parent: 6, child: 9, comm: name })]);
        told(&mut threads, &[switch(15 + n * 10, 9, Left::Dead, 0)]);
        // Its last name is the one that the switch told.
        threads.by_tid.get_mut(&9).unwrap().name(name);
    }
    let among_all_ns = lookup_ns(&threads, lives);
    assert!(among_all_ns < 20 * among_some_ns, "{among_all_ns} ns among {lives}, {among_some_ns} among {some}");
    for n in 0..lives {
        assert_eq!(last_name(&threads, 9, 10 + n * 10), Some(format!("n{n}")));
    }
    assert_eq!(last_name(&threads, 9, 5).as_deref(), Some("n0"), "from before all of them: the first");
    assert_eq!(last_name(&threads, 9, u64::MAX), Some(format!("n{}", lives - 1)));
}
