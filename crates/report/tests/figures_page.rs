//! The tables of docs/figures.md are made from where figures are declared. `COX_MAKE_DOCS=1 cargo test -p report --test figures_page` writes them.

mod noise_sample;

use std::path::Path;

use advise::figures::Whole;
use ledger::account::{cpu, thread};
use ledger::figures::Figure;
use ledger::latency::quantile;
use ledger::{Latencies, Provenance};
use report::loops::{LoopReport, LoopsReport, Profile, Selection};
use report::noise::{AtWork, ForecastReport, Leave, LeaveChoice, PhasesOf, Slowdown, Source, Without};
use report::overlap::OverlapReport;
use report::pack::PackReport;
use report::ulp::HostReport;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;

/// A row of a table in Markdown.
fn row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn table(headings: &[&str], rows: impl Iterator<Item = String>) -> String {
    let line = "|---".repeat(headings.len()) + "|\n";
    row(headings) + &line + &rows.collect::<String>()
}

/// What a rule of `ledger::figures::add` makes of several values.
fn of_several(rule: &str) -> &'static str {
    match rule {
        "sum" => "sum",
        "quadrature" => "root of the sum of squares",
        "best" => "best value",
        "histogram" => "by histogram",
        _ => panic!("{rule}"),
    }
}

/// Of a struct's figures: what each is, how it adds, and how far each backend sees it.
fn declared<T>(figures: &[Figure<T>]) -> String {
    let rows = figures.iter().map(|figure| {
        let label = if figure.label.is_empty() { String::new() } else { format!(", *{}*", figure.label) };
        let meaning: Vec<&str> = figure.meaning.iter().map(|line| line.trim()).collect();
        let seen = figure.seen;
        let name = format!("`{}`{label}", figure.name);
        row(&[&name, &meaning.join(" "), of_several(figure.adds), seen.bpf, seen.perf, seen.proc])
    });
    table(&["figure", "what", "of several", "bpf", "perf", "proc"], rows)
}

/// Of a struct's members: their documentation, in the order in which they are written.
fn schema<T: JsonSchema + Default + Serialize>() -> String {
    schema_of(&T::default())
}

/// Of a value's members: as [`schema`].
fn schema_of<T: JsonSchema + Serialize>(value: &T) -> String {
    let schema = serde_json::to_value(schema_for!(T)).expect("a schema is JSON");
    let written = serde_json::to_string_pretty(value).expect("a report is JSON");
    let names = written.lines().filter_map(|line| line.strip_prefix("  \"")?.split_once('"').map(|(name, _)| name));
    let rows = names.map(|name| {
        let what = schema["properties"][name]["description"].as_str().unwrap_or_else(|| panic!("{name}"));
        row(&[&format!("`{name}`"), &what.replace('\n', " ")])
    });
    table(&["figure", "what"], rows)
}

/// Of the members of a measurement of `cox noise`.
fn of_noise(name: &str) -> String {
    let report = noise_sample::of_ftq();
    let (cpu, ticks) = (&report.cpus[0], noise_sample::ticks());
    let taken = || noise_sample::measured("detour").cpus[0].by_cause[0];
    match name {
        "NoiseReport" => schema_of(&report),
        "Measurement" => schema_of(&report.measurement),
        "Clock" => schema_of(&report.clock),
        "Events" => schema_of(&report.events),
        "Cause" => schema_of(&report.causes[0]),
        "Cpu" => schema_of(cpu),
        "Above" => schema_of(&cpu.fine),
        "Taken" => schema_of(&taken()),
        "Check" => schema_of(&cpu.check),
        "TickGroup" => schema_of(&ticks[0]),
        "TickPart" => schema_of(&ticks[0].parts[0]),
        "Loss" => schema_of(cpu.loss.as_ref().expect("the sample has it")),
        "Spectrum" => schema_of(cpu.spectrum.as_ref().expect("the sample has it")),
        "Peak" => schema_of(&cpu.spectrum.as_ref().expect("the sample has it").peaks[0]),
        _ => panic!("no table is called {name}"),
    }
}

fn made(name: &str) -> String {
    match name {
        "thread" => declared(&thread::ALL),
        "cpu" => declared(&cpu::ALL),
        "latency" => declared(&quantile::ALL),
        "causes" => table(
            &["cause", "the report says", "what the thread was in"],
            wire::Cause::ALL.iter().map(|cause| {
                let wording = ledger::causes::wording(*cause);
                row(&[&format!("`{}`", cause.name()), wording.label, wording.meaning])
            }),
        ),
        "whole" => table(
            &["figure", "what"],
            Whole::ALL.iter().map(|figure| row(&[&format!("`{}`", figure.name()), figure.meaning().trim()])),
        ),
        other => match other.strip_prefix("schema ") {
            Some("PackReport") => schema::<PackReport>(),
            Some("OverlapReport") => schema::<OverlapReport>(),
            Some("LoopsReport") => schema::<LoopsReport>(),
            Some("LoopReport") => schema::<LoopReport>(),
            Some("Selection") => schema::<Selection>(),
            Some("Profile") => schema::<Profile>(),
            Some("Provenance") => schema::<Provenance>(),
            Some("HostReport") => schema::<HostReport>(),
            Some("Latencies") => schema::<Latencies>(),
            Some("ForecastReport") => schema::<ForecastReport>(),
            Some("Source") => schema::<Source>(),
            Some("PhasesOf") => schema::<PhasesOf>(),
            Some("AtWork") => schema::<AtWork>(),
            Some("Slowdown") => schema::<Slowdown>(),
            Some("Without") => schema::<Without>(),
            Some("Leave") => schema::<Leave>(),
            Some("LeaveChoice") => schema::<LeaveChoice>(),
            Some(noise) => of_noise(noise),
            None => panic!("no table is called {other}"),
        },
    }
}

#[test]
fn tables_are_made_from_declarations() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- figures: ", "<!-- end -->\n");
    let mut parts = page.split(begin);
    let mut new = parts.next().unwrap().to_owned();
    let mut tables = 0;
    for part in parts {
        let (name, rest) = part.split_once(" -->\n").expect("a table has a name");
        let (_, after) = rest.split_once(end).expect("a table has an end");
        new += &format!("{begin}{name} -->\n{}{end}{after}", made(name));
        tables += 1;
    }
    assert_eq!(tables, 36);
    if std::env::var_os("COX_MAKE_DOCS").is_some() {
        std::fs::write(&path, &new).unwrap();
    }
    let now = std::fs::read_to_string(&path).unwrap();
    assert!(
        now == new,
        "docs/figures.md is not what the declarations say: set COX_MAKE_DOCS=1 and run this test again"
    );
}
