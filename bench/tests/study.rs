//! `cox-bench study` from end to end, with the smallest amount of work.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::built::{COX, TARGET, turn, workload};
use testkit::skip::{Need, skip};

/// A folder with cox, its library and outputs.
struct Place(tempfile::TempDir);

impl Place {
    /// `None` if something has not been built; says so.
    fn new(test: &str) -> Option<Place> {
        let cox = Path::new(COX);
        let folder = cox.parent().unwrap();
        let libraries = ["deps", "."].map(|place| folder.join(place).join("libcox_loops.so"));
        let Some(library) = libraries.into_iter().find(|library| library.exists() && cox.exists()) else {
            skip(test, Need::Built, "needs cox and libcox_loops.so (cargo build -p cox -p preload-loops)");
            return None;
        };
        let place = Place(tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(cox.canonicalize().unwrap(), place.path("cox")).unwrap();
        fs::copy(library, place.path("libcox_loops.so")).unwrap();
        // Builds all of them.
        let _ = workload("sedov");
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs cox-bench. Returns its exit code and its outputs.
    fn bench(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cox-bench"));
        command.args(words).arg("--cox").arg(self.path("cox"));
        command.arg("--workloads").arg(Path::new(TARGET).join("workloads"));
        let ran = command.current_dir(self.0.path()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ran.status.code().unwrap(), text(ran.stdout), text(ran.stderr))
    }
}

/// Four cells with cox, and two of them without an observer, on any number of CPUs.
const SMALL: [&str; 15] = [
    "--quick",
    "--runs",
    "1",
    "--programs",
    "mandelbrot,both",
    "--schedules",
    "static,ss:8",
    "--threads",
    "1",
    "--binding",
    "free",
    "--pairs",
    "same",
    "--observers",
    "none,cox",
];

#[test]
fn a_study_prints_draws_and_continues() {
    let Some(place) = Place::new("a_study_prints_draws_and_continues") else { return };
    let _turn = turn();
    let outputs = ["--resume", "runs", "--html", "page.html", "--json", "study.json"];
    let words = |verb| [&[verb][..], &SMALL, &outputs].concat();
    let (code, text, errors) = place.bench(&words("study"));
    assert_eq!(code, 0, "{text}{errors}");
    assert!(errors.contains("round 1 of 1: 6 runs"), "{errors}");
    assert!(
        text.contains("Roofline (figure 4.1 of the study)") && text.contains("Time, mandelbrot beside triad"),
        "{text}"
    );

    let json: Value = serde_json::from_slice(&fs::read(place.path("study.json")).unwrap()).unwrap();
    let cells = json["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 6);
    for cell in cells {
        let run = &cell["runs"][0];
        let programs = run["programs"].as_array().unwrap();
        assert_eq!(programs.len(), if cell["programs"] == "both" { 2 } else { 1 }, "{cell}");
        for program in programs {
            assert!(program["elapsed_s"].as_f64().unwrap() > 0.0 && program["operations"].as_f64().unwrap() > 0.0);
            assert_eq!(program["observed"].is_object(), cell["observer"] == "cox", "{cell}");
        }
    }
    let map = |id: &str| json["maps"].as_array().unwrap().iter().find(|map| map["id"] == id).unwrap().clone();
    assert_eq!(map("time-alone")["columns"], serde_json::json!(["static", "ss,8"]));
    assert_eq!(map("time-together")["rows"].as_array().unwrap().len(), 2);
    assert!(map("overhead-mandelbrot")["rows"][0]["cells"][1]["median"].as_f64().unwrap() > 0.0);
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.matches("<svg class=\"matrix\"").count() >= 3, "{page}");

    // Under its former name: all runs are finished, so none is repeated.
    let runs = fs::read_to_string(place.path("runs")).unwrap();
    assert_eq!(runs.lines().count(), 1 + 6);
    let (code, again, errors) = place.bench(&words("kuhn"));
    assert_eq!((code, errors.contains("round")), (0, false), "{errors}");
    assert_eq!(fs::read_to_string(place.path("runs")).unwrap(), runs);
    let times = |text: &str| text.lines().find(|line| line.starts_with("  mandelbrot, ")).unwrap().to_owned();
    assert_eq!(times(&again), times(&text));

    // With a run less, this run alone is repeated.
    let (first, _) = runs.trim_end().rsplit_once('\n').unwrap();
    fs::write(place.path("runs"), format!("{first}\n")).unwrap();
    let (_, _, errors) = place.bench(&words("study"));
    assert!(errors.contains("round 1 of 1: 1 runs"), "{errors}");
}

#[test]
fn a_file_of_another_measurement_is_refused() {
    let Some(place) = Place::new("a_file_of_another_measurement_is_refused") else { return };
    let _turn = turn();
    let words = |more: &[&'static str]| [&["study"][..], &SMALL, &["--resume", "runs"], more].concat();
    assert_eq!(place.bench(&words(&[])).0, 0);
    let runs = fs::read(place.path("runs")).unwrap();
    let refused = |words: &[&str], why: &str| {
        let (code, _, errors) = place.bench(words);
        assert!(code == 125 && errors.contains(why), "{code} {errors}");
        assert_eq!(fs::read(place.path("runs")).unwrap(), runs);
    };
    refused(&words(&["--seconds", "0.5"]), "another --seconds");
    let mut library = fs::read(place.path("libcox_loops.so")).unwrap();
    library.push(0);
    fs::write(place.path("libcox_loops.so"), library).unwrap();
    refused(&words(&[]), "libcox_loops.so has changed");
    fs::remove_file(place.path("libcox_loops.so")).unwrap();
    refused(&words(&[]), "libcox_loops.so; build it");
}
