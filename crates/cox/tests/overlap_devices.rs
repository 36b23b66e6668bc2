//! `cox run --overlap`: tasks blocked by files and mapped pages of a slow disk, or by sleep, and more blocked tasks than doorbells.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

use testkit::built::temporary;
use testkit::group::Group;
use testkit::overlapped::{Place, WAYS, diagnostics, number, threads_and_ways, with_program};
use testkit::run::path;
use testkit::skip::{Need, skip};

/// What `held.c` ends with where the system has no such thing.
const NOT_HERE: i32 = 77;
/// What programs end with whose tasks wait for ever.
const HANGS: i32 = 3;

fn held(test: &str) -> Option<Place> {
    with_program(test, "tests/programs/held.c", &[])
}

/// Tasks that something holds.
trait Holds {
    /// Tasks that `what` holds until a later task lets them go: the program's exit code, or `None` if there is no such thing here.
    fn holds(&self, test: &str, what: &str, seconds: &str, way: &str, threads: &str) -> Option<i32>;
}

impl Holds for Place {
    fn holds(&self, test: &str, what: &str, seconds: &str, way: &str, threads: &str) -> Option<i32> {
        let files = path(&self.folder, "files");
        fs::create_dir_all(&files).unwrap();
        let output = self.run(way, &[what, seconds, &files], threads);
        if output.status.code() == Some(NOT_HERE) {
            skip(test, Need::SlowDisk, String::from_utf8_lossy(&output.stderr));
            return None;
        }
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{way}, {what}, {threads} threads");
        output.status.code()
    }
}

fn are_let_go(test: &str, what: &str) {
    let Some(place) = held(test) else { return };
    for (threads, way) in threads_and_ways() {
        let Some(code) = place.holds(test, what, "20", way, threads) else { return };
        assert_eq!(code, 0, "{way}, {what}, {threads} threads");
        let report = place.report();
        assert!(number(&report, "standbys") > 0 && number(&report, "tasks") > 0, "{way}, {what}: {report}");
        assert_eq!(diagnostics(&report), "[]", "{way}, {what}, {threads} threads");
    }
    // What lets them go is the doorbell.
    let code = place.holds(test, what, "1", "--overlap=off", "8");
    assert_eq!(code, Some(HANGS), "{what}, without doorbells");
}

#[test]
fn reads_of_a_slow_disk_are_let_go_by_later_tasks() {
    are_let_go("reads_of_a_slow_disk_are_let_go_by_later_tasks", "reads");
}

#[test]
fn page_faults_on_a_file_mapping_are_let_go_by_later_tasks() {
    are_let_go("page_faults_on_a_file_mapping_are_let_go_by_later_tasks", "faults");
}

#[test]
fn sleeps_are_ended_by_later_tasks() {
    are_let_go("sleeps_are_ended_by_later_tasks", "sleeps");
}

#[test]
fn more_tasks_than_bells_may_be_blocked_at_a_time() {
    let Some(place) = held("more_tasks_than_bells_may_be_blocked_at_a_time") else { return };
    // 64 beside the team: as many standbys as there may be.
    for (threads, team) in [("1", 1), ("2", 2), ("8", 8)] {
        let most = (64 + team).to_string();
        for way in WAYS {
            // More come than can be blocked: the rest runs as soon as the first are let go. That there were too many is said.
            let output = place.run(way, &["many", "20", "300", &most], threads);
            assert_eq!(output.status.code(), Some(0), "{way}, {threads} threads: {output:?}");
            let report = place.report();
            assert_eq!(number(&report, "standbys"), 64, "{report}");
            assert!(diagnostics(&report).contains("could not be made: a process may have at most 64"), "{report}");
        }
    }
    // One more is one too many, as the documentation says; under libgomp it is the third already.
    let output = place.run(WAYS[0], &["many", "2", "300", "67"], "2");
    assert_eq!(output.status.code(), Some(HANGS), "{output:?}");
    let output = place.run("--overlap=off", &["many", "1", "300", "3"], "2");
    assert_eq!(output.status.code(), Some(HANGS), "{output:?}");
}

#[test]
fn pages_of_processes_that_have_ended_are_given_again() {
    let Some(place) = held("pages_of_processes_that_have_ended_are_given_again") else { return };
    // More than there are pages; and the first ones ended before the last ones began.
    let script = "for n in $(seq 140); do \"$0\" many 5 4 4 || exit; done";
    for way in WAYS {
        let mut command = place.cox_of(way, Path::new("sh"));
        command.args(["-c", script]).arg(&place.program).env("OMP_NUM_THREADS", "2");
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{way}: {output:?}");
        let report = place.report();
        assert_eq!((number(&report, "processes"), diagnostics(&report).as_str()), (140, "[]"), "{way}");
        // What the first ones did is not forgotten: without standbys each would have hung.
        assert!(number(&report, "tasks") >= 140 && number(&report, "standbys") >= 280, "{way}: {report}");
    }
}

/// Requests per second to the slow disk.
const REQUESTS: u32 = 20;

#[test]
fn tasks_run_while_the_whole_team_waits_for_the_disk() {
    let test = "tasks_run_while_the_whole_team_waits_for_the_disk";
    let Some(place) = with_program(test, "tests/programs/disk.c", &[]) else { return };
    // Not /tmp, which may be memory.
    let file = tempfile::Builder::new().tempfile_in(temporary()).unwrap();
    let slow = match Group::with_slow_disk(&temporary(), REQUESTS) {
        Ok(slow) => slow,
        Err(why) => return skip(test, Need::SlowDisk, why),
    };
    let (file, procs) = (file.path().to_str().unwrap(), slow.tasks());
    for how in ["reads", "faults"] {
        let meanwhile = |way: &str, threads: &str| {
            let output = place.run(way, &[how, file, procs.to_str().unwrap()], threads);
            assert_eq!(output.status.code(), Some(0), "{way}, {how}, {threads} threads: {output:?}");
            String::from_utf8_lossy(&output.stdout).trim_end().parse::<u32>().unwrap()
        };
        for (threads, way) in threads_and_ways() {
            assert_ne!(meanwhile(way, threads), 0, "{way}, {how}, {threads} threads");
        }
        for threads in ["1", "8"] {
            assert_eq!(meanwhile("--overlap=off", threads), 0, "{how}, {threads} threads, without doorbells");
        }
    }
}
