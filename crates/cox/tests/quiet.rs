//! `cox quiet` on this machine: what it refuses, what it changes, and that everything comes back.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use machine::{CpuSet, Root};
use quiet::{Extent, Facts, Level, Task, TaskList, Tasks, choose};
use report::quiet::QuietReport;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use testkit::guardians;
use testkit::machine_state::{MachineState, not_restored};
use testkit::repeated;
use testkit::skip::{Need, is_root, skip};

fn plan(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cox")).args(["quiet", "plan"]).args(words).output().unwrap()
}

/// The present values of all settings of the checklist, of interrupts and of cpusets.
fn settings() -> String {
    let facts = Facts::read(&Root::live()).unwrap();
    format!(
        "{:?} {:?} {:?}",
        facts.files,
        facts.interrupts.iter().map(|one| &one.affinity).collect::<Vec<_>>(),
        facts.partitions
    )
}

#[test]
fn what_cannot_become_quiet_is_refused_in_one_line() {
    let all = Facts::read(&Root::live()).unwrap().topology.online;
    let count = all.len().to_string();
    for (words, why) in [
        (&["--cpus", &all.to_string()][..], "no CPU would be left"),
        (&["--ncpus", &count], "no CPU would be left"),
        (&["--ncpus", "0"], "at least 1"),
        (&["--cpus", "4000"], "not online: CPUs 4000"),
        (&["--cpus", ""], "no CPU is named"),
        (&["--ncpus", "1", "--level", "loud"], "no level 'loud'"),
        (&["--ncpus", "1", "--cpus", "1"], "cannot be used with"),
        (&[], "--cpus"),
    ] {
        let ran = plan(words);
        let said = String::from_utf8(ran.stderr).unwrap();
        // A machine with one CPU has another reason.
        let is_right = said.contains(why) || all.len() == 1 && said.contains("one CPU");
        assert!(ran.status.code() == Some(2) && is_right && said.lines().count() == 1, "{words:?}: {said}");
        assert!(ran.stdout.is_empty());
    }
}

#[test]
fn a_plan_changes_nothing_and_needs_no_privilege() {
    let test = "a_plan_changes_nothing_and_needs_no_privilege";
    if let Err(refusal) = choose(&Facts::read(&Root::live()).unwrap(), 1) {
        return skip(test, Need::Cpus, format_args!("no CPU can become quiet: {refusal}"));
    }
    let before = settings();
    let ran = plan(&["--ncpus", "1", "--json", "-"]);
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let plan = &document["plan"];
    assert_eq!((ran.status.code(), plan["level"].as_str()), (Some(0), Some("full")));
    let steps = plan["steps"].as_array().unwrap();
    assert_eq!((&steps[0]["level"], &steps[0]["wanted"]), (&"pin".into(), &plan["cpus"]));
    assert!(steps.iter().any(|step| step["level"] == "full" && step["now"] != step["wanted"]), "{plan}");
    assert_eq!(settings(), before);
    if rustix::process::geteuid().is_root() {
        // As another user.
        let program = env!("CARGO_BIN_EXE_cox");
        let words =
            ["--reuid", "65534", "--regid", "65534", "--clear-groups", program, "quiet", "plan", "--ncpus", "1"];
        let other = Command::new("setpriv").args(words).output().unwrap();
        let text = String::from_utf8(other.stdout).unwrap();
        assert!(other.status.success() && text.contains("nothing has been changed"), "{text}");
    }
}

/// What cox said, with nothing changed on the machine afterwards.
fn quiet(words: &[&str]) -> Output {
    let before = MachineState::read();
    let ran = Command::new(env!("CARGO_BIN_EXE_cox")).arg("quiet").args(words).output().unwrap();
    assert_eq!(not_restored(&before), [] as [String; 0], "{words:?}");
    ran
}

/// A CPU that can become quiet. Skips `test` for users who may change nothing, and where the choice or the plan refuses.
fn quiet_cpu(test: &str) -> Option<String> {
    if !is_root(test) {
        return None;
    }
    let facts = Facts::read(&Root::live()).unwrap();
    let chosen = match choose(&facts, 1) {
        Ok(chosen) => chosen,
        Err(refusal) => {
            skip(test, Need::Cpus, format_args!("no CPU can become quiet: {refusal}"));
            return None;
        }
    };
    let plan = quiet::plan(&facts, &chosen, Extent { level: Level::Full, isolated: false });
    if plan.cpusets.is_none() {
        let why = plan.obstacles.iter().find(|obstacle| obstacle.level == Level::Cgroup);
        skip(test, Need::Cgroup, why.map_or("no cpuset can be made", |why| &why.what));
        return None;
    }
    Some(chosen.cpus.to_string())
}

/// The threads that may use a CPU, but for those that the kernel binds to it.
fn users_of(cpu: &CpuSet) -> Vec<Task> {
    let facts = Facts::read(&Root::live()).unwrap();
    let tasks = Tasks::of(&Root::live(), facts.cpusets.mount()).unwrap().all().unwrap();
    tasks.into_iter().filter(|task| !task.mask.intersection(cpu).is_empty()).collect()
}

#[test]
fn a_program_has_the_quiet_cpu_alone_and_everything_comes_back() {
    let Some(cpu) = quiet_cpu("a_program_has_the_quiet_cpu_alone_and_everything_comes_back") else { return };
    let cpus: CpuSet = cpu.parse().unwrap();
    for level in ["pin", "cgroup", "no-balance", "irq", "work", "full"] {
        let before = MachineState::read();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cox"));
        command.args(["quiet", "--cpus", &cpu, "--level", level, "--", "sh", "-c", "echo $$; read line; exit 7"]);
        let mut cox = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(cox.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let program: u32 = line.trim().parse().unwrap();
        let users = users_of(&cpus);
        let own: Vec<&Task> = users.iter().filter(|task| task.process == program).collect();
        assert_eq!(own.iter().map(|task| &task.mask).collect::<Vec<_>>(), [&cpus], "{level}");
        let stays = |task: &&Task| match level {
            "pin" => false,
            "work" | "full" => task.process != program,
            _ => task.process != program && !task.is_of_kernel,
        };
        assert_eq!(users.iter().filter(stays).collect::<Vec<_>>(), [] as [&Task; 0], "{level}");
        let ran = cox.wait_with_output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.code() == Some(7) && said.contains(&format!("CPU {cpu} quiet for")), "{level}: {said}");
        assert!(level == "pin" || said.contains("everything is as it was"), "{level}: {said}");
        assert_eq!(not_restored(&before), [] as [String; 0], "{level}");
    }
}

#[test]
fn the_json_has_what_was_changed_and_what_came_nevertheless() {
    let Some(cpu) = quiet_cpu("the_json_has_what_was_changed_and_what_came_nevertheless") else { return };
    let ran = quiet(&["--quiet", "--cpus", &cpu, "--json", "-", "--", "sleep", "0.3"]);
    let report: QuietReport = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((report.cpus.as_str(), report.level.as_str(), report.isolated), (cpu.as_str(), "full", true));
    assert!(report.settings.iter().any(|setting| setting.level == "work") && report.threads_moved > 0, "{report:?}");
    assert!(report.undone.left.is_empty() && report.undone.restored > report.threads_moved, "{report:?}");
    assert!(report.length_ns >= 300_000_000, "{report:?}");
}

#[test]
fn what_is_applied_lasts_until_it_is_undone_and_drift_is_named() {
    let Some(cpu) = quiet_cpu("what_is_applied_lasts_until_it_is_undone_and_drift_is_named") else { return };
    let cox = |words: &[&str]| {
        let ran = Command::new(env!("CARGO_BIN_EXE_cox")).arg("quiet").args(words).output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stdout).unwrap() + &String::from_utf8(ran.stderr).unwrap())
    };
    let before = MachineState::read();
    let (code, said) = cox(&["apply", "--cpus", &cpu]);
    assert!(code == Some(0) && said.contains("cox quiet undo"), "{said}");
    let (code, said) = cox(&["status"]);
    assert!(code == Some(0) && said.starts_with(&format!("CPUs {cpu} are quiet")), "{said}");
    let (code, said) = cox(&["--cpus", &cpu, "--", "true"]);
    assert!(code == Some(2) && said.contains("another session keeps"), "{said}");
    let (interval, old) = ("/proc/sys/vm/stat_interval", "77\n");
    std::fs::write(interval, old).unwrap();
    let (code, said) = cox(&["status"]);
    assert!(code == Some(1) && said.contains("stat_interval: now \"77\", set by cox to: \"120\""), "{said}");
    let (_, said) = cox(&["undo"]);
    assert!(said.contains("which was not set by cox"), "somebody else's value stays: {said}");
    assert_eq!(std::fs::read_to_string(interval).unwrap(), old);
    let original = &before.settings[Path::new(interval)];
    std::fs::write(interval, original).unwrap();
    assert_eq!(not_restored(&before), [] as [String; 0]);
    assert_eq!(cox(&["status"]), (Some(0), "No CPU is quiet.\n".to_owned()));
}

/// At several times after the start, also while everything is being changed: first cox alone, whose guardian restores
/// everything, then cox and its guardian, after which `cox changes undo` does.
#[test]
fn killed_at_any_time_everything_comes_back() {
    let Some(cpu) = quiet_cpu("killed_at_any_time_everything_comes_back") else { return };
    let before = MachineState::read();
    let mut killed = 0;
    for round in 0..repeated(1) {
        for (ms, with_guardian) in
            [5, 10, 15, 20, 30, 40, 60, 100, 300].into_iter().flat_map(|ms| [(ms, false), (ms, true)])
        {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cox"));
            let mut cox = command.args(["quiet", "-q", "--cpus", &cpu, "--", "sleep", "0.4"]).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(ms));
            let guardians = guardians::of(cox.id());
            if with_guardian {
                killed += guardians.len();
                // It may have ended.
                guardians.iter().for_each(|pid| _ = kill_process(*pid, Signal::KILL));
            }
            cox.kill().unwrap();
            cox.wait().unwrap();
            if with_guardian {
                let undone = Command::new(env!("CARGO_BIN_EXE_cox")).args(["changes", "undo"]).output().unwrap();
                assert_eq!(undone.status.code(), Some(0), "{}", String::from_utf8_lossy(&undone.stderr));
            }
            assert_eq!(not_restored(&before), [] as [String; 0], "round {round}, {ms} ms, {guardians:?}");
        }
    }
    assert!(killed > 0, "no guardian was killed");
}

/// The program leaves a cgroup below that of its session, which the kernel does not remove then.
#[test]
fn what_cannot_be_restored_is_said_and_is_no_success() {
    let Some(cpu) = quiet_cpu("what_cannot_be_restored_is_said_and_is_no_success") else { return };
    let facts = Facts::read(&Root::live()).unwrap();
    let own = facts.cpusets.mount().unwrap().join(format!("cox-quiet-{cpu}"));
    let inner = own.join("inner");
    for verb in [["quiet", "--cpus"], ["run", "--quiet-cpus"]] {
        for (exit, code) in [("0", 1), ("7", 7)] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cox"));
            command.args([verb[0], "-q", verb[1], &cpu, "--", "sh", "-c", "mkdir $0; exit $1"]).arg(&inner).arg(exit);
            let ran = command.output().unwrap();
            // First, so that nothing stays if the test fails.
            let removed = [&inner, &own].map(|folder| std::fs::remove_dir(folder).is_ok());
            let said = String::from_utf8(ran.stderr).unwrap();
            assert_eq!((ran.status.code(), removed), (Some(code), [true, true]), "{verb:?}: {said}");
            let parts = ["not everything was put back", "was not restored", "to restore it: rmdir"];
            assert!(parts.iter().all(|part| said.contains(part)), "{verb:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{verb:?}: {said}");
        }
    }
}

#[test]
fn who_may_change_nothing_is_told_in_one_line_and_may_still_pin() {
    let Some(cpu) = quiet_cpu("who_may_change_nothing_is_told_in_one_line_and_may_still_pin") else { return };
    for (level, code, said) in [("full", 125, "only root may change"), ("pin", 0, "quiet for")] {
        let cox = [env!("CARGO_BIN_EXE_cox"), "quiet", "--cpus", &cpu, "--level", level, "--", "true"];
        let words = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        let ran = Command::new("setpriv").args(words).args(cox).output().unwrap();
        let err = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.code() == Some(code) && err.contains(said), "{level}: {err}");
        assert!(code == 0 || err.lines().count() == 1, "{err}");
    }
}
