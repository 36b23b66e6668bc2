//! `COX_TIMING`: the time by which schedules compare threads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;

use common::{THREADS, compile, kept, run, with};

/// Without registration of restartable sequences, a thread cannot notice that it has lost its CPU.
const UNNOTICED: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");

/// For each iteration, one thread sleeps for 2 ms and uses some ten microseconds of its CPU. The other one computes for about 200 us.
#[test]
fn a_thread_that_does_not_run_is_slow_by_wall_time_and_fast_by_cpu_time() {
    let program = compile("gcc", "speeds.c", "speeds", &[]);
    let slept = |timing: Option<&str>, unnoticed: bool| {
        let mut command = with(&program, "static_weighted", "2");
        command.args(["12", "100"]).envs(timing.map(|timing| ("COX_TIMING", timing)));
        command.envs(unnoticed.then_some(UNNOTICED));
        let output = run(&mut command.env("COX_SCHEDULE_INPUTS", "mean_ns=1"));
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().unwrap()
    };
    for unnoticed in [false, true] {
        let [wall, cpu, both] = ["wall", "cpu", "both"].map(|timing| slept(Some(timing), unnoticed));
        let text = format!("wall {wall} %, cpu {cpu} %, both {both} %, unnoticed: {unnoticed}");
        assert!(wall < 35 && cpu > 65 && both < 50, "{text}");
    }
    // The default of this schedule is both.
    assert!(slept(None, false) < 50);
}

/// Whatever is measured, each iteration is executed once.
#[test]
fn loops_are_complete_with_each_timing() {
    let forms = compile("gcc", "forms.c", "forms-timing", &[]);
    let teams = compile("gcc", "teams.c", "teams-timing", &[]);
    let schedules = ["all:static_weighted", "all:awf", "all:awf_b", "all:awf_e", "all:af", "all:auto"];
    for (timing, schedule) in
        ["cpu", "both"].into_iter().flat_map(|timing| schedules.map(|schedule| (timing, schedule)))
    {
        for threads in THREADS {
            let timed = |command: &mut std::process::Command| kept(command.env("COX_TIMING", timing));
            let said = format!("{timing}, {schedule}, {threads} threads");
            assert_eq!(timed(&mut with(&forms, schedule, threads)), "", "{said}");
            assert_eq!(timed(with(&forms, schedule, threads).env(UNNOTICED.0, UNNOTICED.1)), "", "{said}");
            for case in ["chain", "nested", "cancelled", "forked", "threads", "changing"] {
                assert_eq!(timed(with(&teams, schedule, threads).arg(case)), "", "{said}, {case}");
            }
        }
    }
}

#[test]
fn a_wrong_timing_is_one_line_and_changes_nothing() {
    let program = compile("gcc", "forms.c", "forms-wrong-timing", &[]);
    assert_eq!(
        kept(with(&program, "fac2", "3").env("COX_TIMING", "clock")),
        "cox: invalid COX_TIMING: unknown timing 'clock': use wall, cpu or both; the schedules of loops do not change\n"
    );
}
