//! `cox run --overlap`: what regions and reductions mean where standbys run tasks, in a program's first region.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common_overlap;
mod common_robust;

use common_overlap::{WAYS, number, rounds, with_program};

/// Runs all cases of a program under each backend, beside two processes that compute. Each run is a process: what goes wrong when a first region
/// begins goes wrong once in it.
fn holds(test: &str, source: &str, few: u32) {
    let Some(place) = with_program(test, source, &[]) else { return };
    let times = rounds(few);
    for way in WAYS.into_iter().chain(["--overlap=off"]) {
        for threads in ["2", "4"] {
            let output = place.run(way, &["all", &times, "2"], threads);
            assert_eq!(output.status.code(), Some(0), "{way}, {threads} threads: {output:?}");
            let standbys = number(&place.report(), "standbys");
            assert_eq!(standbys > 0, way != "--overlap=off", "{way}");
        }
    }
}

#[test]
fn no_contribution_to_a_reduction_is_lost() {
    holds("no_contribution_to_a_reduction_is_lost", "tests/programs/reductions.c", 3);
}
