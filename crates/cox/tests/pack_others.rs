//! `cox pack` beside another program on the same CPU: the report names it, and claims less.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;

use serde_json::Value;
use testkit::packed::{Place, Runs, two_cpus};
use testkit::run::{path, turn};

/// Names that no other program has.
const PIG: &str = "cox-test-pig";
const OWN: &str = "cox-test-own";
/// What both do, until they have run so long or are ended.
const WORK: &str = "end=$(($(date +%s%N) + $1)); while [ $(date +%s%N) -lt $end ]; do i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; done";

/// A shell by another name.
fn named(place: &Place, name: &str) -> String {
    let to = path(&place.0, name);
    fs::copy("/bin/sh", &to).unwrap();
    to
}

#[test]
fn who_held_the_cpus_of_a_pack_is_named() {
    let Some((allowed, _)) = two_cpus("who_held_the_cpus_of_a_pack_is_named") else { return };
    let _turn = turn();
    let place = Place::new();
    let cpu = allowed.last().unwrap().to_string();
    let (pig, own) = (named(&place, PIG), named(&place, OWN));
    let _other = Runs::start(&["taskset", "-c", &cpu, &pig, "-c", WORK, PIG, "60000000000"]);
    for backend in ["bpf", "proc"] {
        let text = path(&place.0, "text");
        let json = path(&place.0, "report.json");
        let arguments = ["--backend", backend, "--cpus", &cpu, "--output", &text, "--json", &json, "--"];
        let ran = place.pack(&[&arguments[..], &[&own, "-c", WORK, OWN, "1000000000"]].concat());
        let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        assert_eq!((ran.code, report["backend"].as_str()), (0, Some(backend)), "{}", ran.stderr);
        let others = report["other_programs"].as_array().unwrap();
        let name = |other: &Value| other["comm"].as_str().unwrap().to_owned();
        let ran_ns = |other: &Value| other["run_ns"].as_u64().unwrap();
        let wall_ns = report["wall_ns"].as_u64().unwrap();
        let had = others.iter().find(|other| name(other) == PIG).map(ran_ns);
        // Beside one other thread it has half of the CPU; less where there are more.
        assert!(had.is_some_and(|ns| ns > wall_ns / 20 && ns < wall_ns / 4 * 3), "{had:?} of {wall_ns}: {report}");
        assert!(others.is_sorted_by_key(|other| std::cmp::Reverse(ran_ns(other))), "{report}");
        assert!(!others.iter().any(|other| name(other) == OWN), "it is packed: {report}");
        assert!(report["others"].as_f64().unwrap() > 0.2, "{report}");
        let said = fs::read_to_string(&text).unwrap();
        let first = format!("of these CPUs, {} ", name(&others[0]));
        let doubt = format!("Confidence {}:", report["confidence"].as_str().unwrap());
        assert!(said.contains(&first) && said.contains(&doubt), "{said}");
        assert_eq!(said.contains("at most"), backend == "proc", "{said}");
    }
}
