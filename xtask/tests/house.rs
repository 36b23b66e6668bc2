//! Runs the house checks on this workspace, so that `cargo test` finds what `make lint` would find.

use xtask::{arrows, circles, lines, rooms, words, workspace};

#[test]
fn every_arrow_points_down() {
    let crates = workspace::crates().expect("the workspace");
    assert!(crates.len() >= rooms::ROOMS.len(), "only {} crates found", crates.len());
    assert_eq!(arrows::faults(&crates, rooms::ROOMS), []);
}

#[test]
fn no_files_use_one_another_in_circles() {
    let crates = workspace::crates().expect("the workspace");
    let (found, files) = circles::of_workspace(&crates, &workspace::root()).expect("the sources");
    assert!(files > crates.len(), "only {files} files found");
    assert_eq!(circles::faults(&found, circles::EXCEPTIONS), (Vec::new(), Vec::new()));
}

#[test]
fn no_name_contains_a_retired_word() {
    let table = words::table(include_str!("../words.tsv")).expect("the table");
    let (hits, files) = words::of_workspace(&workspace::root(), &table).expect("the sources");
    assert!(files > 100 && !table.is_empty(), "only {files} files found");
    assert_eq!(hits, []);
}

#[test]
fn no_source_file_is_a_fault() {
    let long = lines::longer_than(&workspace::root(), lines::FAULT).expect("the sources");
    assert_eq!(long, []);
}
