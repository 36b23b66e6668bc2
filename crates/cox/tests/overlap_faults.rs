//! `cox run --overlap` of programs that lack a prerequisite: they continue, in the worst case as with libgomp alone, and cox reports it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use testkit::measured::assert_on_idle_cpus;
use testkit::overlapped::{Place, WAYS, diagnostics, number, rounds, with_program};
use testkit::run::{children, send, state, wait_for};

fn lacking(test: &str) -> Option<Place> {
    with_program(test, "tests/programs/lacking.c", &["-rdynamic"])
}

/// What is right, whatever the program lacks.
trait Right {
    /// Runs it; whatever it lacks, it computes what is right.
    fn is_right(&self, way: &str, arguments: &[&str]) -> String;

    fn was_right(&self, output: &Output, way: &str, arguments: &[&str]) -> String;

    /// The same by libgomp alone: that much a program may count on.
    fn is_right_alone(&self, arguments: &[&str]);
}

impl Right for Place {
    fn is_right(&self, way: &str, arguments: &[&str]) -> String {
        self.was_right(&self.run(way, arguments, "3"), way, arguments)
    }

    fn was_right(&self, output: &Output, way: &str, arguments: &[&str]) -> String {
        assert_eq!(String::from_utf8_lossy(&output.stdout), "right\n", "{way}, {arguments:?}: {output:?}");
        assert_eq!(output.status.code(), Some(0), "{way}, {arguments:?}: {output:?}");
        String::from_utf8(output.stderr.clone()).unwrap()
    }

    fn is_right_alone(&self, arguments: &[&str]) {
        let output = Command::new(&self.program).args(arguments).env("OMP_NUM_THREADS", "3").output().unwrap();
        self.was_right(&output, "libgomp", arguments);
    }
}

/// A line on standard error that says `what`, and nothing else.
fn assert_says(stderr: &str, what: &str) {
    assert!(stderr.contains(what) && stderr.lines().count() == 1, "wanted: {what}; said: {stderr:?}");
}

#[test]
fn threads_that_cannot_be_made_are_done_without() {
    let Some(place) = lacking("threads_that_cannot_be_made_are_done_without") else { return };
    for (way, threads) in WAYS.into_iter().flat_map(|way| ["0", "1", "3"].map(|threads| (way, threads))) {
        assert_eq!(place.is_right(way, &["threads", threads]), "");
        let report = place.report();
        assert!(number(&report, "standbys") <= threads.parse().unwrap(), "{way}: {report}");
        assert!(number(&report, "failed") > 0 && diagnostics(&report).contains("could not be made"), "{way}: {report}");
        assert!(diagnostics(&report).contains("ulimit -u"), "{way}: {report}");
    }
}

#[test]
fn tasks_that_there_is_no_memory_for_are_done_at_once() {
    let Some(place) = lacking("tasks_that_there_is_no_memory_for_are_done_at_once") else { return };
    // None at all, or none for what is small: standbys find a slot then, but have nothing to begin with.
    for (way, below) in WAYS.into_iter().flat_map(|way| ["0", "1000"].map(|below| (way, below))) {
        assert_eq!(place.is_right(way, &["memory", below]), "");
    }
}

#[test]
fn pages_that_cannot_be_mapped_are_done_without() {
    let Some(place) = lacking("pages_that_cannot_be_mapped_are_done_without") else { return };
    for way in WAYS {
        assert_says(
            &place.is_right(way, &["mapping"]),
            "no overlap: cannot set up the connection to cox: Cannot allocate memory",
        );
        assert_eq!(number(&place.report(), "standbys"), 0);
    }
}

#[test]
fn too_few_descriptors_are_enough_or_none_are_used() {
    let test = "too_few_descriptors_are_enough_or_none_are_used";
    let Some(place) = lacking(test) else { return };
    for left in ["0", "1", "2", "3", "4", "5", "12", "18", "20", "22", "36", "60"] {
        place.is_right_alone(&["descriptors", left]);
        for way in WAYS {
            assert_on_idle_cpus(test, || helps_or_says_why_not(&place, way, left).into_iter().collect());
        }
    }
}

/// The program keeps `left` descriptors for cox: returns the fault if no standby helps and no line says so.
fn helps_or_says_why_not(place: &Place, way: &str, left: &str) -> Option<String> {
    let said = place.is_right(way, &["descriptors", left]);
    let report = place.report();
    let (standbys, tasks) = (number(&report, "standbys"), number(&report, "tasks"));
    if said.is_empty() {
        assert_ne!(left, "0");
        let helps = standbys > 0 && tasks > 0;
        return (!helps).then(|| format!("{way}, {left} left: nobody helps, and nobody says so: {report}"));
    }
    assert_says(&said, "no overlap: cannot set up the connection to cox: Too many open files");
    assert_eq!((standbys, tasks), (0, 0), "{way}, {left} left");
    assert_ne!(left, "60");
    None
}

#[test]
fn a_program_may_close_all_descriptors() {
    let test = "a_program_may_close_all_descriptors";
    let Some(place) = lacking(test) else { return };
    place.is_right_alone(&["closes"]);
    for way in WAYS {
        assert_on_idle_cpus(test, || {
            let said = place.is_right(way, &["closes"]);
            assert_says(&said, "overlap has ended: the program has closed cox's descriptors");
            let helped = number(&place.report(), "tasks") > 0;
            if helped { Vec::new() } else { vec![format!("{way}: no standby helped until then")] }
        });
    }
}

#[test]
fn children_of_programs_with_standbys_have_tasks_of_their_own() {
    let Some(place) = lacking("children_of_programs_with_standbys_have_tasks_of_their_own") else { return };
    let count = rounds(400);
    place.is_right_alone(&["forks", "20"]);
    for way in WAYS {
        assert_eq!(place.is_right(way, &["forks", &count]), "");
    }
}

/// Also in the middle of a task: what they put is for themselves, though the queues are those of the parent's team.
#[test]
fn children_of_tasks_go_on_with_tasks() {
    let Some(place) = lacking("children_of_tasks_go_on_with_tasks") else { return };
    let count = rounds(200);
    for way in WAYS {
        assert_eq!(place.is_right(way, &["task-forks", &count]), "");
    }
}

#[test]
fn a_program_may_be_stopped_and_go_on() {
    let Some(place) = with_program("a_program_may_be_stopped_and_go_on", "tests/programs/blocked.c", &[]) else {
        return;
    };
    for way in WAYS {
        let mut command = place.cox(way, &["until-told"], "2");
        let mut cox = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(cox.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "begun\n");
        let program = *children(cox.id()).iter().find(|pid| name_of(**pid) == "program").unwrap();
        for _ in 0..20 {
            send(program, Signal::STOP);
            wait_for("the program to stop", || (state(program) == Some('T')).then_some(()));
            send(program, Signal::CONT);
        }
        drop(cox.stdin.take());
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "all ran\n");
        let output = cox.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{way}");
        assert!(number(&place.report(), "tasks") > 0, "{way}");
    }
}

fn name_of(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}
