//! The page of a comparison is well-formed whatever names contain, and agrees with its text.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod markup;
mod noise_sample;
mod sample;

use ledger::{Provenance, Sees, Unsampled};
use markup::{Element, text, tree};
use report::comparison::{Comparison, Run};
use report::heat::Heat;
use report::noise::{Loss, NoiseReport};
use report::{Style, html};

/// Eight runs, `factor` times as long as the sample.
fn runs(factor: f64) -> Vec<Run> {
    let run = |at: u32| {
        let mut document = sample::heat();
        for ns in document.figures.values_mut() {
            let longer = ns.as_f64().unwrap() * factor * (1.0 + 0.001 * f64::from(at));
            *ns = serde_json::Number::from_f64(longer).unwrap();
        }
        Run::of(&document)
    };
    (0..8).map(run).collect()
}

fn group(name: &str, factor: f64) -> (String, Vec<Run>) {
    (name.to_owned(), runs(factor))
}

/// What stands in a row's cells, headings or not, but for empty ones.
fn cells(row: &Element) -> Vec<String> {
    let cells = row.find(&|e| ["td", "th"].contains(&e.name.as_str()));
    let said = cells.iter().map(|cell| text(cell).replace('\u{a0}', " ").trim().to_owned());
    said.filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn the_page_says_what_the_text_says() {
    for groups in [vec![group("a", 1.0)], vec![group("a", 1.0), group("b", 1.5), group("c", 1.0001)]] {
        let comparison = Comparison::new("0.1.0", &groups);
        let tree = tree(&html::compared(&comparison)).unwrap_or_else(|fault| panic!("{fault}"));
        let page = text(&tree).replace('\u{a0}', " ");
        let style = Style { width: 300, ..Style::default() };
        let of_page: Vec<Vec<String>> = tree.find(&|e| e.name == "tr").iter().map(|row| cells(row)).collect();
        for line in comparison.text(&style).lines() {
            let of_text: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
            if of_text.len() > 2 {
                assert!(of_page.iter().any(|row| *row == of_text), "{of_text:?} in {of_page:#?}");
            }
            for words in of_text {
                assert!(page.contains(words.trim_start_matches("cox: ")), "{words} in {page}");
            }
        }
        let headings = tree.find(&|e| e.attribute("scope") == "rowgroup");
        assert_eq!(headings.iter().filter(|heading| text(heading) == "changed").count(), groups.len().min(2) - 1);
        let rows = tree.find(&|e| e.name == "tr" && e.find(&|e| e.name == "td").len() > 2).len();
        assert_eq!(rows, comparison.figures.len() * (groups.len() - 1).max(1));
    }
}

#[test]
fn quantiles_of_intervals_are_compared_if_there_were_any() {
    let run = |factor: u64| {
        let mut document = sample::timed();
        let wake_delay = document.account.programs[0].latencies.as_mut().unwrap().wake_delay.as_mut().unwrap();
        wake_delay.p50_ns *= factor;
        wake_delay.p99_ns *= 2 * factor;
        Run::of(&document)
    };
    assert_eq!(run(1).figure("wake_delay.p50_ns"), Some(3_100.0));
    assert_eq!(run(1).figure("preempt_wait.p50_ns"), None);
    let groups = [("a".to_owned(), vec![run(1); 8]), ("b".to_owned(), vec![run(3); 8])];
    let comparison = Comparison::new("0.1.0", &groups);
    let of = |figure: &str| comparison.figures.iter().find(|row| row.figure == figure).map(|row| row.runs.clone());
    assert_eq!(of("wake_delay.p50_ns"), Some(vec![vec![3_100.0; 8], vec![9_300.0; 8]]));
    assert_eq!(of("wake_delay.p99_ns"), Some(vec![vec![248_000.0; 8], vec![744_000.0; 8]]));
    assert_eq!(of("preempt_wait.p50_ns"), None);
    let known = |figure: &str| run(1).figure(figure);
    for interval in ["wake_delay", "blocked", "slice"] {
        let [count, p50, p90, p99, max] =
            ["count", "p50_ns", "p90_ns", "p99_ns", "max_ns"].map(|figure| known(&format!("{interval}.{figure}")));
        assert!(
            count > Some(0.0) && p50 < p90 && p90 < p99 && p99 < max,
            "{interval}: {p50:?} {p90:?} {p99:?} {max:?}"
        );
        assert!(of(&format!("{interval}.count")).is_some(), "{interval}");
    }
    assert!(comparison.text(&Style::default()).contains("slice count  "), "{}", comparison.text(&Style::default()));
}

/// Runs without samples have the same run time, and no work: none is compared.
#[test]
fn runs_without_samples_are_not_compared_by_work() {
    let mut document = sample::heat();
    document.account.sees = Some(Sees { unsampled: Some(Unsampled::Noise), ..document.account.sees() });
    document
        .figures
        .retain(|name, _| !["work_ns", "spin_ns", "kernel_sync_ns", "waiting_for_threads_ns"].contains(&name.as_str()));
    let unsampled = ("noise".to_owned(), vec![Run::of(&document)]);
    let comparison = Comparison::new("0.1.0", &[group("usual", 1.0), unsampled]);
    let has = |name: &str| comparison.figures.iter().any(|row| row.figure == name);
    assert!(has("run_ns") && !has("work_ns") && !has("spin_ns"), "{:?}", comparison.figures);
    let warned = "1 of 9 runs took no samples (--noise): work and spinning are not compared";
    assert!(comparison.warnings.iter().any(|warning| warning == warned), "{:?}", comparison.warnings);
}

#[test]
fn what_runs_differ_in_is_said() {
    let on = |host: &str, kernel: Option<&str>, job: Option<&str>| {
        let mut document = sample::heat();
        let date = Some(format!("2026-01-02T03:04:0{}Z", host.len()));
        let (host, kernel, job) = (Some(host.to_owned()), kernel.map(str::to_owned), job.map(str::to_owned));
        document.account.provenance =
            Some(Provenance { date, host, kernel, job, cpus: Some(2), ..Provenance::default() });
        Run::of(&document)
    };
    let groups = [
        ("before".to_owned(), vec![on("a", Some("6.1"), None), on("a", Some("6.1"), None)]),
        ("after".to_owned(), vec![on("c", None, Some("Slurm 7")), on("bb", Some("6.12"), Some("Slurm 7"))]),
    ];
    let comparison = Comparison::new("0.1.0", &groups);
    let line = "host: before a; after bb, c";
    assert!(
        comparison.text(&Style::default()).contains(&format!("\n  {line}\n")),
        "{}",
        comparison.text(&Style::default())
    );
    assert!(html::compared(&comparison).contains(&format!("<p>{line}</p>")));
    let jobs: Vec<Vec<String>> =
        comparison.differences.iter().filter(|of| of.what == "job").flat_map(|of| of.by_group.clone()).collect();
    assert_eq!(jobs, [vec!["none".to_owned()], vec!["Slurm 7".to_owned()]]);
    let what: Vec<&str> = comparison.differences.iter().map(|of| of.what.as_str()).collect();
    assert_eq!(
        what,
        ["host", "job"],
        "each has a date of its own, CPUs are the same, and of one run no kernel is known"
    );
}

#[test]
fn the_answer_is_about_wall_time_wherever_its_row_stands() {
    let mut comparison = Comparison::new("0.1.0", &[group("a", 1.0), group("b", 1.5)]);
    comparison.figures.reverse();
    // Of the others nothing is known.
    comparison.figures.iter_mut().filter(|row| row.figure != "wall_ns").for_each(|row| row.changes.clear());
    let text = comparison.text(&Style::default());
    assert!(text.contains("  b: slower by 50 %"), "{text}");
}

#[test]
fn hostile_names_are_only_text_and_nothing_is_fetched() {
    const NAME: &str = "</svg><b onmouseover=\"x\">&'\u{202e}";
    // The first oblique stroke parts application and setting.
    const APPLICATION: &str = "<b onmouseover=\"x\">&'\u{202e}";
    let cell = |row: &str, column: &str, factor| group(&format!("{row}/{column}"), factor);
    let groups = [cell(APPLICATION, NAME, 1.0), cell(APPLICATION, "c", 2.0), cell("r", NAME, 1.0)];
    let heat = Heat::new("wall_ns", &groups).unwrap();
    let applications = heat.comparisons("0.1.0", &groups);
    assert_eq!(applications.iter().map(|(_, of)| of.groups.len()).collect::<Vec<_>>(), [2, 1]);
    let shown = tree(&html::tabled(NAME, &heat, &applications)).unwrap();
    for name in ["h2", "a", "title"] {
        let all = shown.find(&|e| e.name == name);
        assert!(all.iter().any(|e| text(e).starts_with("<b onmouseover=\"x\">&'?")), "{name}");
    }
    for page in [html::tabled(NAME, &heat, &applications), html::compared(&Comparison::new(NAME, &groups))] {
        let tree = tree(&page).unwrap_or_else(|fault| panic!("{fault}: {page}"));
        assert_eq!(tree.find(&|e| ["b", "script"].contains(&e.name.as_str())).len(), 0);
        assert!(!page.contains('\u{202e}') && page.contains("default-src 'none'"));
        assert!(
            !page.contains("http:") && !page.contains("https:") && !page.contains("src=") && !page.contains("@import")
        );
        for link in tree.find(&|e| !e.attribute("href").is_empty()) {
            // What can be downloaded is in the link.
            if link.attribute("href").starts_with("data:text/csv;charset=utf-8,") {
                assert!(link.attribute("download").ends_with(".csv"));
                continue;
            }
            let to = link.attribute("href").strip_prefix('#').expect("a place on the page");
            assert_eq!(tree.find(&|e| e.attribute("id") == to).len(), 1, "{to}");
        }
    }
}

/// What a link of the page downloads.
fn downloaded(tree: &Element, file: &str) -> String {
    let link = tree.find(&|e| e.attribute("download") == file)[0];
    let encoded = link.attribute("href").strip_prefix("data:text/csv;charset=utf-8,").unwrap();
    let mut bytes = Vec::new();
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next().unwrap()).to_digit(16).unwrap() as u8;
        bytes.push(if byte == b'%' { digit() * 16 + digit() } else { byte });
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn changes_and_runs_are_drawn_and_can_be_downloaded() {
    let comparison = Comparison::new("0.1.0", &[group("a", 1.0), group("b", 1.5), group("c, \"é\"", 1.0001)]);
    let tree = tree(&html::compared(&comparison)).unwrap_or_else(|fault| panic!("{fault}"));
    let pictures = tree.find(&|e| e.is("changes"));
    assert_eq!(pictures.len(), 2, "b and c beside a");
    // Every change has its mark and says what the table says; nothing is drawn beyond the picture.
    for (picture, other) in pictures.iter().zip(1..) {
        let marks = picture.find(&|e| e.name == "g" && e.attribute("class").starts_with("c-"));
        let known = comparison.figures.iter().filter(|row| row.changes[other - 1].change.is_some()).count();
        assert_eq!(marks.len(), known);
        let changed = comparison.figures.iter().filter(|row| row.changes[other - 1].verdict.is_a_change()).count();
        assert_eq!(marks.iter().filter(|mark| mark.is("c-change")).count(), changed);
        let table: Vec<Vec<String>> = tree.find(&|e| e.name == "tr").iter().map(|row| cells(row)).collect();
        for mark in &marks {
            let said = text(mark.find(&|e| e.name == "title")[0]).replace('\u{a0}', " ");
            let (change, within) = said.split_once(" (").unwrap();
            let is_row = |row: &Vec<String>| {
                row.iter().any(|cell| cell == change) && row.iter().any(|cell| cell == within.trim_end_matches(')'))
            };
            assert!(table.iter().any(is_row), "{said}");
        }
        let width: f64 = picture.attribute("viewBox").split(' ').nth(2).unwrap().parse().unwrap();
        for dot in picture.find(&|e| e.name == "circle") {
            let x: f64 = dot.attribute("cx").parse().unwrap();
            assert!(x >= 0.0 && x <= width, "{x}");
        }
    }
    // Every run of every figure is a dot, and every group of it a box; wall time comes first.
    let runs: usize = comparison.figures.iter().flat_map(|row| &row.runs).map(Vec::len).sum();
    assert_eq!(runs, comparison.figures.len() * 24);
    assert_eq!(tree.find(&|e| e.is("run")).len(), runs);
    assert_eq!(tree.find(&|e| e.is("box")).len(), comparison.figures.len() * 3);
    assert_eq!(text(tree.find(&|e| e.name == "figcaption" && text(e) == "wall")[0]), "wall");
    assert!(text(tree.find(&|e| e.is("run"))[0]).starts_with("a, run 1: "));
    assert_eq!(downloaded(&tree, "changes.csv"), comparison.csv());
    assert_eq!(downloaded(&tree, "runs.csv"), comparison.csv_of_runs());
    assert!(comparison.csv().contains("\"c, \"\"é\"\"\""), "{}", comparison.csv());
}

/// A measurement of noise by a loop, with the kernel's events or without.
fn noise(measuring: &str, is_blind: bool) -> NoiseReport {
    let mut report = noise_sample::measured(measuring);
    if is_blind {
        report.events.blind = Some("not root".to_owned());
        for cpu in &mut report.cpus {
            (cpu.caused_ns, cpu.outside_ns, cpu.unknown_ns) = (None, None, None);
            cpu.by_cause.clear();
        }
    }
    report
}

/// A time of a cause that is not known is not 0, and fixed time quanta have no detours.
#[test]
fn figures_of_noise_that_are_not_known_are_not_compared() {
    let known = |measuring: &str, is_blind: bool| Run::of_noise(&noise(measuring, is_blind));
    assert!(known("detour", false).figure("noise.tick_ns") > Some(0.0));
    assert_eq!(known("detour", true).figure("noise.tick_ns"), None);
    assert!(known("detour", true).figure("noise.stolen_ns") > Some(0.0));
    let mut quanta = noise("ftq", false);
    quanta.cpus[0].loss = Some(Loss { most_units: 100, mean: 0.02, max: 0.5 });
    let quanta = Run::of_noise(&quanta);
    assert_eq!(quanta.figure("noise.stolen_ns").map(f64::round), Some(20_000_000.0));
    for name in ["noise.detours", "noise.longest_ns", "noise.coarse_stolen_ns", "noise.tick_ns"] {
        assert_eq!(quanta.figure(name), None, "{name}");
    }
    let groups = [("a".to_owned(), vec![known("detour", false)]), ("b".to_owned(), vec![known("detour", true)])];
    let comparison = Comparison::new("0.1.0", &groups);
    let figures: Vec<&str> = comparison.figures.iter().map(|row| row.figure.as_str()).collect();
    assert!(figures.contains(&"noise.stolen_ns") && !figures.contains(&"noise.tick_ns"), "{figures:?}");
    assert_eq!(comparison.warnings, ["measured differently: causes: a known; b not known"]);
}

#[test]
fn noise_that_was_measured_differently_is_said() {
    let group = |name: &str, reports: &[NoiseReport]| (name.to_owned(), reports.iter().map(Run::of_noise).collect());
    let warnings = |groups: &[(String, Vec<Run>)]| Comparison::new("0.1.0", groups).warnings;
    assert!(warnings(&[group("a", &[noise("fwq", false)]), group("b", &[noise("fwq", false)])]).is_empty());
    let mut other = noise("fwq", false);
    other.measurement.quantum_ns = Some(2_000_000);
    other.measurement.work = Some("fma".to_owned());
    other.measurement.threshold_ns = 200;
    other.measurement.pinned = false;
    other.cpus[0].truncated = true;
    assert_eq!(
        warnings(&[group("a", &[noise("fwq", false)]), group("b", &[other.clone(), noise("fwq", false)])]),
        [
            "measured differently: work of a quantum: a integer; b fma, integer",
            "measured differently: quantum: a 1.0 ms; b 1.0 ms, 2.0 ms",
            "measured differently: threshold: a 8 smallest gaps; b 200 ns, 8 smallest gaps",
            "measured differently: threads: a pinned; b not pinned, pinned",
            "measured differently: detours listed: a all; b all, not all",
        ]
    );
    // What cox chooses by itself changes with the smallest gap, and is the same choice.
    let chosen = |gap_ns, threshold_ns| {
        let mut report = noise("detour", false);
        (report.measurement.smallest_gap_ns, report.measurement.threshold_ns) = (gap_ns, threshold_ns);
        report
    };
    assert!(warnings(&[group("a", &[chosen(28, 229)]), group("b", &[chosen(30, 244)])]).is_empty());
    let loops = warnings(&[group("a", &[noise("detour", false)]), group("b", &[noise("fwq", false)])]);
    assert_eq!(loops[0], "measured differently: loop: a detour; b fwq");
}
