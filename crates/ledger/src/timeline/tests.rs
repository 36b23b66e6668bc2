use proptest::prelude::*;
use wire::{Migration, TraceEvent};

use super::*;

fn stretch(tid: u32, from_ns: u64, until_ns: u64, doing: Doing) -> Stretch {
    Stretch { life: tid, tid, tgid: 1, from_ns, until_ns, doing, cpu: 0 }
}

fn switch(t_ns: u64, cpu: u16, out: (u32, bool), into: (u32, bool)) -> TraceEvent {
    let what = What::Switch {
        out: out.0,
        left: Left::Preempted { yielded: false },
        out_is_member: out.1,
        into: into.0,
        in_is_member: into.1,
        in_cause: None,
    };
    TraceEvent::new(t_ns, cpu, what)
}

#[test]
fn a_stretch_over_several_columns_is_divided_at_their_borders() {
    let mut timeline = Timeline::new(Span::new(1000, 1100, 10), &[7]);
    timeline.stretch(&stretch(7, 1005, 1032, Doing::Run));
    timeline.stretch(&stretch(7, 1032, 1040, Doing::Blocked(Cause::Futex)));
    let run: Vec<u64> = timeline.rows[0].cells.iter().map(|cell| cell.of(Activity::Run)).collect();
    assert_eq!(run, [5, 10, 10, 2, 0, 0, 0, 0, 0, 0]);
    assert_eq!(timeline.rows[0].cells[3].of(Activity::Futex), 8);
    assert_eq!(timeline.rows[0].total().of(Activity::Run), 27);
}

#[test]
fn each_doing_is_an_activity_of_its_own() {
    let doings = [
        (Doing::Run, Activity::Run),
        (Doing::WakeDelay, Activity::WakeDelay),
        (Doing::Preempted { yielded: false }, Activity::Preempted),
        (Doing::Preempted { yielded: true }, Activity::Yielded),
        (Doing::Blocked(Cause::Futex), Activity::Futex),
        (Doing::Blocked(Cause::Disk), Activity::Blocked),
        (Doing::Unknown, Activity::Unknown),
    ];
    for (at, (doing, activity)) in doings.into_iter().enumerate() {
        let mut timeline = Timeline::new(Span::new(0, 10, 1), &[]);
        timeline.stretch(&stretch(1, 0, 10, doing));
        let cell = timeline.rows[0].cells[0];
        assert_eq!((cell.of(activity), Activity::ALL[at]), (10, activity), "{doing:?}");
        let waits = matches!(activity, Activity::WakeDelay | Activity::Preempted);
        assert_eq!(cell.waiting_for_cpu_ns(), if waits { 10 } else { 0 }, "{doing:?}");
    }
}

#[test]
fn threads_without_a_row_are_added_up() {
    let mut timeline = Timeline::new(Span::new(0, 100, 2), &[7]);
    for tid in [8, 9, 8] {
        timeline.stretch(&stretch(tid, 40, 60, Doing::WakeDelay));
    }
    assert_eq!(timeline.rows.len(), 2);
    assert_eq!(timeline.rows[1].cells.iter().map(Cell::waiting_for_cpu_ns).collect::<Vec<_>>(), [30, 30]);
    assert_eq!(timeline.all()[1].waiting_for_cpu_ns(), 30);
    assert_eq!(timeline.rows[0].total(), Cell::default());
}

#[test]
fn switches_and_moves_are_counted_where_they_happen() {
    let mut timeline = Timeline::new(Span::new(0, 100, 2), &[7]);
    timeline.trace_event(&switch(10, 0, (7, true), (8, true)));
    timeline.trace_event(&switch(60, 0, (8, true), (7, true)));
    timeline.trace_event(&switch(70, 0, (99, false), (7, true)));
    let dead =
        What::Switch { out: 7, left: Left::Dead, out_is_member: true, into: 0, in_is_member: false, in_cause: None };
    timeline.trace_event(&TraceEvent::new(80, 0, dead));
    let moved = What::Migration { tid: 7, from: 3, kind: Migration::AtWakeup };
    timeline.trace_event(&TraceEvent::new(60, 1, moved));
    timeline.trace_event(&TraceEvent::new(101, 1, moved));
    let switches = |row: usize| timeline.rows[row].cells.iter().map(|cell| cell.switches).collect::<Vec<_>>();
    assert_eq!((switches(0), switches(1)), (vec![1, 0], vec![0, 1]));
    assert_eq!(timeline.rows[0].cells[1].migrations, 1);
    assert_eq!(timeline.moves, BTreeMap::from([((3, 1), 1)]));
}

#[test]
fn a_cpu_is_somebodys_at_any_time() {
    let mut timeline = Timeline::new(Span::new(0, 100, 2), &[7]);
    timeline.trace_event(&switch(10, 0, (0, false), (7, true)));
    timeline.trace_event(&switch(30, 0, (7, true), (99, false)));
    timeline.trace_event(&switch(60, 0, (99, false), (8, true)));
    timeline.trace_event(&switch(90, 0, (8, true), (0, false)));
    let lane = &timeline.finish().lanes[&0];
    let first = [(Holder::Unknown, 10), (Holder::Row(0), 20), (Holder::Stranger, 20)];
    assert_eq!(lane.cells[0], first);
    assert_eq!(lane.cells[1], [(Holder::Stranger, 10), (Holder::Row(1), 30), (Holder::Idle, 10)]);
    assert_eq!(lane.total_ns(Holder::Stranger), 30);
}

#[test]
fn a_thread_that_came_unannounced_has_the_cpu_from_then_on() {
    let mut timeline = Timeline::new(Span::new(0, 100, 10), &[7]);
    timeline.trace_event(&switch(10, 0, (7, true), (0, false)));
    timeline.trace_event(&TraceEvent::new(40, 0, What::Arrived { tid: 7 }));
    timeline.trace_event(&switch(60, 0, (7, true), (0, false)));
    let lane = &timeline.finish().lanes[&0];
    let holders: Vec<Holder> = lane.cells.iter().skip(1).map(|cell| cell[0].0).collect();
    let row = Holder::Row(0);
    assert_eq!(
        holders,
        [Holder::Idle, Holder::Idle, Holder::Idle, row, row, Holder::Idle, Holder::Idle, Holder::Idle, Holder::Idle]
    );
}

#[test]
fn what_is_lost_leaves_a_hole() {
    let mut timeline = Timeline::new(Span::new(0, 100, 10), &[]);
    timeline.trace_event(&switch(5, 0, (0, false), (7, true)));
    timeline.trace_event(&TraceEvent::new(25, 0, What::Lost { count: 40 }));
    // Other CPUs tell nothing about this one.
    timeline.trace_event(&switch(27, 1, (0, false), (9, true)));
    timeline.trace_event(&switch(45, 0, (7, true), (0, false)));
    timeline.trace_event(&TraceEvent::new(91, 1, What::Lost { count: 2 }));
    let timeline = timeline.finish();
    let holes: Vec<usize> = (0..10).filter(|column| timeline.holes[*column]).collect();
    assert_eq!(holes, [2, 3, 4, 9]);
    assert_eq!((timeline.lost[2], timeline.lost[9], timeline.lost_total()), (40, 2, 42));
    assert_eq!(timeline.lanes[&0].total_ns(Holder::Unknown), 5 + 20);
}

#[test]
fn lengths_are_counted_by_magnitude() {
    let mut timeline = Timeline::new(Span::new(0, 1_000_000, 3), &[]);
    for (from_ns, length_ns) in [(0, 1), (10, 2), (20, 3), (30, 4), (500, 1024), (999_990, 20)] {
        timeline.stretch(&stretch(1, from_ns, from_ns + length_ns, Doing::Run));
    }
    let runs = &timeline.runs;
    // The last one's end is not in the window: how long it was is not known.
    assert_eq!((runs.counts[0], runs.counts[1], runs.counts[2], runs.counts[10], runs.count()), (1, 2, 1, 1, 5));
    assert_eq!((runs.ns[1], runs.used()), (5, 0..11));
    assert_eq!((runs.shorter_than_ns(50), runs.shorter_than_ns(99)), (Some(4), Some(2048)));
    assert_eq!(Histogram::default().shorter_than_ns(50), None);
    assert_eq!(timeline.wake_delays.count(), 0);
}

#[test]
fn the_shortest_window_has_one_column() {
    assert_eq!(Span::new(5, 5, 240).columns(), 1);
    let mut timeline = Timeline::new(Span::new(5, 5, 240), &[]);
    timeline.stretch(&stretch(1, 0, 10, Doing::Run));
    assert_eq!(timeline.rows[0].cells[0].of(Activity::Run), 1);
}

#[test]
fn what_a_file_claims_does_not_overflow() {
    let mut timeline = Timeline::new(Span::new(u64::MAX, 0, 240), &[]);
    timeline.trace_event(&TraceEvent::new(u64::MAX, 0, What::Lost { count: 1 }));
    assert_eq!((timeline.finish().span.columns(), Span::new(0, u64::MAX, 240).width_ns(239)), (1, u64::MAX / 240 + 1));
    let mut timeline = Timeline::new(Span::new(0, u64::MAX, 1), &[]);
    for _ in 0..3 {
        timeline.stretch(&stretch(1, 0, u64::MAX, Doing::Run));
    }
    // Back in time, as no recording says.
    timeline.trace_event(&switch(50, 0, (1, true), (0, false)));
    timeline.trace_event(&switch(20, 0, (0, false), (1, true)));
    assert_eq!(timeline.finish().all()[0].of(Activity::Run), u64::MAX);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sums_over_columns_are_sums_of_stretches(
        start in 0..1u64 << 50,
        length in 1..1u64 << 40,
        columns in 1..300usize,
        cuts in proptest::collection::vec(any::<u64>(), 0..20),
    ) {
        let span = Span::new(start, start + length, columns);
        let mut borders: Vec<u64> = cuts.iter().map(|cut| start + cut % length).chain([start, start + length]).collect();
        borders.sort_unstable();
        let mut timeline = Timeline::new(span, &[1]);
        for (at, pair) in borders.windows(2).enumerate() {
            let doing = if at % 2 == 0 { Doing::Run } else { Doing::WakeDelay };
            timeline.stretch(&stretch(1, pair[0], pair[1], doing));
        }
        let ran: u64 = borders.windows(2).step_by(2).map(|pair| pair[1] - pair[0]).sum();
        let total = timeline.rows[0].total();
        prop_assert_eq!(total.of(Activity::Run), ran);
        prop_assert_eq!(total.of(Activity::WakeDelay), length - ran);
        // Each column is full, to the nanosecond.
        for (column, cell) in timeline.rows[0].cells.iter().enumerate() {
            prop_assert_eq!(cell.ns.iter().sum::<u64>(), span.width_ns(column));
        }
    }

    #[test]
    fn a_time_is_in_the_column_between_whose_borders_it_lies(start in 0..1u64 << 60, length in 1..1u64 << 60, columns in 1..300usize, at in any::<u64>()) {
        let span = Span::new(start, start + length, columns);
        let t_ns = start + at % length;
        let column = span.column(t_ns).unwrap();
        prop_assert!(span.border_ns(column) <= t_ns && t_ns < span.border_ns(column + 1));
    }
}
