//! OpenMP's promises about tasks, under libgomp and under our own tasks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{compile, inside, run, told};
use wire::guest::{LIBGOMP, TASKS};

const THREADS: [&str; 4] = ["1", "2", "3", "8"];

fn promises(name: &str) -> PathBuf {
    compile("tasks.c", name, &["-fopenmp"])
}

#[test]
fn libgomp_keeps_them() {
    let program = promises("tasks-plain");
    for threads in THREADS {
        let output = run(Command::new(&program).arg("3").env("OMP_NUM_THREADS", threads));
        assert!(output.status.success(), "{threads} threads: {output:?}");
    }
}

#[test]
fn our_tasks_keep_them() {
    let program = promises("tasks-ours");
    for threads in THREADS {
        let mut command = Command::new(&program);
        let text = inside(command.arg("30").env("OMP_NUM_THREADS", threads).env("COX_OVERLAP", "off"));
        assert_eq!(text, "kept\n", "{threads} threads");
    }
}

#[test]
fn our_tasks_keep_them_where_threads_sleep_at_once() {
    let program = promises("tasks-passive");
    let mut command = Command::new(&program);
    command.arg("10").env("OMP_NUM_THREADS", "3").env("OMP_WAIT_POLICY", "passive").env("COX_OVERLAP", "off");
    assert_eq!(inside(&mut command), "kept\n");
}

#[test]
fn tasks_are_ours_where_that_is_wanted() {
    let program = compile("gomp.c", "gomp-overlap", &["-fopenmp"]);
    for (variable, seen) in [("off", LIBGOMP), ("", LIBGOMP | TASKS)] {
        for what in ["tasks", "reduced"] {
            let mut command = Command::new(&program);
            command.args(["2", what]).env("OMP_NUM_THREADS", "3").env("COX_OVERLAP", variable);
            // Only what libgomp is given is noted.
            assert_eq!(told(&inside(&mut command))[0].seen, u64::from(seen), "{variable:?}, {what}");
        }
    }
}
