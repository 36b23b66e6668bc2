//! What the library keeps about each loop, and what `auto` and `as_written` make of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{compile, kept, run, with};
use loops::Kind;
use wire::loop_records::{Clause, Contents, FOLDER, Values};

/// Runs a command with a folder for records; returns what each process has kept.
fn records_of(command: &mut Command) -> Vec<Contents> {
    let folder = tempfile::tempdir().unwrap();
    let output = run(command.env(FOLDER, folder.path()));
    assert!(output.status.success(), "{output:?}");
    contents(folder.path())
}

fn contents(folder: &Path) -> Vec<Contents> {
    let files = fs::read_dir(folder).unwrap();
    files.map(|file| Contents::parse(&fs::read(file.unwrap().path()).unwrap()).unwrap()).collect()
}

fn with_clause(contents: &[Contents], clause: Clause) -> Vec<Values> {
    let records = contents.iter().flat_map(|of| &of.records).copied();
    records.filter(|record| record.clause == clause.number()).collect()
}

#[test]
fn each_loop_of_a_team_has_a_record() {
    let program = compile("gcc", "uneven.c", "uneven-records", &[]);
    let kept = records_of(with(&program, "all:fac2", "4").args(["10", "1000"]));
    let [process] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!(process.modules, [program.canonicalize().unwrap().into_os_string().into_encoded_bytes()]);
    assert!(process.ns_per_tick > 0.0 && process.lost == 0, "{process:?}");
    for (clause, chunk) in [(Clause::Runtime, 1), (Clause::Dynamic, 3), (Clause::Guided, 1)] {
        let [record] = with_clause(&kept, clause)[..] else { panic!("{clause:?}: {kept:?}") };
        assert_eq!(
            (record.threads, record.instances, record.incomplete, record.substitutes),
            (4, 10, 0, 0),
            "{record:?}"
        );
        assert_eq!((record.trips, record.least_trips, record.most_trips), (10_000, 1000, 1000));
        assert_eq!((record.schedule, record.clause_chunk), (Kind::Fac2 as u64, chunk));
        // Batches of 125, 63, 32, 16, 8, 4, 2, 1 … iterations, four of each.
        let chunks = loops::Schedule::new(Kind::Fac2).at_least(chunk).plan(1000, 4, &loops::Inputs::default()).unwrap();
        let loops::Plan::Table(table) = chunks else { panic!("{chunks:?}") };
        assert_eq!(record.chunks, 10 * table.len());
        // The first iteration takes longer than all others: three threads wait for one.
        let (wall, mean) = (record.wall as f64, record.finish as f64 / 4.0);
        assert!(mean > 0.0 && mean < 0.95 * wall, "{record:?}");
        assert!(record.requests > 0 && record.request > 0, "{record:?}");
        // Two of the ten instances were timed, each with a request for each chunk, and one in vain for each thread.
        assert_eq!(record.requests, table.len() + 4, "{record:?}");
    }
}

#[test]
fn teams_of_each_size_have_records_of_their_own() {
    let program = compile("gcc", "uneven.c", "uneven-teams", &[]);
    let kept = records_of(with(&program, "ss,9", "2").args(["1", "90", "teams"]));
    let records = with_clause(&kept, Clause::Runtime);
    let mut sizes: Vec<(u64, u64)> = records.iter().map(|record| (record.threads, record.chunks)).collect();
    sizes.sort_unstable();
    // The loop of the main team, and the one that has teams of 1, 2 and 3 threads.
    assert_eq!(sizes, [(1, 10), (2, 10), (2, 10), (3, 10)]);
}

#[test]
fn chunks_are_counted_with_each_kind_of_plan() {
    let program = compile("gcc", "uneven.c", "uneven-chunks", &[]);
    let chunks = |schedule: &str| {
        let [record] = with_clause(&records_of(with(&program, schedule, "4").args(["3", "1000"])), Clause::Runtime)[..]
        else {
            panic!("{schedule}")
        };
        record.chunks / 3
    };
    assert_eq!((chunks("static"), chunks("static,10"), chunks("ss"), chunks("ss,30")), (4, 100, 1000, 34));
    let hybrid = loops::Schedule::new(Kind::Hybrid).plan(1000, 4, &loops::Inputs::default()).unwrap();
    let loops::Plan::Hybrid(hybrid) = hybrid else { panic!("{hybrid:?}") };
    // A block for each thread, and the chunks of the rest. The requests of the second instance are timed.
    assert_eq!(chunks("hybrid"), 4 + hybrid.rest().len());
    for schedule in ["static_steal,10", "hybrid,10", "awf_b,10", "af,10"] {
        assert!((4..=120).contains(&chunks(schedule)), "{schedule}");
    }
}

/// The schedules that libgomp would apply, and nothing else.
#[test]
fn as_written_keeps_the_schedules() {
    let program = compile("gcc", "uneven.c", "uneven-as-written", &[]);
    for (variable, kind) in [
        ("guided,4", Kind::Gss),
        ("dynamic,7", Kind::Ss),
        ("monotonic:dynamic", Kind::Ss),
        ("static", Kind::Static),
        ("auto", Kind::Static),
    ] {
        let kept = records_of(with(&program, "as_written", "3").env("OMP_SCHEDULE", variable).args(["3", "100"]));
        let of = |clause| {
            with_clause(&kept, clause).iter().map(|record| (record.schedule, record.chunks)).collect::<Vec<_>>()
        };
        assert_eq!(of(Clause::Runtime)[0].0, kind as u64, "{variable}");
        assert_eq!(of(Clause::Dynamic), [(Kind::Ss as u64, 3 * 34)]);
        assert_eq!(of(Clause::Guided)[0].0, Kind::Gss as u64);
        if variable == "dynamic,7" {
            assert_eq!(of(Clause::Runtime)[0].1, 3 * 15);
        }
    }
}

/// One thread gets the long iterations with `static`: 18 ms instead of 12. They sleep, so that other load changes nothing.
#[test]
fn auto_finds_a_schedule_that_balances() {
    let program = compile("gcc", "uneven.c", "uneven-auto", &[]);
    let kept = records_of(with(&program, "auto", "2").args(["60", "16", "slope"]));
    let [record] = with_clause(&kept, Clause::Runtime)[..] else { panic!("{kept:?}") };
    assert!(record.schedule != Kind::Static as u64 && record.instances == 60, "{record:?}");
    assert!(with_clause(&kept, Clause::Dynamic).is_empty(), "without `all:` these belong to libgomp");
}

#[test]
fn a_forked_child_has_a_file_of_its_own() {
    let program = compile("gcc", "uneven.c", "uneven-fork", &[]);
    let kept = records_of(with(&program, "fac2", "1").args(["10", "100", "fork"]));
    assert_eq!(kept.len(), 2);
    assert_ne!(kept[0].pid, kept[1].pid);
    for process in &kept {
        let [record] = with_clause(std::slice::from_ref(process), Clause::Runtime)[..] else { panic!("{process:?}") };
        assert_eq!((record.instances, record.trips), (10, 1000));
    }
}

/// A program must not suffer from a folder that is gone, or full.
#[test]
fn without_a_folder_the_program_runs_on() {
    let program = compile("gcc", "uneven.c", "uneven-nowhere", &[]);
    assert_eq!(kept(with(&program, "fac2", "3").env(FOLDER, "/nowhere/at/all").args(["3", "100"])), "");
}
