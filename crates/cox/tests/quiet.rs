//! `cox quiet plan`: what it refuses, and that it changes nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::{Command, Output};

use machine::Root;
use quiet::Facts;
use serde_json::Value;

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
    if Facts::read(&Root::live()).unwrap().topology.online.len() == 1 {
        return;
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
