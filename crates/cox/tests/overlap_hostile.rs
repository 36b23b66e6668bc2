//! `cox run --overlap` of several processes, one of which overwrites all memory that the session gave it: no other process is affected.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::Output;

use testkit::overlapped::{Place, WAYS, diagnostics, number, with_program};

/// Tasks of one process that works, as the program has them.
const TASKS: u64 = 600;
/// The pages of one process, and those of its bells' rings that it may write.
const OWN_PAGES: u64 = 15 + 3 + 16;

fn hostile(test: &str) -> Option<Place> {
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../wire/include");
    with_program(test, "tests/programs/hostile.c", &[include])
}

/// Several programs at once.
trait Several {
    /// Several of them, by a shell.
    fn shell(&self, way: &str, script: &str) -> Output;
}

impl Several for Place {
    fn shell(&self, way: &str, script: &str) -> Output {
        let mut command = self.cox_of(way, Path::new("/bin/sh"));
        command.args(["-c", script, "sh"]).arg(&self.program).env("OMP_NUM_THREADS", "3").output().unwrap()
    }
}

/// As many processes that work were right, the others had pages of their own only, and the report has the former's figures.
fn assert_unharmed(place: &Place, output: &Output, way: &str, workers: u64, others: u64) {
    let said = String::from_utf8_lossy(&output.stdout);
    let right = said.lines().filter(|line| *line == "right").count() as u64;
    assert_eq!((right, output.status.code()), (workers, Some(0)), "{way}: {output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{way}: {output:?}");
    let reached: Vec<u64> = said.lines().filter_map(|line| line.strip_suffix(" pages")?.parse().ok()).collect();
    assert_eq!(reached.len() as u64, others, "{way}: {output:?}");
    assert!(reached.iter().all(|pages| (15..=OWN_PAGES).contains(pages)), "{way}: pages of others: {reached:?}");
    let report = place.report();
    assert_eq!(number(&report, "processes"), workers + others, "{way}: {report}");
    let (standbys, tasks) = (number(&report, "standbys"), number(&report, "tasks"));
    assert!((1..=64 * workers).contains(&standbys), "{way}: {report}");
    assert!((1..=TASKS * workers).contains(&tasks), "{way}: {report}");
    assert!(number(&report, "blocks") < 1_000_000 && number(&report, "rings") < 1_000_000, "{way}: {report}");
    assert!(diagnostics(&report).contains("impossible numbers"), "{way}: {report}");
}

#[test]
fn nonsense_in_one_process_pages_does_not_reach_the_others() {
    let Some(place) = hostile("nonsense_in_one_process_pages_does_not_reach_the_others") else { return };
    // One before those that work, and one after.
    let script = "$1 scribbles 1500 & one=$!; sleep 0.1; timeout 60 $1 works & two=$!; sleep 0.1; $1 scribbles 800 & three=$!; timeout 60 $1 works; \
                  worked=$?; wait $one && wait $two && wait $three && exit $worked";
    for way in WAYS {
        let output = place.shell(way, script);
        assert_unharmed(&place, &output, way, 2, 2);
    }
}

/// The next process does not get what a child of the one before can write.
#[test]
fn pages_of_a_process_that_has_ended_are_nobody_elses() {
    let Some(place) = hostile("pages_of_a_process_that_has_ended_are_nobody_elses") else { return };
    let script = "$1 bequeaths 2000; for time in 1 2 3 4; do sleep 0.15; timeout 60 $1 works || exit; done; sleep 0.6";
    for way in WAYS {
        let output = place.shell(way, script);
        assert_unharmed(&place, &output, way, 4, 1);
    }
}
