//! `cox run --overlap`: semantics of regions and reductions when standbys run tasks, in a program's first region.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use testkit::overlapped::{WAYS, number, rounds, with_program};

/// Runs all cases of a program under each backend, beside two processes that compute. Each run is a process: what goes wrong when a first region
/// begins goes wrong once in it. How many tasks standbys ran, by backend; none if that cannot be tried here.
fn holds(test: &str, source: &str, few: usize) -> Vec<(&'static str, u64)> {
    let Some(place) = with_program(test, source, &[]) else { return Vec::new() };
    let mut helped = Vec::new();
    let times = rounds(few);
    for way in WAYS.into_iter().chain(["--overlap=off"]) {
        for threads in ["2", "4"] {
            let output = place.run(way, &["all", &times, "2"], threads);
            assert_eq!(output.status.code(), Some(0), "{way}, {threads} threads: {output:?}");
            let report = place.report();
            assert_eq!(number(&report, "standbys") > 0, way != "--overlap=off", "{way}");
            helped.push((way, number(&report, "tasks")));
        }
    }
    helped
}

#[test]
fn no_contribution_to_a_reduction_is_lost() {
    holds("no_contribution_to_a_reduction_is_lost", "tests/programs/reductions.c", 3);
}

/// Takes about 20 s: every case is a process of its own, for each backend and two numbers of threads, beside two processes that compute.
#[test]
fn regions_in_tasks_are_what_openmp_says() {
    let test = "regions_in_tasks_are_what_openmp_says";
    for (way, tasks) in holds(test, "tests/programs/inner_regions.c", 2) {
        assert_eq!(tasks > 0, way != "--overlap=off", "{way}: standbys ran {tasks} of them");
    }
}
