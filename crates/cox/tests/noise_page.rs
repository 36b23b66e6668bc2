//! `cox noise --html`: compares the page with the text and the JSON of the same measurement, and loads it in a browser.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::process::{Command, Output};

use report::noise::NoiseReport;
use testkit::browser::{CUT, asked_all};
use testkit::measured::{Bench, bench};
use testkit::skip::{Need, installed};

/// The loops of `cox noise`.
const LOOPS: [&str; 4] = ["detour", "fwq", "ftq", "bsp"];

fn cox(bench: &Bench, options: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--foreground", "120", env!("CARGO_BIN_EXE_cox"), "noise"]).args(options).current_dir(bench.folder());
    command.output().unwrap()
}

/// Measures for a second: the page, the document, and the text in one line.
fn measured(bench: &Bench, measuring: &str) -> (String, NoiseReport, String) {
    let options = ["--for", "1s", "--warm-up", "100ms", "--loop", measuring, "--json", "n.json", "--html", "n.html"];
    let output = cox(bench, &options);
    assert!(output.status.success(), "{output:?}");
    let read = |name: &str| fs::read_to_string(bench.folder().join(name)).unwrap();
    let text = String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    (read("n.html"), serde_json::from_str(&read("n.json")).unwrap(), text)
}

/// The values of an attribute in a part of a page, summed.
fn summed(part: &str, attribute: &str) -> u64 {
    let begin = format!("{attribute}=\"");
    let values = part.split(&begin).skip(1).map(|rest| rest.split_once('"').unwrap().0);
    values.map(|value| value.parse::<u64>().unwrap()).sum()
}

/// The parts of a page that are a figure with this title, one for each CPU.
fn figures<'p>(page: &'p str, title: &str) -> Vec<&'p str> {
    let begin = format!("<h3>{title}</h3>");
    page.split(begin.as_str()).skip(1).map(|rest| rest.split_once("</figure>").unwrap().0).collect()
}

#[test]
fn the_page_of_a_measurement_adds_up() {
    let Some(bench) = bench("the_page_of_a_measurement_adds_up") else { return };
    for measuring in LOOPS {
        let (page, report, text) = measured(&bench, measuring);
        let shown = page.replace('\u{a0}', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(text.strip_prefix("cox: ").unwrap().split(" CPU 0:").next().unwrap()), "{text}");
        let with_detours: Vec<_> = report.cpus.iter().filter(|cpu| !cpu.detours.is_empty()).collect();
        for title in ["Number of detours by length", "Stolen time by length of the detours"] {
            let figures = figures(&page, title);
            assert_eq!(figures.len(), with_detours.len(), "{measuring}");
            for (figure, cpu) in figures.into_iter().zip(&with_detours) {
                assert_eq!(summed(figure, "data-count"), cpu.detours.len() as u64, "{measuring}");
                let lost: u64 = cpu.detours.iter().map(|(_, length, _)| cpu.lost_ns(*length)).sum();
                assert_eq!(summed(figure, "data-ns"), lost, "{measuring}");
            }
        }
        for cpu in &report.cpus {
            for group in &cpu.ticks {
                assert_eq!(group.parts.iter().map(|part| part.sum_ns).sum::<u64>(), group.sum_ns, "{group:?}");
                assert!(group.median_ns <= group.max_ns && group.max_ns <= group.sum_ns, "{group:?}");
            }
            // All time is charged to causes once, whichever part of the document says it.
            let charged: u64 = cpu.by_cause.iter().map(|taken| taken.stolen_ns).sum();
            let lost: u64 = cpu.detours.iter().map(|(_, length, _)| cpu.lost_ns(*length)).sum();
            assert_eq!(charged, lost, "{measuring}");
            samples(measuring, cpu, &page);
        }
    }
}

/// Compares the figures on quanta and steps.
fn samples(measuring: &str, cpu: &report::noise::Cpu, page: &str) {
    let number =
        |histogram: &Option<Vec<(u64, u64)>>| histogram.as_ref().map(|of| of.iter().map(|(_, count)| count).sum());
    let readings = |of: &str| (measuring == of).then_some(cpu.readings);
    assert_eq!(number(&cpu.quanta), readings("fwq"));
    assert_eq!((number(&cpu.steps), number(&cpu.until_barrier)), (readings("bsp"), readings("bsp")));
    if let Some(quanta) = &cpu.quanta {
        assert_eq!(Some(quanta[0].0), cpu.quiet_ns, "the shortest quantum");
        assert!(figures(page, "Quanta").iter().any(|figure| summed(figure, "data-count") == cpu.readings));
    }
    assert_eq!(cpu.loss.is_some(), measuring == "ftq");
    if let Some(loss) = &cpu.loss {
        assert!((0.0..=1.0).contains(&loss.mean) && loss.mean <= loss.max && loss.max <= 1.0, "{loss:?}");
        let spectrum = cpu.spectrum.as_ref().unwrap();
        // A second has 1,000 quanta: segments of 128.
        assert_eq!(spectrum.amplitudes.len(), 65);
        assert!((spectrum.step_hz - 1000.0 / 128.0).abs() < 1e-9);
    }
}

#[test]
fn outputs_that_cannot_be_are_refused_before_anything_is_measured() {
    let Some(bench) = bench("outputs_that_cannot_be_are_refused_before_anything_is_measured") else { return };
    for (options, why) in [
        (["--json", "same", "--html", "./same"], "--json and --html would both write to './same'"),
        (["--json", "n.json", "--html", "/nowhere/n.html"], "cannot write '/nowhere/n.html'"),
    ] {
        let output = cox(&bench, &[&["--for", "60s"], &options[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(!bench.folder().join("same").exists());
    }
}

#[test]
fn in_a_browser_nothing_overflows() {
    const TEST: &str = "in_a_browser_nothing_overflows";
    if !installed(TEST, Need::Browser, "chromium") {
        return;
    }
    let Some(bench) = bench(TEST) else { return };
    for measuring in LOOPS {
        let (page, ..) = measured(&bench, measuring);
        for (width, said) in [1280, 400].into_iter().zip(asked_all(bench.folder(), &page, &[(CUT, 1280), (CUT, 400)])) {
            assert_eq!(said[1], "0", "{measuring} at {width} px: {said:?}");
        }
    }
}
