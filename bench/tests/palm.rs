//! `cox-bench pack palm`: the exit code, what packing did, and that the affinity masks are restored when cox-bench is killed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use machine::limits::{Who, allowed_cpus};
use machine::{CpuSet, Root};
use testkit::skip::{Need, has, is_root};

const BENCH: &str = env!("CARGO_BIN_EXE_cox-bench");

/// Root, and a CPU of two or more.
fn one_of_two(test: &str) -> Option<(CpuSet, String)> {
    if !is_root(test) {
        return None;
    }
    let allowed = allowed_cpus(&Root::live(), Who::Own).unwrap();
    let one = allowed.last().unwrap().to_string();
    has(allowed.len() >= 2, test, Need::Cpus, "needs two CPUs").then_some((allowed, one))
}

#[test]
fn the_exit_code_is_the_programs_and_what_packing_did_is_written() {
    let Some((_, cpu)) = one_of_two("the_exit_code_is_the_programs_and_what_packing_did_is_written") else { return };
    let changes = tempfile::tempdir().unwrap();
    let mut command = Command::new(BENCH);
    command.args(["pack", "palm", "--cpus", &cpu, "--without", "locality,period", "--json", "-", "--"]);
    let script = "grep Cpus_allowed_list /proc/self/status >&2; sleep 0.3; exit 7";
    let output = command.args(["sh", "-c", script]).env("COX_CHANGES", changes.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("Cpus_allowed_list:\t{cpu}\n"));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["wall_ns"].as_u64().unwrap() >= 300_000_000, "{told}");
    assert_eq!(told["diagnostics"].as_array().unwrap().len(), 0, "{told}");
}

#[test]
fn what_cannot_be_packed_does_not_begin() {
    if !is_root("what_cannot_be_packed_does_not_begin") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let mut command = Command::new(BENCH);
    command.args(["pack", "palm", "--cpus", "4095", "--", "touch"]).arg(&mark);
    let output = command.env("COX_CHANGES", folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(!mark.exists());
}

#[test]
fn masks_are_back_when_it_is_killed() {
    let Some((allowed, cpu)) = one_of_two("masks_are_back_when_it_is_killed") else { return };
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("pid");
    let mut command = Command::new(BENCH);
    command.args(["pack", "palm", "--cpus", &cpu, "--", "sh", "-c", "echo $$ >\"$0\"; exec sleep 30"]).arg(&place);
    let mut bench = command.env("COX_CHANGES", folder.path().join("changes")).stdin(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    let wait_for = |subject: &str, holds: &dyn Fn() -> bool| {
        while !holds() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{subject}");
            sleep(Duration::from_millis(2));
        }
    };
    let pid = || fs::read_to_string(&place).ok()?.trim().parse::<u32>().ok();
    wait_for("the program", &|| pid().is_some());
    let pid = pid().unwrap();
    let mask = || allowed_cpus(&Root::live(), Who::Task(pid)).unwrap();
    wait_for("the pack", &|| mask() != allowed);
    bench.kill().unwrap();
    bench.wait().unwrap();
    wait_for("its mask", &|| mask() == allowed);
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
}
