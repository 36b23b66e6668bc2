//! What docs/ulp.md promises of each ULP, one promise after another: for each way to link the program, and each mode in which it yields.
//!
//! `promises/promises.c` has the table of promises. Those that a C library cannot have are left out there.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::process::{Command, Output};

use place::Place;
use testkit::skip::{Need, installed};

/// One more than there are ways to round. On a machine with fewer CPUs, some share a carrier.
const ULPS: usize = 5;

/// When ULPs leave their kernel tasks: FLAGS of the host, and the program's word for it.
const MODES: [(&str, &str); 3] = [("coupled", "coupled"), ("", "decoupled"), ("", "policy")];

const SOURCES: [&str; 9] = [
    "promises/promises.c",
    "promises/own.c",
    "promises/process.c",
    "promises/signals.c",
    "promises/children.c",
    "promises/ends.c",
    "promises/threads.c",
    "promises/registers.c",
    "promises/memory.c",
];

/// A promise: its name, and how ULP 1 ends. The others end with 0.
struct Promise {
    name: String,
    end: i32,
}

/// Returns the promises that a program knows.
fn promises_of(program: &str) -> Vec<Promise> {
    let list = Command::new(program).arg("list").output().unwrap();
    let text = String::from_utf8(list.stdout).unwrap();
    let promise = |line: &str| {
        let (name, end) = line.split_once(' ').unwrap();
        Promise { name: name.to_owned(), end: end.parse().unwrap() }
    };
    text.lines().map(promise).collect()
}

/// Runs one promise in one mode. Returns what is wrong.
fn broken(place: &Place, program: &str, promise: &Promise, mode: (&str, &str)) -> Option<String> {
    let (flags, word) = mode;
    let host = place.host_with(flags, ULPS, program, &[word, &promise.name]);
    // If a ULP waits for ever, the test still says for which promise.
    let (output, ends) = place.ended(place.started_by(&["timeout", "--kill-after=5", "30"], &host));
    let lines = printed(&output);
    let right_end = |number: usize| if number == 1 { promise.end } else { 0 };
    let right_ends: Vec<i32> = (0..ULPS).map(right_end).collect();
    // A ULP that a signal ends prints nothing.
    let right_lines: Vec<String> =
        (0..ULPS).filter(|number| right_end(*number) >= 0).map(|number| format!("{number} ok")).collect();
    let stays = place.told()["stays"].as_u64();
    let is_where_asked = if flags == "coupled" { stays == Some(0) } else { stays >= Some(ULPS as u64) };
    let is_right = ends == right_ends && lines == right_lines && is_where_asked;
    (!is_right).then(|| {
        format!("{} {word}: exit {:?}, ends {ends:?}, stays {stays:?}, {lines:?}", promise.name, output.status.code())
    })
}

/// Returns the lines of both outputs, sorted.
fn printed(output: &Output) -> Vec<String> {
    let text = [&output.stdout[..], &output.stderr].concat();
    let mut lines: Vec<String> = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Whether a program has a dynamic linker.
fn has_interpreter(program: &str) -> bool {
    let headers = Command::new("readelf").args(["--program-headers", "--wide", program]).output().unwrap();
    String::from_utf8_lossy(&headers.stdout).contains("INTERP")
}

/// All promises in all modes.
#[track_caller]
fn assert_kept(compiler: &str, linking: &[&str], is_dynamic: bool) {
    let place = Place::new();
    let program = place.compile_with(compiler, "promises", &SOURCES, linking);
    assert_eq!(has_interpreter(&program), is_dynamic);
    if is_dynamic {
        place.compile_with(compiler, "promises.so", &["promises/library.c"], &["-shared", "-fPIC"]);
    }
    let promises = promises_of(&program);
    let cells = MODES.iter().flat_map(|mode| promises.iter().map(move |promise| (promise, *mode)));
    let broken: Vec<String> = cells.filter_map(|(promise, mode)| broken(&place, &program, promise, mode)).collect();
    assert!(!promises.is_empty() && broken.is_empty(), "{compiler} {linking:?}:\n{}", broken.join("\n"));
}

#[test]
fn promises_of_a_dynamic_program() {
    assert_kept("cc", &["-pie", "-fPIE", "-ldl"], true);
}

#[test]
fn promises_of_a_static_program() {
    assert_kept("cc", &["-static-pie", "-DSTATIC"], false);
}

#[test]
fn promises_of_a_program_with_musl() {
    if installed("promises_of_a_program_with_musl", Need::Programs, "musl-gcc") {
        assert_kept("musl-gcc", &["-pie", "-fPIE"], true);
    }
}
