//! `cargo xtask conformance` reports programs that behave differently under cox or hang, and part of libgomp's tests passes under cox.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use testkit::built;
use testkit::skip::{Need, hand_on, skip};
use xtask::workspace;

/// A `cox` that starts the program with a variable, and reports what the true one reports.
const COX: &str = r#"#!/bin/sh
while [ "$1" != -- ]; do
    if [ "$1" = --json ]; then echo '{ "overlap": { "processes": 1, "tasks": 2 } }' >"$2"; fi
    if [ "$1" = --overlap=perf ]; then echo "cox: no such thing here" >&2; exit 125; fi
    shift
done
shift
UNDER=1 exec "$@"
"#;

fn suite(tests: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("suite")).unwrap();
    for (name, text) in tests {
        let head = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n";
        fs::write(folder.path().join("suite").join(name), format!("{head}{text}\n")).unwrap();
    }
    let cox = folder.path().join("cox");
    fs::write(&cox, COX).unwrap();
    assert!(Command::new("chmod").arg("755").arg(cox).status().unwrap().success());
    folder
}

fn conformance(folder: &TempDir, options: &[&str]) -> Output {
    let at = |name: &str| folder.path().join(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("conformance").arg("--suite").arg(at("suite")).arg("--cox").arg(at("cox"));
    // Numbers of threads add up: two, if a test does not say others.
    let default = if options.contains(&"--threads") { &[][..] } else { &["--threads", "2"] };
    command.arg("--work").arg(at("work")).args(default).args(options).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The counts in a row of the table: same, other output, differ, hang.
fn row(output: &Output, backend: &str) -> Vec<u64> {
    let text = text(output);
    let line = text.lines().find(|line| line.starts_with(backend)).unwrap_or_else(|| panic!("{text}"));
    line.split_whitespace().skip(2).map(|word| word.parse().unwrap()).collect()
}

#[test]
fn differences_and_hangs_are_found() {
    let folder = suite(&[
        ("same.c", "int main(void) { puts(\"a\"); puts(\"b\"); return 0; }"),
        (
            "order.c",
            "int main(void) { int u = !!getenv(\"UNDER\"); puts(u ? \"a\" : \"b\"); puts(u ? \"b\" : \"a\"); return 0; }",
        ),
        ("exit.c", "int main(void) { return getenv(\"UNDER\") ? 3 : 0; }"),
        ("crash.c", "int main(void) { if (getenv(\"UNDER\")) abort(); return 0; }"),
        ("prints.c", "int main(void) { puts(getenv(\"UNDER\") ? \"wrong\" : \"right\"); return 0; }"),
        // It does not hang alone.
        ("hangs.c", "int main(void) { if (getenv(\"UNDER\")) { fork(); for (;;) pause(); } return 0; }"),
        ("varies.c", "int main(void) { printf(\"%d\\n\", getpid()); return 0; }"),
        ("fails.c", "int main(void) { return 1; }"),
        ("shouldfail.c", "/* { dg-do run }\n { dg-shouldfail \"\" } */ int main(void) { return 1; }"),
        ("threads.c", "#include <omp.h>\nint main(void) { return omp_get_max_threads() != 2; }"),
        ("compile.c", "/* { dg-do compile } */ int main(void) { return 1; }"),
        ("broken.c", "int main(void) { this is not C }"),
    ]);
    let output = conformance(&folder, &["--backends", "bpf", "--limit", "2", "--jobs", "4"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(row(&output, "bpf"), [4, 1, 3, 1], "{said}");
    for finding in [
        "DIFFERS exit.c (2 threads) bpf: 1 of 1 runs: exit 3, without cox exit 0; repeated runs: 5 of 5",
        "DIFFERS crash.c (2 threads) bpf: 1 of 1 runs: signal 6, without cox exit 0; repeated runs: 5 of 5",
        "DIFFERS prints.c (2 threads) bpf: 1 of 1 runs: it prints 'wrong', without cox 'right'; repeated runs: 5 of 5",
        "HANGS hangs.c (2 threads) bpf: 1 of 1 runs: hang, without cox exit 0; repeated runs: 1 of 1",
        "set aside: without cox, it ends with exit 1: fails.c (2 threads)",
        "set aside: it is only compiled, not run: compile.c",
    ] {
        assert!(said.contains(finding), "{finding}\n{said}");
    }
    assert!(said.contains("broken.c:") && said.contains("set aside: it does not build: "), "{said}");
    // Nothing is left of what hung.
    let folder = folder.path().canonicalize().unwrap();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(program) = process.path().join("exe").read_link() else { continue };
        assert!(!program.starts_with(&folder), "{} runs still", program.display());
    }
}

/// As a user would repeat it.
#[test]
fn a_difference_can_be_repeated_by_the_command_that_is_printed() {
    let folder = suite(&[(
        "exit.c",
        "/* { dg-do run }\n { dg-set-target-env-var VALUE \"a b\" } */\n\
         int main(void) { return getenv(\"UNDER\") && getenv(\"VALUE\")[1] == ' ' ? 3 : 0; }",
    )]);
    let said = text(&conformance(&folder, &["--backends", "off"]));
    let command = said.lines().skip_while(|line| !line.starts_with("DIFFERS")).nth(1).unwrap();
    let status = Command::new("sh").arg("-c").arg(command).status().unwrap();
    assert_eq!(status.code(), Some(3), "{command}");
}

#[test]
fn what_compares_nothing_is_no_success() {
    let folder = suite(&[("same.c", "int main(void) { return 0; }"), ("fails.c", "int main(void) { return 1; }")]);
    assert_eq!(conformance(&folder, &["--backends", "bpf,off"]).status.code(), Some(0));
    // One that does not work here is skipped, but not if it was named.
    let all = conformance(&folder, &[]);
    assert_eq!(all.status.code(), Some(0));
    assert!(
        String::from_utf8_lossy(&all.stderr).contains("skipped: conformance with perf: cox: no such thing"),
        "{all:?}"
    );
    assert_eq!(conformance(&folder, &["--backends", "perf"]).status.code(), Some(2));
    assert_eq!(conformance(&folder, &["--filter", "fails"]).status.code(), Some(2));
    assert_eq!(conformance(&folder, &["--filter", "nothing"]).status.code(), Some(2));
    let list = folder.path().join("list");
    fs::write(&list, "same.c # as ever\ngone.c\n").unwrap();
    let listed = conformance(&folder, &["--list", list.to_str().unwrap()]);
    assert_eq!(listed.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&listed.stderr).contains("gone.c"), "{listed:?}");
}

/// What fails once in many runs is found by many runs, and only by those of tests with tasks.
#[test]
fn tests_that_make_tasks_are_repeated() {
    let rare = "int main(void) { FILE *f = fopen(\"count\", \"a+\"); fputc('x', f); return getenv(\"UNDER\") && ftell(f) == 32; }";
    let folder = suite(&[("rare.c", &format!("/* omp task */ {rare}")), ("other.c", rare)]);
    let once = conformance(&folder, &["--backends", "off"]);
    assert_eq!((once.status.code(), row(&once, "off")), (Some(0), vec![2, 0, 0, 0]));
    let often = conformance(&folder, &["--backends", "off", "--repeat", "50"]);
    assert_eq!((often.status.code(), row(&often, "off")), (Some(1), vec![50, 0, 1, 0]), "{}", text(&often));
    assert!(text(&often).contains("DIFFERS rare.c (2 threads) off: 1 of 50"), "{}", text(&often));
}

/// Each program leaves a line for each run under cox.
#[test]
fn what_is_finished_is_not_run_again() {
    let program =
        |end: &str| format!("/* omp task */ int main(void) {{ if (getenv(\"UNDER\")) system(\"echo >>ran\"); {end} }}");
    let folder = suite(&[
        ("a.c", &program("return 0;")),
        ("b.c", &program("return getenv(\"UNDER\") ? 3 : 0;")),
        ("c.c", &program("return 1;")),
    ]);
    let runs = |test: &str| {
        let ran = fs::read(folder.path().join("work").join(test).join("ran")).unwrap_or_default();
        ran.len()
    };
    let state = folder.path().join("state/finished");
    let go_on = |options: &[&str]| {
        let resume = ["--backends", "bpf,off", "--jobs", "1", "--resume", state.to_str().unwrap()];
        conformance(&folder, &[&resume, options].concat())
    };
    // No time: nothing has been run, and this is no success.
    let none = go_on(&["--for", "0"]);
    assert_eq!((none.status.code(), runs("a.c"), runs("b.c")), (Some(3), 0, 0), "{none:?}");
    assert!(text(&none).contains("3 of 3 tests are not finished"), "{none:?}");
    let all = go_on(&[]);
    assert_eq!((all.status.code(), row(&all, "bpf")), (Some(1), vec![1, 0, 1, 0]), "{}", text(&all));
    assert!(text(&all).contains("a.c: 2 same, 0 other output, 0 differ, 0 hang"), "{}", text(&all));
    let ran = (runs("a.c"), runs("b.c"));
    assert_eq!(ran.0, 2);
    // All is known: the same table, with the differences and what was set aside, and nothing is run.
    let again = go_on(&[]);
    assert_eq!((again.status.code(), row(&again, "off")), (Some(1), vec![1, 0, 1, 0]), "{}", text(&again));
    for said in [
        "DIFFERS b.c (2 threads) bpf: 1 of 1 runs: exit 3",
        "set aside: without cox, it ends with exit 1: c.c (2 threads)",
    ] {
        assert!(text(&again).contains(said), "{}", text(&again));
    }
    assert_eq!((runs("a.c"), runs("b.c")), ran);
    // Another number of threads, and more runs, are new; the table has what was asked for.
    let wider = go_on(&["--threads", "3", "--filter", "a.c"]);
    assert_eq!((wider.status.code(), row(&wider, "bpf"), runs("a.c")), (Some(0), vec![1, 0, 0, 0], 4), "{wider:?}");
    // What differed with other numbers of threads is not in it.
    let other = go_on(&["--threads", "3", "--filter", "b.c"]);
    assert!(text(&other).contains("b.c (3 threads)") && !text(&other).contains("(2 threads)"), "{}", text(&other));
    let more = go_on(&["--repeat", "5", "--filter", "a.c"]);
    assert_eq!((row(&more, "bpf"), runs("a.c")), (vec![6, 0, 0, 0], 14), "{}", text(&more));
    // Another cox.
    fs::write(folder.path().join("cox"), format!("{COX}# newer\n")).unwrap();
    let newer = go_on(&["--filter", "a.c"]);
    assert_eq!((row(&newer, "bpf"), runs("a.c")), (vec![1, 0, 0, 0], 16), "{}", text(&newer));
    assert_eq!(conformance(&folder, &["--for", "1"]).status.code(), Some(2));
}

/// The part of libgomp's tests that `make test` runs, if they and what is built before are there. Takes most of a minute: three compilers build the
/// tests, and each test runs without cox and with backends of `--overlap`, with two numbers of threads.
#[test]
fn a_part_of_libgomps_tests_is_the_same_under_cox() {
    let root = workspace::root();
    let suite = root.join("target/conformance/libgomp");
    let lacks = |need, why: &str| skip("a_part_of_libgomps_tests_is_the_same_under_cox", need, why);
    if !suite.is_dir() {
        return lacks(Need::LibgompTests, "libgomp's tests are not there (package gcc-12-source, make suite)");
    }
    if !Path::new(built::COX).exists() {
        return lacks(Need::Built, "cox is not there (cargo build)");
    }
    for compiler in ["gcc", "g++", "gfortran"] {
        if Command::new(compiler).arg("--version").output().is_err() {
            return lacks(Need::LibgompTests, &format!("no {compiler}"));
        }
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("conformance").arg("--suite").arg(&suite).arg("--list").arg(part(&root)).arg("--cox").arg(built::COX);
    let output = command.args(["--threads", "2,4"]).output().unwrap();
    hand_on(&String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0), "{}\n{}", text(&output), String::from_utf8_lossy(&output.stderr));
}

fn part(root: &Path) -> PathBuf {
    root.join("xtask/conformance/part.txt")
}
