//! `cox advise --runs`: real programs are run in each way.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use machine::Root;
use machine::limits::{Who, allowed_cpus};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testkit::run::{
    COX, Ran, children, end_of, path, root_with_two_cpus, run, send, shell_code, turn, wait_for, workload,
};

/// The command `cox advise --ncpus 2 --runs 3`, for programs whose number of threads the environment does not set.
fn advise(place: &TempDir, json: &str) -> Command {
    let mut command = Command::new(COX);
    command.args(["advise", "--ncpus", "2", "--runs", "3", "--json", json, "--"]).stdin(Stdio::null());
    for name in ["OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"] {
        command.env_remove(name);
    }
    command.env("COX_CHANGES", place.path().join("changes"));
    command
}

/// Runs the command, and returns the advice too, if there is one.
fn advised(place: &TempDir, how: impl FnOnce(&mut Command)) -> (Ran, Option<Value>) {
    let json = path(place, "advice.json");
    let mut command = advise(place, &json);
    how(&mut command);
    let ran = run(&mut command);
    let advice = fs::read_to_string(&json).ok().map(|text| serde_json::from_str(&text).unwrap());
    (ran, advice)
}

fn ways(advice: &Value) -> Vec<String> {
    let choices = advice["choices"].as_array().unwrap();
    let mut ways: Vec<String> = choices.iter().map(|choice| choice["way"].as_str().unwrap().to_owned()).collect();
    ways.sort();
    ways
}

fn choice<'a>(advice: &'a Value, way: &str) -> &'a Value {
    let found = advice["choices"].as_array().unwrap().iter().find(|choice| choice["way"] == way);
    found.unwrap_or_else(|| panic!("{way} in {advice}"))
}

/// What every advice must keep.
fn assert_sound(advice: &Value) {
    let choices = advice["choices"].as_array().unwrap();
    let times: Vec<f64> = choices.iter().map(|choice| choice["time_ns"].as_f64().unwrap()).collect();
    // The first two are the way that may be fastest, and the one that may be faster than it by most.
    assert!(times.get(2..).is_none_or(<[f64]>::is_sorted), "{advice}");
    for choice in choices {
        let mut runs: Vec<u64> = choice["runs_ns"].as_array().unwrap().iter().map(|ns| ns.as_u64().unwrap()).collect();
        runs.sort_unstable();
        assert_eq!(choice["runs"].as_u64().unwrap(), runs.len() as u64);
        assert!([2, 3, 6, 12, 24].contains(&runs.len()), "{advice}");
        if runs.len() == 3 {
            assert_eq!(choice["time_ns"], runs[1], "the median");
        }
        let end = |name: &str| choice[name].as_f64().unwrap();
        assert!(end("low_ns") <= end("time_ns") && end("time_ns") <= end("high_ns"), "{advice}");
    }
    let tried = &advice["tried"];
    let high = tried["interval"][1].as_f64().unwrap();
    assert_eq!(tried["answer"] == "fastest", high < 1.0, "{tried}");
    assert_eq!(tried["fastest"].is_null(), high >= 1.0, "{tried}");
}

#[test]
fn more_threads_than_cpus_are_compared_with_fewer() {
    if root_with_two_cpus("more_threads_than_cpus_are_compared_with_fewer").is_none() {
        return;
    }
    let _turn = turn();
    let place = TempDir::new().unwrap();
    let (ran, advice) = advised(&place, |command| {
        command.args([&workload("kernel-cg"), "--steps", "200"]).env("OMP_NUM_THREADS", "3");
    });
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let advice = advice.unwrap();
    assert_sound(&advice);
    assert_eq!(ways(&advice), ["active", "fewer_threads", "one_thread", "packing", "passive", "taskset"]);
    assert_eq!(
        (&advice["threads"], &advice["cpus"], &advice["run"]["basis"]),
        (&3.into(), &2.into(), &"measured".into())
    );
    let fewer = choice(&advice, "fewer_threads");
    assert_eq!(fewer["threads"], 2);
    assert!(fewer["note"].as_str().unwrap().starts_with("OMP_NUM_THREADS=2"), "{advice}");
    // Three threads on two CPUs take at least a third longer, because two of them share a CPU. Beside other programs, it may be the other way round.
    let time = |way| choice(&advice, way)["time_ns"].as_f64().unwrap();
    let is_quiet = advice["run"]["others"].as_f64().is_none_or(|others| others < 0.05);
    assert!(!is_quiet || time("fewer_threads") * 1.1 < time("taskset"), "{advice}");
    assert!(ran.stderr.contains("measured in ") && ran.stderr.contains(" runs of each way"), "{}", ran.stderr);
    assert!(ran.stderr.contains("2 threads") && ran.stderr.contains("1 thread "), "{}", ran.stderr);
    // Each run has cox's output: the observed ones, and two of each way that is far slower, and three, six, twelve or 24 of the others.
    let runs: u64 = advice["choices"].as_array().unwrap().iter().map(|choice| choice["runs"].as_u64().unwrap()).sum();
    assert_eq!(ran.text().matches("checksum").count() as u64, runs + 2);
}

#[test]
fn a_program_that_sets_its_threads_itself_is_noticed() {
    if root_with_two_cpus("a_program_that_sets_its_threads_itself_is_noticed").is_none() {
        return;
    }
    let _turn = turn();
    let place = TempDir::new().unwrap();
    let (ran, advice) = advised(&place, |command| {
        command.args([&workload("kernel-cg"), "--steps", "100", "--threads", "3"]);
    });
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let advice = advice.unwrap();
    assert_sound(&advice);
    assert_eq!(ways(&advice), ["active", "packing", "passive", "taskset"]);
    assert!(advice["tried"]["notes"][0].as_str().unwrap().contains("does not change"), "{advice}");
    assert!(ran.stderr.contains("Not tried: OMP_NUM_THREADS does not change"), "{}", ran.stderr);
}

#[test]
fn other_programs_are_only_packed() {
    if root_with_two_cpus("other_programs_are_only_packed").is_none() {
        return;
    }
    let _turn = turn();
    let place = TempDir::new().unwrap();
    let (ran, advice) = advised(&place, |command| {
        command.args([
            &workload("barriers"),
            "--threads",
            "3",
            "--wait",
            "futex",
            "--work-us",
            "2000",
            "--rounds",
            "100",
        ]);
    });
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let advice = advice.unwrap();
    assert_sound(&advice);
    assert_eq!(ways(&advice), ["packing", "taskset"]);
    assert!(ran.stderr.contains("Not tried: cox does not know how to set"), "{}", ran.stderr);
}

#[test]
fn what_leaves_nothing_to_try_is_said_in_one_line() {
    if root_with_two_cpus("what_leaves_nothing_to_try_is_said_in_one_line").is_none() {
        return;
    }
    let _turn = turn();
    let place = TempDir::new().unwrap();
    let hog = workload("hog");
    for (threads, seconds, part) in
        [("2", "0.4", "there is no other way to try"), ("1", "0.4", "one thread does all"), ("3", "0.03", "too short")]
    {
        let (ran, advice) = advised(&place, |command| {
            command.args([&hog, "--threads", threads, "--seconds", seconds]);
        });
        let last = ran.stderr.lines().last().unwrap_or_default();
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(last.starts_with("cox: ") && last.contains(part), "{threads} threads: {}", ran.stderr);
        assert_eq!(advice, None, "nothing was advised");
    }
}

#[test]
fn a_run_that_fails_ends_the_series_with_its_code() {
    if root_with_two_cpus("a_run_that_fails_ends_the_series_with_its_code").is_none() {
        return;
    }
    let _turn = turn();
    let place = TempDir::new().unwrap();
    let fails = |script: &str, code: i32, part: &str| {
        let (ran, advice) = advised(&place, |command| {
            command.args(["sh", "-c", script]).env("OMP_NUM_THREADS", "3");
        });
        assert_eq!((ran.code, advice), (code, None), "{}", ran.stderr);
        let ours: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("cox: ")).collect();
        assert!(ours.len() == 1 && ours[0].contains(part), "{}", ran.stderr);
    };
    fails("exit 7", 7, "a run failed with exit code 7 (as it is)");
    fails("kill -SEGV $$", 139, "signal 11 ended a run (as it is)");
    let only_three = format!("[ $OMP_NUM_THREADS = 3 ] || exit 4; exec {} --steps 60", workload("kernel-cg"));
    fails(&only_three, 4, "a run failed with exit code 4 (OMP_NUM_THREADS=2)");
    assert_eq!(advised(&place, |command| _ = command.arg("/no/such/program")).0.code, 127);
}

#[test]
fn an_interrupt_ends_the_run_and_the_series() {
    if root_with_two_cpus("an_interrupt_ends_the_run_and_the_series").is_none() {
        return;
    }
    let _turn = turn();
    let place = TempDir::new().unwrap();
    let (json, messages) = (path(&place, "advice.json"), path(&place, "messages"));
    let mut command = advise(&place, &json);
    command.args([&workload("hog"), "--threads", "3", "--seconds", "50"]);
    let mut cox = command.stdout(Stdio::null()).stderr(fs::File::create(&messages).unwrap()).spawn().unwrap();
    let is_program =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == "hog");
    let program = wait_for("the program", || children(cox.id()).into_iter().find(is_program));
    // It must be allowed to use only the two CPUs from the start.
    let allowed = allowed_cpus(&Root::live(), Who::Task(program)).unwrap();
    assert_eq!(allowed.len(), 2, "{allowed}");
    send(cox.id(), Signal::INT);
    assert_eq!(shell_code(end_of(&mut cox)), 130);
    let told = fs::read_to_string(&messages).unwrap();
    assert!(told.lines().last().unwrap().contains("no advice: interrupted (as it is)"), "{told}");
    assert!(!Path::new(&json).exists(), "nothing was advised");
}
