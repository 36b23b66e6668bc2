//! ULPs that start other ULPs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::process::Command;

use place::{Place, lines};

const MODES: [&str; 2] = ["coupled", "decoupled"];

/// Runs `count` ULPs. Returns what they print, how they ended, and how many they have started.
fn ran(place: &Place, count: usize, arguments: &[&str]) -> (Vec<String>, Vec<i32>, u64) {
    let program = place.compile("spawn", &[]);
    let (output, ends) = place.run(count, &program, arguments);
    (lines(&output), ends, place.told()["spawned"].as_u64().unwrap())
}

#[test]
fn a_started_program_has_what_one_of_posix_spawn_has() {
    for mode in MODES {
        let place = Place::new();
        let (said, ends, spawned) = ran(&place, 1, &[mode, "inherits"]);
        let right = ["ok", "piped in sub, given"].map(str::to_owned).to_vec();
        assert_eq!((said, ends, spawned), (right, vec![0], 2), "{mode}");
    }
}

#[test]
fn what_cannot_be_started_is_refused_and_nothing_else_suffers() {
    for mode in MODES {
        let place = Place::new();
        let (said, ends, spawned) = ran(&place, 1, &[mode, "refused"]);
        assert_eq!((said, ends, spawned), (vec!["ok".to_owned()], vec![0], 3), "{mode}");
    }
    let place = Place::new();
    let program = place.compile("spawn", &[]);
    assert!(Command::new(program).status().unwrap().success(), "in an ordinary process");
}

/// More than there are addresses for: those of ULPs that have ended are used again.
#[test]
fn many_start_many() {
    for mode in MODES {
        let place = Place::new();
        let (said, ends, spawned) = ran(&place, 8, &[mode, "15"]);
        assert_eq!((said, ends, spawned), (vec!["ok".to_owned(); 8], vec![0; 8], 480), "{mode}");
    }
}

/// If ULPs are killed while they start others, as many others as before can be started.
#[test]
fn ulps_that_are_killed_while_they_start_others_leave_nothing() {
    for mode in MODES {
        let place = Place::new();
        let (said, ends, _) = ran(&place, 12, &[mode, "killed"]);
        let right: Vec<i32> = [0].into_iter().chain([-9; 11]).collect();
        assert_eq!((said, ends), (vec!["ok".to_owned()], right), "{mode}");
    }
}
