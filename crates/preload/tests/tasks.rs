//! OpenMP's guarantees about tasks, with libgomp and with our own tasks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{compile, inside, reports, run};
use wire::preload::{LIBGOMP, TASKS};

const THREADS: [&str; 4] = ["1", "2", "3", "8"];

/// [`testkit::repeated`], as an argument of a program.
fn rounds(few: usize) -> String {
    testkit::repeated(few).to_string()
}

fn promises(name: &str) -> PathBuf {
    compile("tasks.c", name, &["-fopenmp"])
}

#[test]
fn libgomp_keeps_them() {
    let program = promises("tasks-plain");
    for (threads, cancellation) in THREADS.into_iter().flat_map(|threads| [(threads, "false"), (threads, "true")]) {
        let mut command = Command::new(&program);
        command.env("OMP_NUM_THREADS", threads).env("OMP_CANCELLATION", cancellation);
        let output = run(command.arg(rounds(2)));
        assert!(output.status.success(), "{threads} threads, cancellation {cancellation}: {output:?}");
    }
}

/// By itself: libgomp (12) crashes where tasks with priorities have children with priorities, and where standbys help there is no one
/// order.
#[test]
fn priorities_count_where_they_are_allowed() {
    let program = promises("tasks-priorities");
    for (threads, allowed) in THREADS.iter().flat_map(|threads| ["0", "100"].map(|allowed| (threads, allowed))) {
        let mut command = Command::new(&program);
        command
            .args([&rounds(3), "allowed_priorities"])
            .env("OMP_NUM_THREADS", threads)
            .env("OMP_MAX_TASK_PRIORITY", allowed);
        assert!(run(&mut command).status.success(), "{threads} threads, {allowed} allowed, libgomp");
        assert_eq!(inside(command.env("COX_OVERLAP", "off")), "kept\n", "{threads} threads, {allowed} allowed");
    }
}

/// By itself: where standbys help, one of them may run the task before the construct is met.
#[test]
fn targets_have_copies_of_what_they_meet() {
    let program = promises("tasks-targets");
    let mut command = Command::new(&program);
    command.args([&rounds(20), "target_copies"]);
    assert!(run(&mut command).status.success(), "libgomp");
    assert_eq!(inside(command.env("COX_OVERLAP", "off")), "kept\n");
}

#[test]
fn our_tasks_keep_them() {
    let program = promises("tasks-ours");
    for threads in THREADS {
        let mut command = Command::new(&program);
        let text = inside(command.arg(rounds(5)).env("OMP_NUM_THREADS", threads).env("COX_OVERLAP", "off"));
        assert_eq!(text, "kept\n", "{threads} threads");
    }
}

/// threadprivate data, of which a program that has none is told above.
#[test]
fn tasks_find_their_threads_own_data() {
    let program = compile("tasks.c", "tasks-own-words", &["-fopenmp", "-DOWN_WORDS"]);
    for threads in THREADS {
        let mut command = Command::new(&program);
        command.args([&rounds(20), "own_words"]).env("OMP_NUM_THREADS", threads);
        assert!(run(&mut command).status.success(), "{threads} threads, libgomp");
        assert_eq!(inside(command.env("COX_OVERLAP", "off")), "kept\n", "{threads} threads");
    }
}

#[test]
fn our_tasks_keep_them_where_constructs_may_be_cancelled() {
    let program = promises("tasks-cancelled");
    for threads in THREADS {
        // Some of what libgomp does not keep, which one thread alone is left to.
        for by_name in [None, Some("cancelled_reductions"), Some("parts_cancelled")] {
            let mut command = Command::new(&program);
            command.env("OMP_NUM_THREADS", threads).env("OMP_CANCELLATION", "true").env("COX_OVERLAP", "off");
            command.arg(rounds(3)).args(by_name);
            assert!(
                by_name.is_some_and(|_| threads == "1") || inside(&mut command) == "kept\n",
                "{threads} threads, {by_name:?}"
            );
        }
    }
}

#[test]
fn our_tasks_keep_them_where_threads_sleep_at_once() {
    let program = promises("tasks-passive");
    let mut command = Command::new(&program);
    command.arg(rounds(10)).env("OMP_NUM_THREADS", "3").env("OMP_WAIT_POLICY", "passive").env("COX_OVERLAP", "off");
    assert_eq!(inside(&mut command), "kept\n");
}

#[test]
fn tasks_are_ours_where_that_is_wanted() {
    let program = compile("gomp.c", "gomp-overlap", &["-fopenmp"]);
    for (variable, seen) in [("off", LIBGOMP), ("", LIBGOMP | TASKS)] {
        for (what, cancellation) in [("tasks", "false"), ("reduced", "false"), ("tasks", "true")] {
            let mut command = Command::new(&program);
            command.args(["2", what]).env("OMP_NUM_THREADS", "3").env("COX_OVERLAP", variable);
            command.env("OMP_CANCELLATION", cancellation);
            // Only what libgomp is given is noted.
            let report = reports(&inside(&mut command));
            assert_eq!(report[0].seen, u64::from(seen), "{variable:?}, {what}, cancellation {cancellation}");
        }
    }
}
