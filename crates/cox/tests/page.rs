//! `cox run --html` and `cox report --html`: compares the page's figures with the account, and loads the page in a browser.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use report::Document;
use testkit::browser::{CUT, asked, asked_all};
use testkit::measured::{Bench, bench};
use testkit::skip::{Need, installed};

/// What a page in a browser says about itself: its width, what it needs, what pointing at a cell shows, and whether a table sorts, by the
/// keyboard too.
const PROBE: &str = r##"
const row = [...document.querySelectorAll(".pointed rect")].find((row) => /[1-9]/.test(row.dataset.v));
const box = row.getBoundingClientRect();
const column = row.dataset.v.split(",").findIndex((value) => value > 0);
const x = box.left + (column + 0.5) / row.dataset.v.split(",").length * box.width;
row.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: box.top + 1, bubbles: true }));
const tip = document.getElementById("tip");
const said = tip.hidden ? "" : tip.textContent;
const table = document.querySelector("#threads .sortable");
const walls = () => [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[1].textContent));
const heading = table.tHead.rows[0].cells[1];
// By the keyboard: a browser makes a click of Enter and Space on a button that has the focus, and of nothing else.
const button = heading.querySelector("button");
button.focus();
const reached = document.activeElement === button && button.tabIndex === 0 && heading.scope === "col";
document.activeElement.click();
const down = walls().every((wall, at, all) => at === 0 || all[at - 1] >= wall) && heading.ariaSort === "descending";
heading.click();
const up = walls().every((wall, at, all) => at === 0 || all[at - 1] <= wall) && heading.ariaSort === "ascending";
table.tHead.rows[0].cells[0].click();
const one = reached && table.querySelectorAll("[aria-sort]").length === 1;
const root = document.documentElement;
answer(innerWidth, root.scrollWidth, root.scrollHeight > 1000, down && up && one, said);
"##;

/// What a page does when somebody drags over a picture over time, resets that by keys and zooms by them.
const ZOOM: &str = r##"
const plots = [...document.querySelectorAll("svg.plot")];
const seen = () => {
  const views = plots.map((plot) => plot.querySelector(".time").getAttribute("viewBox").split(" "));
  return [...new Set(views.map((view) => view[0] + "+" + view[2]))].join(" ");
};
const plot = plots[0];
const axis = () => plot.querySelector(".when").textContent;
const before = axis();
const send = (type, part, buttons) => {
  const ground = plot.querySelector(".ground").getBoundingClientRect();
  const [clientX, clientY] = [ground.left + part * ground.width, ground.top + 3];
  plot.dispatchEvent(new PointerEvent(type, { clientX, clientY, button: 0, buttons, bubbles: true, pointerId: 1 }));
};
const drag = () => {
  send("pointerdown", 0.25, 1);
  send("pointermove", 0.3, 1);
  send("pointermove", 0.5, 1);
  const picked = plot.querySelectorAll(".picked").length;
  send("pointerup", 0.5, 0);
  return picked + plot.querySelectorAll(".picked").length;
};
const key = (at, key) => at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const picked = drag();
const dragged = seen();
const changed = axis() !== before;
const says = document.querySelector(".zoom span").textContent;
key(document.body, "Escape");
const reset = seen() + (axis() === before);
const box = plot.parentElement;
box.focus();
key(document.activeElement, "+");
const keyed = seen();
key(document.activeElement, "ArrowRight");
const moved = seen();
key(document.activeElement, "0");
const again = seen();
// Buttons do the same.
const [into, out, whole] = document.querySelectorAll(".zoom button");
into.click();
into.click();
out.click();
const clicked = seen();
whole.click();
answer(picked, dragged, changed, says, reset, keyed, moved, again, clicked, seen(), whole.disabled);
"##;

fn cox(bench: &Bench, arguments: &[&str], program: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--foreground", "120", env!("CARGO_BIN_EXE_cox")]).args(arguments).current_dir(bench.folder());
    if !program.is_empty() {
        command.arg("--").args(program);
    }
    command.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL");
    command.output().unwrap()
}

/// Three threads take turns: their page, and their account.
fn recorded(bench: &Bench) -> (String, Document) {
    let barriers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/workloads/barriers");
    let line = ["--threads", "3", "--work-us", "2000", "--wait", "spin", "--rounds", "100"];
    let program: Vec<&str> = [barriers.to_str().unwrap()].into_iter().chain(line).collect();
    let options = ["run", "-q", "--html", "run.html", "--trace", "run.pftrace", "--json", "run.json"];
    let output = cox(bench, &options, &program);
    assert!(output.status.success(), "{output:?}");
    let read = |name: &str| fs::read_to_string(bench.folder().join(name)).unwrap();
    (read("run.html"), serde_json::from_str(&read("run.json")).unwrap())
}

/// The numbers in a heat map that says this, summed.
fn summed(page: &str, says: &str) -> u64 {
    let map = page.split_once(&format!("data-says=\"{{}} {says}\"")).unwrap_or_else(|| panic!("no map of {says}")).1;
    let map = map.split_once("</g>").unwrap().0;
    let rows = map.split("data-v=\"").skip(1).map(|row| row.split_once('"').unwrap().0);
    rows.flat_map(|row| row.split(','))
        .filter(|value| !value.is_empty())
        .map(|value| value.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn what_is_drawn_adds_up_to_the_account() {
    let Some(bench) = bench("what_is_drawn_adds_up_to_the_account") else { return };
    let (page, document) = recorded(&bench);
    assert_eq!(document.lost_events, 0, "{:?}", document.account.lost);
    let threads = || ledger::summary::threads(&document.account);
    let switches: u64 = threads().map(|thread| thread.switches_voluntary + thread.switches_involuntary).sum();
    assert_eq!(summed(&page, "switches"), switches);
    let migrations: u64 = threads().map(|thread| thread.migrations.total()).sum();
    let drawn = if migrations > 0 { summed(&page, "migrations") } else { 0 };
    assert_eq!(drawn, migrations);
    assert!(page.contains(&format!("<p>{}", said_of(migrations))), "{migrations} migrations");
    for sentence in document.verdict.iter().flat_map(|verdict| &verdict.sentences) {
        // Up to the first character that a page writes otherwise.
        let begin = sentence.text.split(['\'', '&', '<', '%']).next().unwrap().trim_end();
        assert!(page.replace('\u{a0}', " ").contains(begin), "{begin}");
    }

    // What a trace keeps is all that the page is made of.
    let output = cox(&bench, &["report", "-q", "--html", "again.html", "run.pftrace"], &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read_to_string(bench.folder().join("again.html")).unwrap() == page, "the same page");
}

/// As the page says it.
fn said_of(migrations: u64) -> String {
    advise::numbers::counted(migrations, "migration") + " in the window"
}

#[test]
fn a_page_that_cannot_be_is_refused_before_anything_starts() {
    let Some(bench) = bench("a_page_that_cannot_be_is_refused_before_anything_starts") else { return };
    let program = ["touch", "started"];
    for (options, why) in [
        (vec!["run", "--html", "/nowhere/at/all.html"], "cannot write '/nowhere/at/all.html'"),
        (vec!["run", "--backend", "proc", "--html", "page.html"], "need eBPF"),
    ] {
        let output = cox(&bench, &options, &program);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(!bench.folder().join("started").exists());
    }
}

#[test]
fn in_a_browser_nothing_overflows_and_nothing_fails() {
    const TEST: &str = "in_a_browser_nothing_overflows_and_nothing_fails";
    if !installed(TEST, Need::Browser, "chromium") {
        return;
    }
    let Some(bench) = bench(TEST) else { return };
    let (page, _) = recorded(&bench);
    let widths = [1280, 400];
    let questions = widths.map(|width| [(PROBE, width), (CUT, width)]);
    let answers = asked_all(bench.folder(), &page, questions.as_flattened());
    for (width, answers) in widths.into_iter().zip(answers.chunks(2)) {
        let said = &answers[0];
        let [inner, needed, tall, sorts, tip] = &said[..] else { panic!("{said:?}") };
        assert_eq!(*inner, width.to_string());
        assert!(needed.parse::<u32>().unwrap() <= width, "{needed} px needed of {width}");
        assert_eq!((tall.as_str(), sorts.as_str()), ("true", "true"), "{said:?}");
        assert!(tip.contains("barriers, ") && tip.contains("% waiting for a CPU"), "{said:?}");
        let said = &answers[1];
        assert_eq!(said[1], "0", "at {width} px: {said:?}");
        // On a telephone pictures over time scroll, and say so.
        assert!(width > 400 || said[0].parse::<u32>().unwrap() >= 3, "{said:?}");
    }
}

#[test]
fn pictures_over_time_are_zoomed_together_and_reset_by_keys() {
    const TEST: &str = "pictures_over_time_are_zoomed_together_and_reset_by_keys";
    if !installed(TEST, Need::Browser, "chromium") {
        return;
    }
    let Some(bench) = bench(TEST) else { return };
    let (page, _) = recorded(&bench);
    let columns = report::html::COLUMNS;
    let said = asked(bench.folder(), &page, ZOOM, 1280);
    let [picked, dragged, changed, says, reset, keyed, moved, again, clicked, last, disabled] = &said[..] else {
        panic!("{said:?}")
    };
    let whole = format!("0+{columns}");
    assert_eq!(picked, "1", "a part is marked while it is dragged over, and not afterwards");
    assert_eq!((dragged, changed.as_str()), (&format!("{}+{}", columns / 4, columns / 4), "true"), "{said:?}");
    assert!(says.contains(" to ") && says.contains("Esc"), "{says}");
    assert_eq!(reset, &format!("{whole}true"));
    assert_eq!(keyed, &format!("{}+{}", columns / 4, columns / 2));
    assert_eq!(moved, &format!("{}+{}", columns * 3 / 8, columns / 2));
    assert_eq!((again, clicked, last), (&whole, &format!("{}+{}", columns / 4, columns / 2), &whole));
    assert_eq!(disabled, "true");
}

#[test]
fn without_javascript_the_page_is_whole() {
    let Some(bench) = bench("without_javascript_the_page_is_whole") else { return };
    let (page, _) = recorded(&bench);
    let (content, script) = page.split_once("<script>").unwrap();
    assert!(script.len() < 20_000, "{} bytes of script", script.len());
    // Nothing waits for the script: pictures have their columns and axes, what is folded up opens by itself, and nothing is hidden but the tip.
    assert_eq!(content.matches(" hidden").count(), 1);
    assert_eq!(content.matches("<svg class=\"plot\"").count(), content.matches("<g class=\"axis when\">").count());
    assert_eq!(content.matches("<button").count(), 0, "buttons would do nothing");
}
