//! The stopwatch that `cox-bench overhead start` reads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::Command;

use testkit::run::COX;

/// The lines of a stopwatch's file.
fn laps(file: &Path) -> Vec<(String, u64)> {
    let text = std::fs::read_to_string(file).unwrap();
    let line = |line: &str| {
        let (name, ns) = line.split_once('\t').unwrap();
        (name.to_owned(), ns.parse().unwrap())
    };
    text.lines().map(line).collect()
}

#[test]
fn the_parts_of_a_session_are_its_whole_time() {
    let folder = tempfile::tempdir().unwrap();
    for (name, arguments) in
        [("run", &["run", "--backend", "proc"][..]), ("pack", &["pack", "--backend", "proc", "--ncpus", "1"])]
    {
        let file = folder.path().join(name);
        let output =
            Command::new(COX).args(arguments).args(["--", "sleep", "0.5"]).env("COX_LAPS", &file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let all = laps(&file);
        let of = |wanted: &str| all.iter().find(|(name, _)| name == wanted).unwrap().1;
        let whole_ns = of("end") - of("begin");
        let sum_ns: u64 = all[2..].iter().map(|(_, ns)| ns).sum();
        // Between the last part and the look at the clock others may have the CPU.
        assert!(sum_ns <= whole_ns && sum_ns >= whole_ns / 10 * 9, "{name}: {sum_ns} of {whole_ns} {all:?}");
        // cox may hear of the exec when the program sleeps already.
        assert!(of("its exec") + of("the program runs") >= 500_000_000, "{name}: {all:?}");
        assert!(of("account and report") > 0, "{name}: {all:?}");
    }
}

#[test]
fn nothing_is_replaced_by_a_stopwatch() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("thesis.tex");
    std::fs::write(&file, "years").unwrap();
    let output =
        Command::new(COX).args(["run", "--backend", "proc", "--", "true"]).env("COX_LAPS", &file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("COX_LAPS"), "{output:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "years");
}
