//! `cox run --repeat` and `cox compare` from the command line: real runs, and copies of a real report with other numbers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::browser::{CUT, asked_all};

const COX: &str = env!("CARGO_BIN_EXE_cox");

fn cox(folder: &Path, words: &[&str]) -> Output {
    Command::new(COX).args(words).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A report of a real run.
fn real(folder: &Path) -> Value {
    let output = cox(folder, &["run", "-q", "--json", "real.json", "--", "sh", "-c", "sleep 0.05; true | cat"]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&fs::read(folder.join("real.json")).unwrap()).unwrap()
}

/// Runs NAME.1.json and so on that took `factors` times a second, half of it on a CPU.
fn invent(folder: &Path, real: &Value, name: &str, factors: impl IntoIterator<Item = f64>) {
    for (at, factor) in factors.into_iter().enumerate() {
        let mut report = real.clone();
        for (figure, ns) in [("wall_ns", 1e9), ("run_ns", 5e8), ("work_ns", 5e8), ("thread_ns", 1e9)] {
            report["figures"][figure] = ((ns * factor) as u64).into();
        }
        fs::write(folder.join(format!("{name}.{}.json", at + 1)), report.to_string()).unwrap();
    }
}

/// Fifteen runs that differ by up to 1.4 %.
fn usual(factor: f64) -> impl Iterator<Item = f64> {
    (0..15).map(move |run| factor * (1.0 + 0.001 * f64::from(run * 4 % 15)))
}

/// The verdict on a figure of the second group.
fn verdict(folder: &Path, figure: &str, groups: [&str; 2]) -> Value {
    let output = cox(folder, &["compare", "--json", "-", groups[0], groups[1]]);
    assert!(output.status.success(), "{output:?}");
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = comparison["figures"].as_array().unwrap().iter().find(|row| row["figure"] == figure).cloned();
    row.unwrap_or_else(|| panic!("{figure} in {comparison}"))["changes"][0].clone()
}

#[test]
fn a_change_is_found_and_noise_is_none() {
    let folder = TempDir::new().unwrap();
    let real = real(folder.path());
    invent(folder.path(), &real, "before", usual(1.0));
    invent(folder.path(), &real, "same", usual(1.0001));
    invent(folder.path(), &real, "slower", usual(1.03));
    let of = |figure: &str, second: &str| verdict(folder.path(), figure, ["before.%n.json", second]);
    let slower = of("wall_ns", "slower.%n.json");
    assert_eq!(slower["verdict"], "slower");
    assert!((slower["change"].as_f64().unwrap() - 0.03).abs() < 0.002, "{slower}");
    let interval = slower["interval"].as_array().unwrap();
    assert!(interval[0].as_f64().unwrap() > 0.02 && interval[1].as_f64().unwrap() < 0.04, "{slower}");
    assert_eq!(of("run_ns", "slower.%n.json")["verdict"], "more");
    let same = of("wall_ns", "same.%n.json");
    assert_eq!(same["verdict"], "no_change");
    assert!((0.001..0.01).contains(&same["visible_from"].as_f64().unwrap()), "{same}");
    let few = verdict(folder.path(), "wall_ns", ["before.1.json,before.2.json", "slower.1.json"]);
    assert_eq!((&few["verdict"], &few["interval"]), (&Value::from("cannot_tell"), &Value::Null));

    let page =
        text(&cox(folder.path(), &["compare", "old=before.%n.json", "new=slower.%n.json", "same.%n.json"]).stdout);
    for wanted in ["new (15 runs)", "new: slower by 3.0 %", "same: no significant difference", "  changed\n"] {
        assert!(page.contains(wanted), "{wanted:?} in {page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
}

#[test]
fn a_table_is_drawn() {
    let folder = TempDir::new().unwrap();
    let real = real(folder.path());
    invent(folder.path(), &real, "a", usual(1.0));
    invent(folder.path(), &real, "b", usual(2.0));
    let words = ["compare", "--table", "run_ns/thread_ns", "--svg", "t.svg", "app/x=a.%n.json", "other/y=b.%n.json"];
    let output = cox(folder.path(), &words);
    assert!(output.status.success(), "{output:?}");
    let svg = fs::read_to_string(folder.path().join("t.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    assert_eq!((svg.matches("50.0 %").count(), svg.matches("no runs").count()), (2, 2), "{svg}");
}

/// What a page of comparisons says about itself: its width and what it needs, what is drawn and what is in tables, and how
/// many texts are wider than the picture.
const PROBE: &str = r#"
const root = document.documentElement;
const all = (what) => [...document.querySelectorAll(what)];
const outside = all("svg.matrix text").filter((text) => {
  const box = text.getBBox();
  // Names have places of their own: in the margin, and above their column.
  const room = { end: 170, middle: 116 }[text.getAttribute("text-anchor")] ?? Infinity;
  return box.width > room || box.x < 0 || box.x + box.width > text.ownerSVGElement.viewBox.baseVal.width;
});
answer(innerWidth, root.scrollWidth, all("svg.matrix rect").length, all("table.compared").length, outside.length);
"#;

/// Two applications with two settings each; of the second application both are alike.
fn experiments(folder: &Path) -> [&'static str; 4] {
    let real = real(folder);
    for (name, factor) in [("a", 1.0), ("b", 2.0), ("c", 1.0), ("d", 1.0001)] {
        invent(folder, &real, name, usual(factor));
    }
    ["heat/static=a.%n.json", "heat/guided=b.%n.json", "fft/guided=d.%n.json", "fft/static=c.%n.json"]
}

#[test]
fn a_page_has_the_table_and_what_changed() {
    let folder = TempDir::new().unwrap();
    let groups = experiments(folder.path());
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let table = ["compare", "--table", "run_ns", "--html", "t.html", "--svg", "t.svg"];
    let output = cox(folder.path(), &[&table[..], &groups].concat());
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    assert!(read("t.svg").starts_with("<svg "));
    let page = read("t.html");
    // Each application's settings in the order of the table's columns, whatever that of the groups was.
    for wanted in [
        "guided: slower by a factor of 2.0",
        "guided: no significant difference",
        "guided (15 runs) compared with static",
    ] {
        assert!(page.replace('\u{a0}', " ").contains(wanted), "{wanted} in {page}");
    }
    assert_eq!((page.matches("<table").count(), page.matches("rx=\"3\" class=\"q").count()), (2, 4), "{page}");

    // Without a table, the comparison alone, beside its text and its JSON.
    let words = ["compare", "--html", "c.html", "--json", "c.json", "one=a.%n.json", "two=b.%n.json"];
    let output = cox(folder.path(), &words);
    assert!(output.status.success() && text(&output.stdout).contains("two: slower"), "{output:?}");
    let page = read("c.html");
    assert!(page.contains("two: slower by a factor of 2.0") && !page.contains("rx=\"3\" class=\"q"), "{page}");
    assert_eq!((page.matches("class=\"plot changes\"").count(), page.matches("download=").count()), (1, 2), "{page}");
    let comparison: Value = serde_json::from_str(&read("c.json")).unwrap();
    assert_eq!(page.matches("<tr><td>").count(), comparison["figures"].as_array().unwrap().len());
    // On stdout it is there alone.
    let output = cox(folder.path(), &["compare", "--html", "-", "one=a.%n.json", "two=b.%n.json"]);
    assert!(text(&output.stdout) == page, "{output:?}");
    // As CSV, beside the text or instead of it.
    let words = ["compare", "--csv", "c.csv", "--csv-runs", "r.csv", "one=a.%n.json", "two=b.%n.json"];
    let output = cox(folder.path(), &words);
    assert!(output.status.success() && text(&output.stdout).contains("two: slower"), "{output:?}");
    let (changes, runs) = (read("c.csv"), read("r.csv"));
    let figures = comparison["figures"].as_array().unwrap().len();
    assert_eq!((changes.lines().count(), runs.lines().count()), (1 + 2 * figures, 1 + 30 * figures), "{changes}");
    let wall = changes.lines().find(|line| line.starts_with("wall_ns,ns,two,15,")).unwrap();
    assert!(wall.ends_with(",slower") && wall.contains(",one,"), "{wall}");
    let output = cox(folder.path(), &["compare", "--csv", "-", "one=a.%n.json", "two=b.%n.json"]);
    assert!(text(&output.stdout) == changes, "{output:?}");
    let output = cox(folder.path(), &["compare", "--csv", "same", "--csv-runs", "same", "one=a.%n.json"]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    // What is refused leaves no file.
    let output = cox(folder.path(), &["compare", "--table", "nonsense", "--html", "x.html", "a/b=a.%n.json"]);
    assert!(output.status.code() == Some(125) && !folder.path().join("x.html").exists(), "{output:?}");
    let output = cox(folder.path(), &["compare", "--table", "wall_ns", "a/b=a.%n.json"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("--html"), "{output:?}");
}

#[test]
fn in_a_browser_pages_of_comparisons_do_not_overflow() {
    if !testkit::skip::installed(
        "in_a_browser_pages_of_comparisons_do_not_overflow",
        testkit::skip::Need::Browser,
        "chromium",
    ) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let groups = experiments(folder.path());
    let long = format!("{}/{}=a.%n.json", "AN_APPLICATION_".repeat(9), "of@many%Words".repeat(9));
    let table = ["compare", "--table", "run_ns/thread_ns", "--html", "t.html"];
    assert!(cox(folder.path(), &[&table[..], &groups, &[long.as_str()]].concat()).status.success());
    let alone =
        ["compare", "--html", "c.html", "--output", "c.txt", "old=a.%n.json", "new=b.%n.json", "newer=c.%n.json"];
    assert!(cox(folder.path(), &alone).status.success());
    for (page, cells, tables) in [("t.html", "9", "3"), ("c.html", "0", "2")] {
        let page = fs::read_to_string(folder.path().join(page)).unwrap();
        let widths = [1280, 400];
        let questions = widths.map(|width| [(PROBE, width), (CUT, width)]);
        let answers = asked_all(folder.path(), &page, questions.as_flattened());
        for (width, answers) in widths.into_iter().zip(answers.chunks(2)) {
            let said = &answers[0];
            let [inner, needed, drawn, tabled, outside] = &said[..] else { panic!("{said:?}") };
            assert_eq!(*inner, width.to_string());
            assert!(needed.parse::<u32>().unwrap() <= width, "{needed} px needed of {width}");
            assert_eq!((drawn.as_str(), tabled.as_str(), outside.as_str()), (cells, tables, "0"));
            let said = &answers[1];
            assert_eq!(said[1], "0", "at {width} px: {said:?}");
        }
    }
}

#[test]
fn bad_input_takes_one_line() {
    let folder = TempDir::new().unwrap();
    let mut real = real(folder.path());
    fs::write(folder.path().join("not.json"), "not JSON").unwrap();
    fs::write(folder.path().join("other.json"), "{\"a\": 1}").unwrap();
    real["schema_version"] = 99.into();
    fs::write(folder.path().join("new.json"), real.to_string()).unwrap();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["compare", "not.json"], 125, "not JSON"),
        (&["compare", "real.json", "other.json"], 125, "not a report of cox run --json"),
        (&["compare", "new.json"], 125, "schema_version is 99"),
        (&["compare", "gone.json"], 125, "gone.json"),
        (&["compare", "a=", "real.json"], 125, "a group is"),
        (&["compare", "gone.%n.json"], 125, "gone.1.json"),
        (&["compare"], 2, "GROUP"),
        (&["compare", "--table", "wall_ns", "--svg", "x.svg", "real.json"], 125, "APPLICATION/SETTING"),
    ];
    for (words, code, clue) in cases {
        let output = cox(folder.path(), words);
        let diagnostic = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {diagnostic}");
        assert!(diagnostic.starts_with("cox: ") && diagnostic.lines().count() == 1, "{words:?}: {diagnostic}");
        assert!(diagnostic.contains(clue), "{clue:?} in {diagnostic}");
    }
    // One run alone is no error: it is shown, and nothing is claimed.
    let alone = cox(folder.path(), &["compare", "real.json"]);
    assert!(alone.status.success() && text(&alone.stdout).contains("needs at least 6 runs"), "{alone:?}");
}

#[test]
fn a_series_writes_each_run_and_one_report() {
    let folder = TempDir::new().unwrap();
    let script = "echo run >> log; echo out; test $(wc -l < log) != 2 || exit 7; sleep 0.02";
    let output = cox(folder.path(), &["run", "--repeat", "3", "--json", "r.%n.json", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(text(&output.stdout), "out\nout\nout\n");
    let report = text(&output.stderr);
    assert_eq!(report.matches("cox: ").count(), 1, "{report}");
    assert!(report.contains("(3 runs)") && report.contains("1 of 3 runs ended with an exit code"), "{report}");
    let code = |run: u32| -> Value {
        let report: Value =
            serde_json::from_slice(&fs::read(folder.path().join(format!("r.{run}.json"))).unwrap()).unwrap();
        report["programs"][0]["exit_code"].clone()
    };
    assert_eq!((code(1), code(2), code(3)), (0.into(), 7.into(), 0.into()));
    assert!(!folder.path().join("r.4.json").exists());
}

#[test]
fn a_series_that_would_write_over_itself_is_refused_before_anything_starts() {
    let folder = TempDir::new().unwrap();
    for words in [&["--json", "r.json"][..], &["--json", "-"], &["--trace", "t.%%n"], &["--paraver", "p"]] {
        let all = [&["run", "--repeat", "2"], words, &["--", "touch", "started"]].concat();
        let output = cox(folder.path(), &all);
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert!(text(&output.stderr).contains("%n"), "{output:?}");
    }
    for words in [&["--pid", "1"][..], &["--cgroup", "/"]] {
        let output = cox(folder.path(), &[&["run", "--repeat", "2"], words].concat());
        assert!(output.status.code() == Some(125) && text(&output.stderr).contains("--repeat"), "{output:?}");
    }
    let gone = cox(folder.path(), &["run", "--repeat", "2", "--", "no-such-program"]);
    assert_eq!((gone.status.code(), text(&gone.stderr).lines().count()), (Some(127), 1), "{gone:?}");
    assert!(!folder.path().join("started").exists());
}

#[test]
fn a_signal_ends_the_series() {
    let folder = TempDir::new().unwrap();
    let script = "trap 'exit 3' INT; echo run >> log; while :; do sleep 0.05; done";
    let mut series = Command::new(COX);
    series.args(["run", "--repeat", "4", "-q", "--", "sh", "-c", script]).current_dir(folder.path());
    let mut series = series.spawn().unwrap();
    let begun = Instant::now();
    while !folder.path().join("log").exists() && begun.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-INT", &series.id().to_string()]).status().unwrap().success());
    // A series that goes on shall fail the test, not hang it: the next run ends by the same signal.
    let ended = (0..100).find_map(|_| {
        sleep(Duration::from_millis(100));
        series.try_wait().unwrap()
    });
    if ended.is_none() {
        series.kill().unwrap();
    }
    assert_eq!(ended.and_then(|status| status.code()), Some(3));
    assert_eq!(fs::read_to_string(folder.path().join("log")).unwrap(), "run\n");
}

#[test]
fn the_schema_names_what_is_written() {
    let folder = TempDir::new().unwrap();
    let schema: Value = serde_json::from_slice(&cox(folder.path(), &["schema", "compare"]).stdout).unwrap();
    for name in ["groups", "figures", "left_out", "warnings", "schema_version"] {
        assert!(schema["properties"][name].is_object(), "{name} in {schema}");
    }
}
