//! Checks that the dependencies between crates follow the plan in [`rooms`](crate::rooms).

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use crate::rooms::{FLOORS, FOR_TESTS, Room, Uses};

/// A crate of the workspace, as `cargo metadata` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crate {
    /// Package name.
    pub name: String,
    /// Workspace crates on which the crate or its build script depends.
    pub uses: Vec<String>,
    /// Workspace crates on which the crate's tests depend.
    pub uses_for_tests: Vec<String>,
    /// True if the root file of the crate's library (or of its program) contains `#![forbid(unsafe_code)]`.
    pub forbids_unsafe: bool,
    /// Root files of the crate's library and programs.
    pub roots: Vec<PathBuf>,
}

/// A difference between the workspace and the plan, or an error in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The crate has no row in the plan.
    NotPlanned(String),
    /// A row of the plan names a crate that does not exist.
    NotBuilt(String),
    /// A row of the plan names a floor (layer) that does not exist.
    NoSuchFloor(String),
    /// A crate's row in the plan permits a dependency that the layers (floors) forbid. The row's list `below` may name only crates on lower floors.
    /// Its list `beside` may name only other crates on the same floor, and only if the floor permits such exceptions.
    BadRow {
        /// The crate whose row in the plan is wrong.
        room: String,
        /// The crate that the row permits as a dependency, although the layers forbid it.
        to: String,
    },
    /// A crate depends on a crate that its row in the plan does not permit.
    Arrow {
        /// The dependent crate.
        from: String,
        /// The crate that the dependent crate must not use.
        to: String,
    },
    /// A crate uses a test-only crate in code that is not a test.
    ForTests {
        /// The dependent crate.
        from: String,
        /// The test-only crate.
        to: String,
    },
    /// A pure crate does not forbid unsafe code.
    NotPure(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NotPlanned(name) => write!(f, "crate {name} has no row in xtask/src/rooms.rs"),
            Fault::NotBuilt(name) => {
                write!(f, "xtask/src/rooms.rs has a row for {name}, which is not in the workspace")
            }
            Fault::NoSuchFloor(name) => write!(f, "the row of {name} names a layer that does not exist"),
            Fault::BadRow { room, to } => {
                write!(f, "the row of {room} must not allow {to}: a crate may use only crates of lower layers")
            }
            Fault::Arrow { from, to } => write!(f, "{from} must not use {to}"),
            Fault::ForTests { from, to } => {
                write!(f, "{from} may use {to} only in tests: move it to [dev-dependencies]")
            }
            Fault::NotPure(name) => write!(f, "{name} is pure: its lib.rs must say #![forbid(unsafe_code)]"),
        }
    }
}

/// Returns all differences between `crates` and the plan `rooms`, and all errors in the plan.
pub fn faults(crates: &[Crate], rooms: &[Room]) -> Vec<Fault> {
    let mut faults: Vec<Fault> = rooms.iter().flat_map(|room| faults_of_row(room, rooms)).collect();
    for built in crates {
        match rooms.iter().find(|room| room.name == built.name) {
            Some(room) => faults.extend(faults_of_crate(built, room, rooms)),
            None => faults.push(Fault::NotPlanned(built.name.clone())),
        }
    }
    let missing = rooms.iter().filter(|room| crates.iter().all(|built| built.name != room.name));
    faults.extend(missing.map(|room| Fault::NotBuilt(room.name.to_owned())));
    faults
}

fn faults_of_row(room: &Room, rooms: &[Room]) -> Vec<Fault> {
    let Some(floor) = depth(room) else { return vec![Fault::NoSuchFloor(room.name.to_owned())] };
    let Uses::These { below, beside } = room.uses else { return Vec::new() };
    let depth_of = |name: &str| rooms.iter().find(|other| other.name == name).and_then(depth);
    let not_below = below.iter().filter(|name| depth_of(name).is_none_or(|other| other <= floor));
    let not_beside = beside
        .iter()
        .filter(|(name, _)| !FLOORS[floor].exceptions || depth_of(name) != Some(floor) || *name == room.name)
        .map(|(name, _)| name);
    not_below.chain(not_beside).map(|to| Fault::BadRow { room: room.name.to_owned(), to: (*to).to_owned() }).collect()
}

fn faults_of_crate(built: &Crate, room: &Room, rooms: &[Room]) -> Vec<Fault> {
    let used: BTreeSet<&String> = built.uses.iter().chain(&built.uses_for_tests).collect();
    let forbidden = used.into_iter().filter(|to| !allows(room, to, rooms));
    let mut faults: Vec<Fault> =
        forbidden.map(|to| Fault::Arrow { from: built.name.clone(), to: to.clone() }).collect();
    let misused = built.uses.iter().filter(|to| FOR_TESTS.contains(&to.as_str()));
    faults.extend(misused.map(|to| Fault::ForTests { from: built.name.clone(), to: to.clone() }));
    if room.pure && !built.forbids_unsafe {
        faults.push(Fault::NotPure(built.name.clone()));
    }
    faults
}

fn allows(room: &Room, to: &str, rooms: &[Room]) -> bool {
    FOR_TESTS.contains(&to)
        || match room.uses {
            Uses::AllBelow => {
                rooms.iter().find(|other| other.name == to).is_some_and(|other| depth(other) > depth(room))
            }
            Uses::These { below, beside } => below.contains(&to) || beside.iter().any(|(name, _)| *name == to),
        }
}

/// Returns the number of the layer that the crate's row names, counted from the top; `None` if there is no such layer.
fn depth(room: &Room) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.name == room.floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOOR: Room = Room { name: "door", floor: "front doors", uses: Uses::AllBelow, pure: false };
    const RULE: Room = room("rule", "rules", &["word"], &[]);
    const ENGINE: Room = room("engine", "engines", &["rule"], &[]);
    const WORD: Room = room("word", "words", &[], &[]);

    const fn room(
        name: &'static str,
        floor: &'static str,
        below: &'static [&'static str],
        beside: &'static [(&'static str, &'static str)],
    ) -> Room {
        Room { name, floor, uses: Uses::These { below, beside }, pure: false }
    }

    fn built(name: &str, uses: &[&str]) -> Crate {
        let uses = uses.iter().map(|u| (*u).to_owned()).collect();
        Crate { name: name.to_owned(), uses, ..Crate::default() }
    }

    fn arrow(from: &str, to: &str) -> Fault {
        Fault::Arrow { from: from.to_owned(), to: to.to_owned() }
    }

    fn bad_row(room: &str, to: &str) -> Fault {
        Fault::BadRow { room: room.to_owned(), to: to.to_owned() }
    }

    #[test]
    fn arrows_that_point_down_as_planned_are_good() {
        let crates = [
            built("door", &["engine", "rule", "word"]),
            built("engine", &["rule"]),
            built("rule", &[]),
            built("word", &[]),
        ];
        assert_eq!(faults(&crates, &[DOOR, ENGINE, RULE, WORD]), []);
    }

    #[test]
    fn an_arrow_that_points_up_is_named() {
        let crates = [built("door", &[]), built("rule", &["word"]), built("word", &["rule", "door"])];
        assert_eq!(faults(&crates, &[DOOR, RULE, WORD]), [arrow("word", "door"), arrow("word", "rule")]);
    }

    #[test]
    fn an_arrow_down_that_is_not_planned_is_named() {
        let crates = [built("engine", &["rule", "word"]), built("rule", &[]), built("word", &[])];
        assert_eq!(faults(&crates, &[ENGINE, RULE, WORD]), [arrow("engine", "word")]);
    }

    #[test]
    fn front_doors_do_not_use_one_another() {
        let other = Room { name: "gate", ..DOOR };
        let crates = [built("door", &["gate"]), built("gate", &[])];
        assert_eq!(faults(&crates, &[DOOR, other]), [arrow("door", "gate")]);
    }

    #[test]
    fn no_row_makes_an_engine_know_another() {
        let knows = room("other", "engines", &[], &[("engine", "it would be handy")]);
        let crates = [built("engine", &[]), built("other", &["engine"]), built("rule", &[]), built("word", &[])];
        assert_eq!(faults(&crates, &[ENGINE, knows, RULE, WORD]), [bad_row("other", "engine")]);
    }

    #[test]
    fn no_row_points_up_or_sideways_without_a_reason() {
        let up = room("word", "words", &["rule"], &[]);
        let aside = room("twin", "rules", &["rule"], &[]);
        let crates = [built("rule", &[]), built("word", &[]), built("twin", &[])];
        assert_eq!(faults(&crates, &[RULE, up, aside]), [bad_row("word", "rule"), bad_row("twin", "rule")]);
    }

    #[test]
    fn what_is_for_tests_is_used_by_tests_only() {
        // No row names it, whatever its floor.
        let testkit = room("testkit", "front doors", &[], &[]);
        let rooms = [ENGINE, RULE, testkit, WORD];
        let all = |rule: Crate| [rule, built("engine", &[]), built("testkit", &[]), built("word", &[])];
        let in_tests = |name: &str| Crate { uses_for_tests: vec![name.to_owned()], ..built("rule", &[]) };
        assert_eq!(faults(&all(in_tests("testkit")), &rooms), []);
        let misuse = Fault::ForTests { from: "rule".to_owned(), to: "testkit".to_owned() };
        for misused in [built("rule", &["testkit"]), Crate { uses: vec!["testkit".to_owned()], ..in_tests("testkit") }]
        {
            assert_eq!(faults(&all(misused), &rooms), std::slice::from_ref(&misuse));
        }
        // With everything else tests too keep to the row.
        assert_eq!(faults(&all(in_tests("engine")), &rooms), [arrow("rule", "engine")]);
    }

    #[test]
    fn a_neighbour_may_be_used_where_the_row_says_why() {
        let twin = room("twin", "rules", &[], &[("rule", "it judges what the rule has added up")]);
        let crates = [built("rule", &[]), built("word", &[]), built("twin", &["rule"])];
        assert_eq!(faults(&crates, &[RULE, WORD, twin]), []);
    }

    #[test]
    fn crates_and_rows_match_one_to_one() {
        let crates = [built("shed", &[])];
        let attic = room("attic", "roof", &[], &[]);
        assert_eq!(
            faults(&crates, &[WORD, attic]),
            [
                Fault::NoSuchFloor("attic".to_owned()),
                Fault::NotPlanned("shed".to_owned()),
                Fault::NotBuilt("word".to_owned()),
                Fault::NotBuilt("attic".to_owned()),
            ]
        );
    }

    #[test]
    fn a_pure_crate_forbids_unsafe_code() {
        let pure = Room { pure: true, ..WORD };
        let mut word = built("word", &[]);
        assert_eq!(faults(&[word.clone()], &[pure]), [Fault::NotPure("word".to_owned())]);
        word.forbids_unsafe = true;
        assert_eq!(faults(&[word], &[pure]), []);
    }
}
