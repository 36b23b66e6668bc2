//! Two programs on two CPUs, event by event.

use wire::Migration;

use super::*;

/// `a` is process 10 and may use CPU 0, `b` is 20 and may use both.
fn player() -> Player {
    let a = Program { root_pid: 10, cpus: Some(vec![0]), named: "0".into() };
    let b = Program { root_pid: 20, cpus: None, named: "0-1".into() };
    Player::new(vec![a, b], 2, 1_000)
}

fn play(trace_events: &[(u64, u16, What)], end_ns: u64) -> CoRun {
    let mut player = player();
    trace_events.iter().for_each(|(t_ns, cpu, what)| player.take(&TraceEvent::new(*t_ns, *cpu, *what)));
    player.finish(end_ns)
}

fn born(tid: u32, parent: u32) -> What {
    What::Born { tid, tgid: tid, parent_tgid: parent }
}

fn switch(out: u32, left: Left, into: u32) -> What {
    What::Switch { out, left, out_is_member: out >= 10, into, in_is_member: into >= 10, in_cause: None }
}

const BLOCKED: Left = Left::Blocked(None);
const PREEMPTED: Left = Left::Preempted { yielded: false };

fn waking(tid: u32) -> What {
    What::Waking { tid, waker: 0, last_cpu: 0 }
}

/// Both born at 1,000; `a` runs on CPU 0 until 1,400 and ends, `b` waits behind it for 100, then runs on CPU 1 until 2,000.
fn pair() -> Vec<(u64, u16, What)> {
    vec![
        (1_000, 0, switch(5, PREEMPTED, 0)),
        (1_000, 1, switch(5, PREEMPTED, 0)),
        (1_000, 0, born(10, 1)),
        (1_000, 0, switch(0, PREEMPTED, 10)),
        (1_000, 0, born(20, 1)),
        (1_100, 1, What::Migration { tid: 20, from: 0, kind: Migration::WhileQueued }),
        (1_110, 1, switch(0, PREEMPTED, 20)),
        (1_400, 0, switch(10, Left::Dead, 0)),
        (1_500, 0, switch(0, PREEMPTED, 5)),
        (1_600, 0, switch(5, BLOCKED, 0)),
        (2_000, 1, switch(20, Left::Dead, 0)),
    ]
}

#[test]
fn phases_and_idle_time_follow_who_ran_and_who_was_allowed() {
    let co_run = play(&pair(), 3_000);
    assert_eq!((co_run.any_ran_ns, co_run.all_ran_ns), (1_000, 400));
    let idle = |usable_by: &[usize], idle_ns| Idle { usable_by: usable_by.to_vec(), idle_ns };
    let both = Phase {
        running: vec![0, 1],
        length_ns: 400,
        run_ns: vec![400, 290],
        others_ns: 0,
        // CPU 1, until b came there; a may not use it.
        idle: vec![idle(&[1], 110)],
        unseen_ns: 0,
    };
    let alone = Phase {
        running: vec![1],
        length_ns: 600,
        run_ns: vec![0, 600],
        others_ns: 100,
        idle: vec![idle(&[1], 500)],
        unseen_ns: 0,
    };
    assert_eq!(co_run.phases, [both, alone]);
}

#[test]
fn parts_of_a_phase_sum_to_its_length_times_cpus() {
    for phase in play(&pair(), 3_000).phases {
        let idle: u64 = phase.idle.iter().map(|idle| idle.idle_ns).sum();
        let parts = phase.run_ns.iter().sum::<u64>() + phase.others_ns + idle + phase.unseen_ns;
        assert_eq!(parts, 2 * phase.length_ns, "{phase:?}");
    }
}

#[test]
fn who_holds_the_cpu_takes_the_time_of_those_that_wait_there() {
    let co_run = play(&pair(), 3_000);
    let b = &co_run.waited[1];
    // Behind a on CPU 0, then for CPU 1 to wake up.
    assert_eq!((b.behind_ns.as_slice(), b.behind_others_ns, b.behind_idle_ns), (&[100, 0][..], 0, 10));
    assert_eq!(co_run.waited[0].behind_ns, [0, 0]);
}

#[test]
fn the_end_of_the_only_program_that_was_allowed_leaves_idle_time_to_nobody() {
    let only = |root_pid, cpu: u32| Program { root_pid, cpus: Some(vec![cpu]), named: cpu.to_string() };
    let mut player = Player::new(vec![only(10, 0), only(20, 1)], 2, 1_000);
    pair().iter().for_each(|(t_ns, cpu, what)| player.take(&TraceEvent::new(*t_ns, *cpu, *what)));
    let co_run = player.finish(3_000);
    let alone = co_run.phases.iter().find(|phase| phase.running == [1]).expect("b alone");
    assert_eq!(alone.idle, [Idle { usable_by: vec![], idle_ns: 500 }]);
}

#[test]
fn the_order_of_programs_changes_nothing_but_their_numbers() {
    let told = play(&pair(), 3_000);
    let mut programs = player().programs;
    programs.reverse();
    let mut player = Player::new(programs, 2, 1_000);
    pair().iter().for_each(|(t_ns, cpu, what)| player.take(&TraceEvent::new(*t_ns, *cpu, *what)));
    let other = player.finish(3_000);
    assert_eq!((other.any_ran_ns, other.all_ran_ns), (told.any_ran_ns, told.all_ran_ns));
    assert_eq!(other.phases[0].run_ns, [290, 400]);
    assert_eq!(other.waited[0].behind_ns, [0, 100]);
    assert_eq!(other.phases[1].idle, [Idle { usable_by: vec![0], idle_ns: 500 }]);
}

#[test]
fn children_belong_to_the_program_and_do_not_keep_it_running() {
    let mut trace_events = pair();
    // A child of a, on CPU 0 from 1,450 on, when a has ended.
    trace_events.insert(7, (1_300, 0, born(11, 10)));
    trace_events[8] = (1_400, 0, switch(10, Left::Dead, 11));
    trace_events.truncate(9);
    let co_run = play(&trace_events, 1_700);
    let alone = co_run.phases.iter().find(|phase| phase.running == [1]).expect("b alone");
    assert_eq!((alone.length_ns, alone.run_ns.as_slice()), (300, &[300, 300][..]));
    // The child waited behind its own program.
    assert_eq!(co_run.waited[0].behind_ns, [100, 0]);
}

#[test]
fn a_thread_that_is_woken_before_it_has_left_waits_and_is_not_blocked() {
    let trace_events = [
        (1_000, 0, switch(5, PREEMPTED, 10)),
        (1_000, 0, born(10, 1)),
        (1_000, 0, switch(5, PREEMPTED, 10)),
        (1_200, 0, waking(10)),
        (1_300, 0, switch(10, BLOCKED, 5)),
        (1_450, 0, switch(5, BLOCKED, 10)),
    ];
    assert_eq!(play(&trace_events, 1_500).waited[0].behind_others_ns, 150);
}

#[test]
fn an_id_that_was_the_other_programs_is_its_parents() {
    let mut trace_events = pair();
    // Behind a's end, b has a child with the id that a had; a runs no more.
    trace_events.insert(10, (1_700, 1, born(10, 20)));
    trace_events.insert(11, (1_700, 0, switch(0, PREEMPTED, 10)));
    trace_events.insert(12, (1_800, 0, switch(10, Left::Dead, 0)));
    let co_run = play(&trace_events, 3_000);
    assert_eq!(co_run.all_ran_ns, 400);
    let alone = co_run.phases.iter().find(|phase| phase.running == [1]).expect("b alone");
    assert_eq!(alone.run_ns, [0, 700]);
}
