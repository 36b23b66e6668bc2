//! `cox pack simulate` from the command line.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::{Command, Output};

use serde_json::Value;

fn simulate(arguments: &str) -> Output {
    let words = arguments.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_cox")).args(["pack", "simulate"]).args(words).output().unwrap()
}

fn simulated(arguments: &str) -> Value {
    let output = simulate(&format!("{arguments} --json -"));
    assert!(output.status.success(), "{output:?}");
    let mut simulation: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Two runs may begin in different seconds.
    simulation["provenance"]["date"].take();
    simulation
}

/// How many times the ideal a way takes.
fn slowdown(simulation: &Value, how: &str) -> f64 {
    let way = simulation["ways"].as_array().unwrap().iter().find(|way| way["how"] == how);
    way.unwrap_or_else(|| panic!("{how} in {simulation}"))["slowdown"].as_f64().unwrap()
}

#[test]
fn every_way_is_there_and_the_same_seed_is_the_same_run() {
    let line = "--threads 3 --ncpus 2 --work-us 1000 --spread 20 --phases 300 --seed 7";
    let simulation = simulated(line);
    assert_eq!(simulation, simulated(line));
    assert_ne!(simulation["ways"], simulated(&line.replace("--seed 7", "--seed 8"))["ways"]);
    assert_eq!((&simulation["simulated"], &simulation["phases"]), (&Value::Bool(true), &Value::from(300)));
    assert_eq!(simulation["ideal_ns"], 450_000_000);
    let [taskset, fixed, packed, fewer] =
        ["taskset", "best_fixed", "packed", "fewer_threads"].map(|how| slowdown(&simulation, how));
    assert!(fewer < fixed && fixed <= packed * 1.01 && packed < taskset, "{simulation}");
}

/// The figure of the bound, ceil(N/C) * C/N, and what slow CPUs make of it.
#[test]
fn the_machine_is_as_described() {
    let bound = |line: &str| simulated(line)["static_slowdown"].as_f64().unwrap();
    assert!((bound("--threads 16 --ncpus 15 --phases 2") - 1.875).abs() < 1e-9);
    // 7 + 8/2 for 16 threads: no CPU can have more than its share, and slow ones take twice as long.
    let hybrid = simulated("--threads 16 --fast 7 --slow 8 --slow-capacity 512 --phases 2");
    assert_eq!(hybrid["capacities"].as_array().unwrap().len(), 15);
    assert_eq!(hybrid["ideal_ns"].as_u64(), Some(2 * 16_000_000 / 11));
    // Nothing costs anything, everybody has a CPU.
    let free = "--threads 2 --ncpus 2 --switch-us 0 --wake-us 0 --move-us 0 --tick-us 0 --order-us 0 --phases 9";
    assert_eq!(slowdown(&simulated(free), "taskset"), 1.0);
    // A waking that costs as much as the work doubles the phases of those who sleep.
    let woken = simulated("--threads 2 --ncpus 2 --wait futex --work-us 100 --wake-us 100 --phases 99 --spread 10");
    assert!(slowdown(&woken, "taskset") > 1.5, "{woken}");
}

#[test]
fn what_is_printed_says_that_it_is_simulated() {
    let output = simulate("--threads 4 --ncpus 3 --phases 5 --wait futex");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("cox: simulated") && text.contains("3 threads") && text.contains("taskset"), "{text}");
    let alone = String::from_utf8(simulate("--threads 2 --ncpus 2 --phases 5").stdout).unwrap();
    assert!(alone.lines().filter(|line| line.contains("2 threads")).count() == 1, "no fewer threads: {alone}");
}

#[test]
fn wrong_options_are_refused_in_one_line() {
    for line in [
        "",
        "--threads 3",
        "--threads 0 --ncpus 2",
        "--threads 3 --ncpus 2 --fast 1",
        "--threads 3 --ncpus 2 --wait dance",
        "--threads 3 --ncpus 2 --spread 101",
        "--threads 3 --ncpus 2 --period 1us",
        "--threads 3 --slow 2 --slow-capacity 0",
        "--threads 3 --ncpus 2 --move-us -1",
    ] {
        let output = simulate(line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{line}: {said}");
        assert!(output.stdout.is_empty());
    }
    assert_eq!(simulate("--threads 3 --ncpus 2 --phases 2 --json /no/such/folder/x").status.code(), Some(125));
}
