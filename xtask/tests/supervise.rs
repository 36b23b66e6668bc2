//! `cargo xtask supervise` kills every process that a test program leaves behind, also one in another session.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn supervise(limit: &str, script: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(["supervise", limit, "sh", "-c", script]).output().unwrap()
}

fn is_there(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn the_exit_code_is_the_programs() {
    assert_eq!(supervise("60", "exit 0").status.code(), Some(0));
    assert_eq!(supervise("60", "exit 7").status.code(), Some(7));
    assert_eq!(supervise("60", "kill -SEGV $$").status.code(), Some(139));
}

#[test]
fn what_is_left_behind_is_killed_and_named() {
    // In a session of its own, with an ignored signal, as a child of a child that has ended.
    let script = "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000; true' & ) ; sleep 0.2; exit 0";
    let output = supervise("60", &format!("echo $$; {script}"));
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("left behind") && said.contains("(sleep)"), "{said}");
    for pid in said.split_ascii_whitespace().filter(|word| word.parse::<u32>().is_ok()) {
        assert!(!is_there(pid), "{said}");
    }
    // A program that ends soon is none.
    assert_eq!(supervise("60", "(sleep 0.3 &) ; exit 0").status.code(), Some(0));
}

#[test]
fn a_program_that_never_ends_is_ended() {
    let began = Instant::now();
    let output = supervise("1", "echo $$; sleep 1000");
    assert_eq!(output.status.code(), Some(124));
    assert!(began.elapsed() < Duration::from_secs(60));
    assert!(!is_there(&String::from_utf8(output.stdout).unwrap()));
}

/// As nextest says that a test's time is over: to all of the process group.
#[test]
fn a_program_that_is_to_end_ends_with_all_it_started() {
    // The program that it started says its own number, so that it is in a session of its own when the signal comes.
    let script = "trap '' TERM; setsid sh -c 'echo $$; exec sleep 1000' & while :; do sleep 1; done";
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["supervise", "600", "sh", "-c", script]).process_group(0);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let name = format!("/proc/{}/comm", line.trim());
    while fs::read_to_string(&name).unwrap() != "sleep\n" {
        std::thread::sleep(Duration::from_millis(1));
    }
    rustix::process::kill_process_group(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(124));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("was stopped by SIGTERM") && said.contains("(sleep)"), "{said}");
    assert!(!is_there(&line), "{said}");
}

#[test]
fn signals_are_not_ignored_inside() {
    // As nohup and a shell's & have it.
    let ignoring = "trap '' INT HUP QUIT; exec \"$0\" supervise 60 sh -c 'grep SigIgn /proc/self/status'";
    let output = Command::new("sh").args(["-c", ignoring, env!("CARGO_BIN_EXE_xtask")]).output().unwrap();
    let line = String::from_utf8(output.stdout).unwrap();
    let mask = u64::from_str_radix(line.split_ascii_whitespace().nth(1).unwrap(), 16).unwrap();
    assert_eq!(mask & 0b111, 0, "HUP, INT and QUIT: {line}");
}
