//! Where ULPs crash, and that they end as without a backtrace.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

use place::{Place, Running};

/// One run with backtraces.
struct Run {
    stdout: String,
    stderr: String,
    ends: Vec<i32>,
}

impl Run {
    fn new((output, ends): (Output, Vec<i32>)) -> Run {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Run { stdout: text(output.stdout), stderr: text(output.stderr), ends }
    }

    /// The first line of the only report, without its pid, and the functions in it, without offsets and files.
    fn crash(&self) -> (String, Vec<String>) {
        let mut crashes = self.crashes();
        assert_eq!(crashes.len(), 1, "{}", self.stderr);
        crashes.remove(0)
    }

    fn crashes(&self) -> Vec<(String, Vec<String>)> {
        let mut crashes: Vec<(String, Vec<String>)> = Vec::new();
        for line in self.stderr.lines() {
            match line.strip_prefix("cox:   ") {
                Some(frame) => {
                    let (_, functions) = crashes.last_mut().unwrap();
                    let name = frame.split_once(' ').map_or(frame, |(_, place)| place);
                    functions.push(name.split(['+', ' ']).next().unwrap().to_owned());
                }
                None => crashes.push((line.strip_prefix("cox: ULP ").unwrap().to_owned(), Vec::new())),
            }
        }
        crashes
    }
}

/// Runs a program with and without backtraces: what it prints, and how all end, must be the same.
fn both(place: &Place, count: usize, program: &str, arguments: &[&str]) -> Run {
    let (without, ends) = place.run(count, program, arguments);
    let run = Run::new(place.run_with_backtrace(count, program, arguments));
    assert_eq!((&run.stdout, &run.ends), (&String::from_utf8(without.stdout).unwrap(), &ends), "{arguments:?}");
    assert!(without.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&without.stderr));
    run
}

/// The functions of a crash are these ones from the innermost one on, with any others in the place of `..` and at the end.
fn assert_functions(functions: &[String], right: &[&str]) {
    let mut left = functions;
    for (number, parts) in right.split(|name| *name == "..").enumerate() {
        let starts =
            |rest: &[String]| rest.len() >= parts.len() && rest.iter().zip(parts).all(|(one, part)| one == part);
        let at = (0..=left.len()).find(|at| starts(&left[*at..]));
        let at = at.filter(|at| number > 0 || *at == 0).unwrap_or_else(|| panic!("{right:?}: {functions:#?}"));
        left = &left[at + parts.len()..];
    }
}

#[test]
fn a_crash_names_the_ulp_and_where_it_happened() {
    let place = Place::new();
    let program = place.compile("crash", &[]);
    let cases: [(&str, i32, &str, &[&str]); 8] = [
        ("null", 11, "(Segmentation fault), address 0x10", &["write_nowhere", "crash", "main"]),
        ("call", 11, "(Segmentation fault), address 0x0", &["0x0", "call_nowhere", "crash", "main"]),
        ("divide", 8, "(Floating point exception)", &["divide", "crash", "main"]),
        ("abort", 6, "(Aborted)", &["..", "give_up", "crash", "main"]),
        ("raise", 11, "(Segmentation fault)", &["..", "crash", "main"]),
        ("realigned", 11, "(Segmentation fault), address 0x10", &["write_nowhere", "realigned", "crash", "main"]),
        (
            "handler",
            11,
            "(Segmentation fault), address 0x10",
            &["write_nowhere", "on_signal", "<signal", "..", "crash", "main"],
        ),
        ("blocked", 6, "(Aborted)", &["..", "crash", "main"]),
    ];
    for mode in ["coupled", "decoupled"] {
        for (how, signal, what, functions) in cases {
            let run = both(&place, 1, &program, &[mode, how]);
            let (first, found) = run.crash();
            assert_eq!(run.ends, [-signal], "{mode} {how}");
            assert!(first.starts_with("0 (pid ") && !first.contains("thread"), "{first}");
            assert!(first.ends_with(&format!(") was ended by signal {signal} {what}")), "{mode} {how}: {first}");
            assert_functions(&found, functions);
            let stays = place.told()["stays"].as_u64().unwrap();
            assert_eq!(stays > 0, mode == "decoupled" && place.told()["no_carriers"].is_null(), "{how}");
        }
    }
}

#[test]
fn an_overflow_of_the_stack_is_reported_from_another_stack() {
    let place = Place::new();
    let program = place.compile("crash", &[]);
    let run = both(&place, 1, &program, &["coupled", "overflow"]);
    let (first, functions) = run.crash();
    assert!(run.ends == [-11] && first.contains("Segmentation fault"), "{first}");
    assert_eq!(functions.len(), 65, "{functions:?}");
    assert!(functions[..64].iter().all(|name| name == "recurse"), "{functions:?}");
}

#[test]
fn a_second_thread_is_named() {
    let place = Place::new();
    let program = place.compile("crash", &[]);
    let run = both(&place, 1, &program, &["coupled", "thread"]);
    let (first, functions) = run.crash();
    assert!(run.ends == [-11] && first.contains(", thread "), "{first}");
    assert_functions(&functions, &["write_nowhere", "in_thread"]);
    assert!(!functions.contains(&"main".to_owned()), "{functions:?}");
}

#[test]
fn stripped_programs_show_addresses() {
    let place = Place::new();
    let program = place.compile("crash", &["-s"]);
    let run = both(&place, 1, &program, &["coupled", "null"]);
    let (_, functions) = run.crash();
    assert!(functions.len() >= 4 && functions[..3].iter().all(|name| name.starts_with("0x")), "{functions:?}");
    assert_eq!(run.stderr.matches(&format!("({program})\n")).count(), 4, "{}", run.stderr);
}

/// Each has a pid and a report of its own; the functions of all are the same.
#[test]
fn all_ulps_can_crash_at_once() {
    let place = Place::new();
    let program = place.compile("crash", &[]);
    for mode in ["coupled", "decoupled"] {
        let run = both(&place, 8, &program, &[mode, "null"]);
        let mut crashes = run.crashes();
        crashes.sort();
        assert_eq!((crashes.len(), &run.ends), (8, &vec![-11; 8]));
        for (number, (first, functions)) in crashes.iter().enumerate() {
            assert!(first.starts_with(&format!("{number} (pid ")), "{first}");
            assert_functions(functions, &["write_nowhere", "crash", "main"]);
        }
    }
}

/// So many are looked into; the exit table has all.
#[test]
fn many_crashes_are_reported_in_short() {
    let place = Place::new();
    let program = place.compile("crash", &[]);
    let run = both(&place, 70, &program, &["coupled", "null"]);
    let crashes = run.crashes();
    let looked_into = crashes.iter().filter(|(_, functions)| functions.iter().any(|name| name == "main")).count();
    assert_eq!((crashes.len(), looked_into, run.ends), (70, 64, vec![-11; 70]));
}

#[test]
fn what_is_no_crash_of_a_ulp_is_not_reported() {
    let place = Place::new();
    let program = place.compile("crash", &[]);
    for (how, stdout, end) in [("own", "handled\n", 3), ("fork", "11\n", 0), ("execute", "", -11), ("none", "", 0)] {
        let run = both(&place, 2, &program, &["coupled", how]);
        assert_eq!((run.stdout, run.stderr, run.ends), (stdout.repeat(2), String::new(), vec![end; 2]), "{how}");
    }
}

/// The child of a vfork shares the memory of its parent, whose crash is reported all the same.
#[test]
fn the_crash_of_a_vforked_child_is_not_that_of_its_parent() {
    let place = Place::new();
    let program = place.compile("crash", &[]);
    let run = both(&place, 1, &program, &["coupled", "vfork"]);
    let (first, functions) = run.crash();
    assert!(run.stdout == "11\n" && run.ends == [-6] && first.ends_with("(Aborted)"), "{first}");
    assert_functions(&functions, &["..", "give_up", "crash", "main"]);
}

#[test]
fn a_ulp_that_a_ulp_has_started_is_reported() {
    let place = Place::new();
    let program = place.compile("crash", &[]);
    let mut host = place.host_with_backtrace(1, &program, &["coupled", "spawn"]);
    let output = host.env("PROGRAM", &program).output().unwrap();
    let run = Run::new((output, Vec::new()));
    let (first, functions) = run.crash();
    assert!(first.starts_with("1 (pid ") && run.stdout == "11\n", "{first} {}", run.stdout);
    assert_functions(&functions, &["write_nowhere", "crash", "main"]);
}

/// The host goes on if nobody reads its reports.
#[test]
fn a_report_that_nobody_reads_costs_the_other_ulps_nothing() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let script = "[ $RANK != 0 ] || kill -SEGV $$; sleep 0.3; echo $RANK";
    let mut host = place.host_with_backtrace(3, "sh", &["-c", script]);
    host.stderr(writer);
    let (output, ends) = place.ended(host);
    let mut lines: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!((lines, ends), (vec!["1", "2"], vec![-11, 0, 0]));
}

#[test]
fn a_signal_that_is_ignored_at_the_start_stays_ignored() {
    let place = Place::new();
    let program = place.compile("crash", &[]);
    let mut host = Command::new("sh");
    let by_host = place.host_with_backtrace(1, &program, &["coupled", "ignored"]);
    host.args(["-c", "trap '' ABRT; exec \"$@\"", "sh"]).arg(by_host.get_program()).args(by_host.get_args());
    let output = host.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// SIGABRT shows where a ULP is that does not go on: in a system call, in code of the kernel's, on a carrier, or waiting there for another ULP.
#[test]
fn a_signal_from_outside_shows_where_a_ulp_is() {
    let place = Place::new();
    let program = place.compile("crash", &[]);
    for (mode, how, function) in [
        ("coupled", "wait", "wait_for_signal"),
        ("coupled", "clock", "look_at_clock"),
        ("decoupled", "yield", "yield_for_ever"),
        ("decoupled", "suspended", "yield_for_ever"),
    ] {
        let mut host = Running::start_piped(place.host_with_backtrace(2, &program, &[mode, how]));
        let pids: Vec<String> = host.lines().take(2).collect();
        // They are where they stay by now.
        sleep(Duration::from_millis(100));
        for pid in &pids {
            Command::new("kill").args(["-ABRT", pid]).status().unwrap();
        }
        let run = Run { stdout: String::new(), stderr: host.errors(), ends: Vec::new() };
        let crashes = run.crashes();
        assert_eq!(crashes.len(), 2, "{}", run.stderr);
        for (first, functions) in crashes {
            assert!(first.contains("signal 6 (Aborted), sent by process "), "{first}");
            assert_functions(&functions, &["..", function, "crash", "main"]);
        }
    }
}
