use std::io::BufReader;

use super::*;

fn one(line: &str) -> Option<Event> {
    parse(line).and_then(|(event, _)| event)
}

#[test]
fn a_switch_between_names_with_spaces() {
    let line = "      opt cgu.07 17861 [001]    61240.175861:       sched:sched_switch: prev_comm=opt cgu.07 prev_pid=17861 \
        prev_prio=120 prev_state=R+ ==> next_comm=a [003] b next_pid=18 next_prio=0\n";
    let kind = Kind::Switch {
        prev: 17861,
        prev_comm: comm(b"opt cgu.07"),
        left: Left::Preempted { yielded: false },
        raw: Raw::Preempted,
        next: 18,
        next_comm: comm(b"a [003] b"),
    };
    assert_eq!(one(line), Some(Event { t_ns: 61_240_175_861_000, cpu: 1, pid: -1, tid: 17861, kind }));
}

#[test]
fn plugins_print_a_switch_in_their_own_way() {
    let line = ":-1 -1/-1 [000] 1.000000001: sched:sched_switch: a:b:7 [120] D ==> swapper/0:0 [120]";
    let kind = Kind::Switch {
        prev: 7,
        prev_comm: comm(b"a:b"),
        left: Left::Blocked(Some(Cause::Unspecified)),
        raw: Raw::Uninterruptible,
        next: 0,
        next_comm: comm(b"swapper/0"),
    };
    assert_eq!(one(line), Some(Event { t_ns: 1_000_000_001, cpu: 0, pid: -1, tid: -1, kind }));
}

#[test]
fn plugins_print_wake_ups_in_their_own_way() {
    for (name, tid, fields) in [
        ("sh", 23082, "sh:23082 [120] CPU:001"),
        ("sh", 23082, "sh:23082 [120] success=1 CPU:001"),
        // What libtraceevent says where kernels have no such field.
        ("sh", 23082, "sh:23082 [120]<CANT FIND FIELD success> CPU:001"),
        ("a:b [3] c", 7, "a:b [3] c:7 [0] CPU:013"),
    ] {
        for event in ["sched_wakeup", "sched_wakeup_new"] {
            let line = format!("x 5 [000] 1.000000:   sched:{event}: {fields}\n");
            let is_new = event == "sched_wakeup_new";
            let kind = Kind::Waking { tid, comm: comm(name.as_bytes()), is_new, by_interrupt: false };
            assert_eq!(one(&line).map(|event| event.kind), Some(kind), "{line}");
        }
    }
}

#[test]
fn losses_are_counted_where_text_tells_them() {
    let lost = "x 5 [0] 1.000002: PERF_RECORD_LOST lost 6903\n";
    let (ending, times) = all(&format!("{WAKING}{lost}{lost}")).unwrap();
    assert_eq!((ending.events, ending.lost, times.len()), (1, 2 * 6903, 3));
}

#[test]
fn a_form_that_is_not_known_is_counted() {
    let odd = "x 5 [0] 1.000000: sched:sched_waking: someone woke\n";
    assert_eq!(all(&format!("{WAKING}{odd}{odd}")).unwrap().0.unclear, 2);
    assert_eq!(all(WAKING).unwrap().0.unclear, 0);
    assert!(matches!(all(odd), Err(Error::UnknownForm)));
    // What does not count here may have any form.
    assert!(matches!(all("x 5 [0] 1.000000: sched:sched_pi_setprio: anything\n"), Err(Error::Foreign)));
}

#[test]
fn every_event_that_counts() {
    let of = |fields: &str| one(&format!("x 5/6 [002] 2.500000: {fields}")).map(|event| event.kind);
    let x = comm(b"x y");
    assert_eq!(
        of("sched:sched_wakeup_new: comm=x y pid=9 prio=120 target_cpu=000"),
        Some(Kind::Waking { tid: 9, comm: x, is_new: true, by_interrupt: false })
    );
    assert_eq!(
        of("sched:sched_migrate_task: comm=x y pid=9 prio=120 orig_cpu=0 dest_cpu=13"),
        Some(Kind::Migration { tid: 9, from: 0, to: 13 })
    );
    assert_eq!(
        of("sched:sched_stat_runtime: comm=perf pid=17772 runtime=81321 [ns]"),
        Some(Kind::Ran { tid: 17772, run_ns: 81_321 })
    );
    assert_eq!(
        of("sched:sched_process_fork: comm=sh pid=1 child_comm=x y child_pid=2"),
        Some(Kind::Forked { parent: 1, child: 2, comm: x })
    );
    assert_eq!(
        of("PERF_RECORD_FORK(17:18):(15:16)"),
        Some(Kind::Fork { pid: 17, tid: 18, parent_pid: 15, parent: 16 })
    );
    assert_eq!(of("PERF_RECORD_COMM exec: x y:17/18"), Some(Kind::Comm { pid: 17, tid: 18, comm: x, exec: true }));
    assert_eq!(
        of("sched:sched_process_exec: filename=/bin/x pid=3 old_pid=4"),
        Some(Kind::Execed { tid: 3, caller: 4 })
    );
    assert_eq!(of("cycles: 1234 main (/bin/x)"), None);
}

fn all(text: &str) -> Result<(Ending, Vec<u64>), Error> {
    let mut times = Vec::new();
    let ending = read(&mut BufReader::new(text.as_bytes()), |event| {
        times.push(event.t_ns);
        Ok(())
    })?;
    Ok((ending, times))
}

const WAKING: &str = "x 5 [0] 1.000000: sched:sched_waking: comm=y pid=9 prio=120 target_cpu=000\n";
const WAKEUP: &str = "x 5 [0] 1.000001: sched:sched_wakeup: comm=y pid=9 prio=120 target_cpu=000\n";

#[test]
fn a_waking_is_told_once() {
    assert_eq!(all(&format!("{WAKEUP}{WAKEUP}")).unwrap().1.len(), 2);
    let (ending, times) = all(&format!("{WAKING}{WAKEUP}")).unwrap();
    assert_eq!((times, ending.skipped), (vec![1_000_000_000], 1));
}

#[test]
fn a_last_line_that_is_not_whole_is_left_out() {
    let text = format!("{WAKING}{}", WAKING.trim_end().trim_end_matches("target_cpu=000"));
    let (ending, times) = all(&text).unwrap();
    assert_eq!((times.len(), ending.cut.map(|cut| cut.at_bytes)), (1, Some(WAKING.len() as u64)));
}

#[test]
fn text_of_others_is_foreign() {
    for text in ["", "hello\n", "\n\n\n"] {
        assert!(matches!(all(text), Err(Error::Foreign)), "{text}");
    }
    assert!(matches!(all(&"x".repeat(3 << 20)), Err(Error::Foreign)));
}

#[test]
fn what_no_kernel_or_clock_has_is_no_event() {
    let line = |cpu: u32, s: u64| {
        format!("a 18 [{cpu:03}] {s}.175873: sched:sched_migrate_task: comm=a pid=18 prio=120 orig_cpu=0 dest_cpu=1")
    };
    let is_one = |cpu, s| parse(&line(cpu, s)).is_some();
    assert_eq!(
        [is_one(8191, 1), is_one(8192, 1), is_one(0, 9_000_000_000), is_one(0, 9_300_000_000)],
        [true, false, true, false]
    );
}
