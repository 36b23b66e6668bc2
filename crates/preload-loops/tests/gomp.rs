//! Loops of programs that gcc has compiled, with the library loaded.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::process::Command;

use common::{INPUTS, SCHEDULES, THREADS, compile, kept, library, run, with};

#[test]
fn each_form_keeps_its_promise_with_each_schedule() {
    let program = compile("gcc", "forms.c", "forms", &[]);
    for (schedule, threads) in SCHEDULES.iter().flat_map(|schedule| THREADS.map(|threads| (schedule, threads))) {
        let line = kept(&mut with(&program, &format!("all:{schedule}"), threads));
        // 54 loops of the program are monotonic.
        let expected = match (*schedule, threads) {
            ("static_steal", _) => {
                "cox: 54 of 162 loop instances had fac2 instead of static_steal: the program asks for a monotonic schedule\n"
            }
            ("wf", "1" | "2" | "8") => {
                "cox: 162 of 162 loop instances had fac2 instead of wf: the team has another size\n"
            }
            _ => "",
        };
        assert_eq!(line, expected, "{schedule}, {threads} threads");
        kept(with(&program, schedule, threads).arg("huge"));
    }
}

/// The blocks of `static` show that a loop is really changed, and that others are not.
#[test]
fn runtime_loops_change_and_others_on_request() {
    let program = compile("gcc", "forms.c", "forms-blocks", &[]);
    // There are weights for three threads, with which the blocks are others.
    for threads in ["2", "4", "8"] {
        assert_eq!(kept(with(&program, "all:static", threads).arg("blocks")), "");
        assert_eq!(kept(with(&program, "static", threads).arg("runtime-blocks")), "");
        // Without `all:`, libgomp schedules dynamic loops: they do not have these blocks. One of several tries suffices.
        let changed = |_| run(with(&program, "static", threads).arg("blocks")).status.success();
        assert!(!(0..5).all(changed), "{threads} threads");
    }
}

#[test]
fn chunks_have_the_published_sizes() {
    let program = compile("gcc", "chunks.c", "chunks", &[]);
    let sizes = |schedule: &str, chunk: &str| {
        let output = run(with(&program, schedule, "4").arg(chunk));
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().map(|size| size.parse().unwrap()).collect::<Vec<u64>>()
    };
    let fac2 = sizes("fac2", "0");
    assert_eq!(fac2[..16], [125, 125, 125, 125, 63, 63, 63, 63, 32, 32, 32, 32, 16, 16, 16, 16]);
    assert_eq!(sizes("gss", "0")[..8], [250, 188, 141, 106, 79, 59, 45, 33]);
    assert_eq!(sizes("all:gss", "30"), [250, 188, 141, 106, 79, 59, 45, 33, 30, 30, 30, 9]);
    assert_eq!(sizes("all:ss,300", "30"), [300, 300, 300, 100]);
    assert_eq!(sizes("ss,300", "30"), [vec![30; 33], vec![10]].concat());
    assert_eq!(sizes("static", "0"), [250; 4]);
}

/// Compiles teams.c, and runs one of its cases with several schedules.
fn case(name: &str, limit: bool) {
    let program = compile("gcc", "teams.c", &format!("teams-{name}"), &[]);
    let schedules = [
        "ss",
        "static",
        "static_weighted",
        "static_steal",
        "fac2",
        "awf",
        "awf_b",
        "af",
        "hybrid",
        "all:fac2",
        "all:ss",
    ];
    for (schedule, threads) in schedules.into_iter().flat_map(|schedule| THREADS.map(|threads| (schedule, threads))) {
        let mut command = with(&program, schedule, threads);
        if limit {
            command.env("OMP_THREAD_LIMIT", "5");
        }
        assert_eq!(kept(command.arg(name)), "", "{schedule}, {threads} threads");
    }
}

#[test]
fn a_thread_may_be_any_number_of_loops_ahead() {
    case("chain", false);
}

#[test]
fn nested_teams_have_their_own_loops() {
    case("nested", false);
}

#[test]
fn concurrent_teams_have_their_own_loops() {
    case("concurrent", false);
}

#[test]
fn cancelled_loops_end_and_the_next_ones_are_complete() {
    case("cancelled", false);
}

#[test]
fn loops_of_libgomp_may_be_between() {
    case("mixed", false);
}

#[test]
fn a_loop_ends_with_a_barrier() {
    case("barriers", false);
}

#[test]
fn teams_may_be_smaller_than_the_program_asks_for() {
    case("sizes", true);
}

#[test]
fn a_forked_child_continues_with_one_thread() {
    case("forked", false);
}

#[test]
fn threads_that_end_give_their_teams_back() {
    case("threads", false);
}

#[test]
fn loops_may_change_their_trip_counts() {
    case("changing", false);
}

#[test]
fn a_million_instances_are_a_matter_of_seconds() {
    let program = compile("gcc", "teams.c", "teams-many", &[]);
    for threads in ["1", "2", "3"] {
        assert_eq!(kept(with(&program, "fac2", threads).arg("many")), "");
    }
}

#[test]
fn a_wrong_value_is_one_line_and_changes_nothing() {
    let program = compile("gcc", "forms.c", "forms-wrong", &[]);
    let line = |schedule: &str, inputs: &str| kept(with(&program, schedule, "3").env("COX_SCHEDULE_INPUTS", inputs));
    assert_eq!(
        line("all:fax2", INPUTS),
        "cox: invalid COX_SCHEDULE 'all:fax2': unknown schedule 'fax2': use fac2, fac, fac2a, fac2b; the schedules of \
         loops do not change\n"
    );
    assert!(line("ss,0", INPUTS).starts_with("cox: invalid COX_SCHEDULE 'ss,0': invalid chunk '0'"));
    assert!(line("fac2", "mean").starts_with("cox: invalid COX_SCHEDULE_INPUTS 'mean'"));
}

#[test]
fn without_a_schedule_nothing_changes() {
    let program = compile("gcc", "forms.c", "forms-none", &[]);
    let mut command = with(&program, "", "3");
    assert_eq!(kept(command.env_remove("COX_SCHEDULE")), "");
    // A program without OpenMP.
    let output = run(Command::new("true").env("LD_PRELOAD", library()).env("COX_SCHEDULE", "all:ss"));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
