//! `cox advise` on real programs, and on reports of `cox run`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::run::{COX, Ran, is_root, path, root_with_two_cpus, run, turn, workload};

fn cox(place: &TempDir, arguments: &[&str]) -> Ran {
    let mut command = Command::new(COX);
    run(command.args(arguments).env("COX_CHANGES", place.path().join("changes")).stdin(Stdio::null()))
}

/// Root, and two CPUs.
fn can(test: &str) -> bool {
    root_with_two_cpus(test).is_some()
}

/// The time of a way.
fn time(advice: &Value, way: &str) -> f64 {
    let choice = advice["choices"].as_array().unwrap().iter().find(|choice| choice["way"] == way);
    choice.unwrap_or_else(|| panic!("{way} in {advice}"))["time_ns"].as_f64().unwrap()
}

/// What every advice must keep.
fn assert_sound(advice: &Value) {
    let figure = |value: &Value| value.as_f64().unwrap();
    let choices = advice["choices"].as_array().unwrap();
    for choice in choices {
        let [low, time, high] = ["low_ns", "time_ns", "high_ns"].map(|name| figure(&choice[name]));
        assert!(figure(&advice["bound_ns"]) <= low && low <= time && time <= high, "{advice}");
        assert!((figure(&choice["of_bound"]) - figure(&advice["bound_ns"]) / time).abs() < 1e-3, "{advice}");
    }
    assert!(choices.windows(2).all(|pair| figure(&pair[0]["time_ns"]) <= figure(&pair[1]["time_ns"]) * 1.002));
}

const SPINNING: [&str; 8] = ["--threads", "3", "--wait", "spin", "--iterations-per-us", "300", "--work-us", "3000"];

#[test]
fn a_spinning_program_is_advised_in_one_run_that_is_as_without_cox() {
    if !can("a_spinning_program_is_advised_in_one_run_that_is_as_without_cox") {
        return;
    }
    let _turn = turn();
    let place = TempDir::new().unwrap();
    let json = path(&place, "advice.json");
    let program = workload("barriers");
    let fixed = [&SPINNING[..], &["--rounds", "500"]].concat();
    let plain = run(Command::new(&program).args(&fixed));
    let ran = cox(&place, &[&["advise", "--ncpus", "2", "--json", &json, "--", &program][..], &fixed].concat());
    let checksum = |ran: &Ran| ran.text().lines().last().unwrap().split("checksum").nth(1).unwrap().to_owned();
    assert_eq!((ran.code, checksum(&ran)), (0, checksum(&plain)));
    let advice: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_sound(&advice);
    assert_eq!(
        (&advice["threads"], &advice["cpus"], &advice["run"]["basis"]),
        (&3.into(), &2.into(), &"measured".into())
    );
    assert!(time(&advice, "fewer_threads") < time(&advice, "taskset"), "{advice}");
    // No OpenMP, no policy of waiting to choose.
    assert!(advice["choices"].as_array().unwrap().iter().all(|choice| choice["way"] != "passive"));
    for part in [
        "3 threads on CPUs 0-1",
        "of the bound",
        "← best",
        "2 threads",
        "taskset",
        "packing (cox pack)",
        "if it accepts 2 threads",
    ] {
        let said = ran.stderr.replace("<- best", "← best");
        // The machine's first two CPUs need not be 0 and 1.
        assert!(said.contains(part) || part.contains("0-1"), "{part}: {said}");
    }
}

#[test]
fn openmp_programs_can_be_told_and_their_waiting_policy_is_not_forecast() {
    if !can("openmp_programs_can_be_told_and_their_waiting_policy_is_not_forecast") {
        return;
    }
    let _turn = turn();
    let place = TempDir::new().unwrap();
    let json = path(&place, "advice.json");
    let kernel = workload("kernel-fft");
    let ran = cox(
        &place,
        &["advise", "-q", "--ncpus", "2", "--json", &json, "--", &kernel, "--threads", "3", "--steps", "400"],
    );
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let advice: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_sound(&advice);
    let untold = advice["not_forecast"][0].as_str().unwrap();
    assert!(untold.contains("OMP_WAIT_POLICY") && untold.contains("--runs"), "{untold}");
    let fewer = advice["choices"].as_array().unwrap().iter().find(|choice| choice["way"] == "fewer_threads").unwrap();
    assert_eq!((&fewer["threads"], &fewer["note"]), (&2.into(), &"OMP_NUM_THREADS=2".into()));
}

#[test]
fn what_leaves_nothing_to_choose_is_said_in_one_line_and_ends_as_the_program() {
    if !can("what_leaves_nothing_to_choose_is_said_in_one_line_and_ends_as_the_program") {
        return;
    }
    let _turn = turn();
    let place = TempDir::new().unwrap();
    let hog = workload("hog");
    for (arguments, part) in [
        (vec![hog.as_str(), "--threads", "2", "--seconds", "0.5"], "2 working threads on 2 CPUs: nothing to pack"),
        (vec![hog.as_str(), "--threads", "1", "--seconds", "0.5"], "one thread"),
        (vec![hog.as_str(), "--threads", "3", "--seconds", "0.05"], "too short"),
    ] {
        let json = path(&place, "none.json");
        let ran = cox(&place, &[&["advise", "--ncpus", "2", "--json", &json, "--"][..], &arguments].concat());
        let last = ran.stderr.lines().last().unwrap_or_default().to_owned();
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        assert!(last.starts_with("cox: ") && last.contains(part), "{arguments:?}: {}", ran.stderr);
        assert!(!Path::new(&json).exists(), "nothing was advised");
    }
    let ran = cox(&place, &["advise", "--ncpus", "1", "--", "sh", "-c", "exit 7"]);
    assert_eq!(ran.code, 7);
    assert_eq!(cox(&place, &["advise", "--ncpus", "1", "--", "/no/such/program"]).code, 127);
}

#[test]
fn a_report_of_cox_run_is_enough() {
    if !can("a_report_of_cox_run_is_enough") {
        return;
    }
    let _turn = turn();
    let place = TempDir::new().unwrap();
    let report = path(&place, "run.json");
    let program = workload("barriers");
    let fixed = [&SPINNING[..], &["--rounds", "300"]].concat();
    let ran = cox(&place, &[&["run", "-q", "--json", &report, "--", &program][..], &fixed].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let advised = cox(&place, &["advise", "-q", "--ncpus", "2", "--json", "-", "--from", &report]);
    assert_eq!((advised.code, advised.stderr.as_str()), (0, ""));
    let advice: Value = serde_json::from_str(&advised.text()).unwrap();
    assert_sound(&advice);
    assert_eq!((&advice["threads"], &advice["run"]["basis"]), (&3.into(), &"modelled".into()));
    assert!(time(&advice, "fewer_threads") < time(&advice, "taskset"), "{advice}");
    let text = cox(&place, &["advise", "--ncpus", "1", "--from", &report]).stderr;
    assert!(text.contains("modelled from the account of a run") && text.contains("Forecast for 1 CPU:"), "{text}");
}

#[test]
fn reports_that_cannot_be_used_are_refused_in_one_line() {
    let place = TempDir::new().unwrap();
    let report = path(&place, "report.json");
    let refused = |content: &str, part: &str, code: i32| {
        fs::write(&report, content).unwrap();
        let ran = cox(&place, &["advise", "--ncpus", "2", "--from", &report]);
        assert_eq!((ran.code, ran.text().as_str()), (code, ""), "{content}: {}", ran.stderr);
        assert!(ran.stderr.contains(part) && ran.stderr.lines().count() == 1, "{content}: {}", ran.stderr);
    };
    refused("no JSON", "not JSON", 125);
    refused("{}", "no schema_version", 125);
    refused(&json!({"schema_version": 99}).to_string(), "schema_version is 99", 125);
    refused(&json!({"schema_version": 1}).to_string(), "not a report of cox run", 125);
    let ran = cox(&place, &["advise", "--ncpus", "2", "--from", "/no/such/report"]);
    assert!(ran.code == 125 && ran.stderr.contains("/no/such/report"), "{}", ran.stderr);
    // A program whose threads all have a CPU.
    if is_root("reports_that_cannot_be_used_are_refused_in_one_line") {
        let ran = cox(
            &place,
            &["run", "-q", "--json", &report, "--", &workload("hog"), "--threads", "2", "--seconds", "0.3"],
        );
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let document = fs::read_to_string(&report).unwrap();
        refused(&document, "nothing to pack", 1);
    }
}

#[test]
fn wrong_options_are_refused_before_anything_starts() {
    let place = TempDir::new().unwrap();
    for (arguments, part) in [
        (vec!["--", "sh", "-c", "echo started"], "--cpus"),
        (vec!["--ncpus", "0", "--", "sh", "-c", "echo started"], "at least 1"),
        (vec!["--ncpus", "9999", "--", "sh", "-c", "echo started"], "may use"),
        (vec!["--ncpus", "1"], "PROGRAM"),
        (vec!["--ncpus", "1", "--from", "x", "--", "sh"], "cannot be used with"),
        (vec!["--ncpus", "1", "--runs", "2", "--", "sh", "-c", "echo started"], "3..=100"),
        (vec!["--ncpus", "1", "--runs", "3", "--from", "x"], "cannot be used with"),
        (vec!["--ncpus", "9999", "--runs", "3", "--", "sh", "-c", "echo started"], "may use"),
        (vec!["--ncpus", "1", "--json", "/no/such/folder/x", "--", "sh", "-c", "echo started"], "/no/such/folder"),
    ] {
        let ran = cox(&place, &[&["advise"][..], &arguments].concat());
        assert_eq!((ran.code, ran.text().as_str()), (125, ""), "{arguments:?}");
        assert!(ran.stderr.contains(part) && ran.stderr.lines().count() == 1, "{arguments:?}: {}", ran.stderr);
    }
}
