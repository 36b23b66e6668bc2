//! Pictures of the page: what colours mean, what adds up to what, what is folded up.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod markup;
mod sample;

use std::collections::{BTreeMap, BTreeSet};

use ledger::stretch::{Doing, Stretch};
use ledger::summary::threads;
use ledger::timeline::{Span, Timeline};
use ledger::{Thread, WokenBy};
use markup::{Element, text, tree};
use report::html::{self, COLUMNS};
use report::{Document, Style};
use wire::{Cause, Left, Migration, TraceEvent, What};

const MS: u64 = 1_000_000;

/// Every thread does something of everything, and CPUs change hands.
fn timeline(document: &Document) -> Timeline {
    let mut timeline = Timeline::new(Span::new(0, document.account.window_ns, COLUMNS), &html::shown(document));
    let length_ns = document.account.window_ns;
    let tids: Vec<u32> = threads(&document.account).map(|thread| thread.tid).collect();
    for turn in 0..40u64 {
        let (from_ns, until_ns) = (length_ns * turn / 40, length_ns * (turn + 1) / 40);
        for (at, tid) in tids.iter().enumerate() {
            let doing = match (turn as usize + at) % 5 {
                0 => Doing::Run,
                1 => Doing::WakeDelay,
                2 => Doing::Blocked(Cause::Disk),
                3 => Doing::Preempted { yielded: true },
                _ => Doing::Preempted { yielded: false },
            };
            timeline.stretch(&Stretch { life: *tid, tid: *tid, tgid: *tid, from_ns, until_ns, doing, cpu: 0 });
        }
        let into = tids[turn as usize % tids.len()];
        let is_ours = turn % 7 != 3;
        let what = What::Switch {
            out: tids[(turn as usize + 1) % tids.len()],
            left: Left::Preempted { yielded: false },
            out_is_member: true,
            into: if is_ours { into } else { 99_999 },
            in_is_member: is_ours,
            in_cause: None,
        };
        timeline.trace_event(&TraceEvent::new(from_ns, (turn % 2) as u16, what));
        let moved = What::Migration { tid: into, from: (turn % 2) as u16, kind: Migration::WhileQueued };
        timeline.trace_event(&TraceEvent::new(from_ns, ((turn + 1) % 2) as u16, moved));
    }
    timeline.finish()
}

fn page(document: &Document) -> (String, Element) {
    let page = html::page(document, &timeline(document), None);
    let tree = tree(&page).unwrap_or_else(|fault| panic!("{fault}"));
    (page, tree)
}

/// A run with all states and many causes.
fn varied() -> Document {
    let mut document = sample::troubled();
    for thread in &mut document.account.programs[0].processes[0].threads {
        use Cause::{ChildWait, Network, PageFault, Pipe, Poll, Sleep, Unspecified};
        for cause in [Network, Pipe, Poll, Sleep, ChildWait, PageFault, Unspecified] {
            thread.blocked_by[cause] = 300 * MS;
            thread.blocked_ns += 300 * MS;
            thread.wall_ns += 300 * MS;
        }
    }
    Document::new("0.1.0", document.account, sample::facts())
}

/// Threads of which most do nothing but wait: 14 asleep on a futex, 3 in sleep.
fn sleepy() -> Document {
    let mut account = sample::heat().account;
    let threads = &mut account.programs[0].processes[0].threads;
    threads.extend((0..17u32).map(|at| {
        let cause = if at < 14 { Cause::Futex } else { Cause::Sleep };
        Thread {
            tid: 5000 + at,
            comm: "pool".into(),
            wall_ns: 12_000 * MS,
            run_ns: MS,
            blocked_ns: 11_999 * MS,
            blocked_by: [(cause, 11_999 * MS)].into_iter().collect(),
            woken_by: vec![WokenBy { tid: 4711, host_tid: None, comm: None, count: 1, blocked_ns: 11_999 * MS }],
            ..Thread::default()
        }
    }));
    Document::new("0.1.0", account, sample::facts())
}

/// `--name` → colour, of the light page and of the dark one.
fn colours(page: &str) -> [BTreeMap<String, String>; 2] {
    let css = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let read = |block: &str| -> BTreeMap<String, String> {
        let block = block.split_once(":root{").unwrap().1.split_once('}').unwrap().0;
        let pairs = block.split(';').filter_map(|pair| pair.trim().strip_prefix("--")?.split_once(':'));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let (light, rest) = css.split_once("@media screen and (prefers-color-scheme:dark)").unwrap();
    let light = read(light);
    let mut dark = light.clone();
    dark.extend(read(rest));
    [light, dark]
}

/// The variable that a class is filled with.
fn fill(page: &str, class: &str) -> Option<String> {
    let rule = page.split_once(&format!(".{class}{{fill:"))?.1.split_once('}')?.0;
    Some(rule.trim_start_matches("var(--").trim_end_matches(')').to_owned())
}

/// A colour where distances are as eyes see them (Ottosson, "A perceptual color space for image processing", 2020).
fn oklab(hex: &str) -> [f64; 3] {
    let part = |at: usize| {
        let value = f64::from(u8::from_str_radix(&hex[1 + 2 * at..3 + 2 * at], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    let (r, g, b) = (part(0), part(1), part(2));
    let l = (0.412_221_47 * r + 0.536_332_54 * g + 0.051_445_99 * b).cbrt();
    let m = (0.211_903_5 * r + 0.680_699_55 * g + 0.107_396_96 * b).cbrt();
    let s = (0.088_302_46 * r + 0.281_718_84 * g + 0.629_978_7 * b).cbrt();
    [
        0.210_454_26 * l + 0.793_617_79 * m - 0.004_072_05 * s,
        1.977_998_5 * l - 2.428_592_21 * m + 0.450_593_71 * s,
        0.025_904_04 * l + 0.782_771_77 * m - 0.808_675_77 * s,
    ]
}

fn apart(a: &str, b: &str) -> f64 {
    let (a, b) = (oklab(a), oklab(b));
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// What is drawn in a colour of the page.
fn is_coloured(class: &str) -> bool {
    let digit = |prefix: &str| class.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u8>().is_ok());
    class.starts_with("s-") || digit("q") || digit("t")
}

#[test]
fn one_colour_has_one_meaning_in_all_pictures() {
    let (page, tree) = page(&varied());
    // What legends say: a class has the same words wherever it is explained, and no words stand for two classes.
    let mut meanings: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut words: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in tree.find(&|e| e.is("legend")).iter().flat_map(|legend| legend.find(&|e| e.name == "li")) {
        let class = entry.find(&|e| e.name == "rect")[0].attribute("class").to_owned();
        // Shades of one hue are amounts, whose numbers are each picture's own.
        if !(class.starts_with('q') && is_coloured(&class)) {
            meanings.entry(class.clone()).or_default().insert(text(entry));
            words.entry(text(entry)).or_default().insert(class);
        }
    }
    assert!(meanings.len() >= 18, "{meanings:#?}");
    for (what, of) in meanings.iter().chain(&words) {
        assert_eq!(of.len(), 1, "{what}: {of:?}");
    }
    // Whatever has a colour has an explained one.
    let states = meanings.keys().filter(|class| class.starts_with("s-")).count();
    assert!(states >= 14, "{meanings:#?}");
    for shape in tree.find(&|e| ["rect", "path", "circle"].contains(&e.name.as_str())) {
        let class = shape.attribute("class");
        if is_coloured(class) && !class.starts_with('q') {
            assert!(meanings.contains_key(class), "{class} is in no legend");
        }
    }
    // The colours themselves: one for each class, and told apart.
    let explained: Vec<&String> = meanings.keys().filter(|class| is_coloured(class) && *class != "s-unknown").collect();
    for theme in colours(&page) {
        let of = |class: &str| theme[&fill(&page, class).unwrap_or_else(|| panic!("{class} has no colour"))].clone();
        for (at, class) in explained.iter().enumerate() {
            for other in &explained[..at] {
                let distance = apart(&of(class), &of(other));
                assert!(distance >= 0.085, "{class} and {other} look alike: {distance:.3}");
            }
            for shade in 1..=8 {
                let distance = apart(&of(class), &of(&format!("q{shade}")));
                assert!(distance >= 0.05, "{class} looks like an amount (q{shade}): {distance:.3}");
            }
        }
    }
}

#[test]
fn time_on_a_cpu_is_work_only_where_spinning_was_looked_for() {
    let (_, tree) = page(&varied());
    let section = |id: &str| tree.find(&|e| e.name == "section" && e.attribute("id") == id)[0];
    for id in ["waiting", "spread", "cpus"] {
        assert_eq!(section(id).find(&|e| e.is("s-work")).len(), 0, "{id}: spinning would be called work");
    }
    assert!(["waiting", "spread"].iter().all(|id| !section(id).find(&|e| e.is("s-run")).is_empty()));
    let mut account = varied().account;
    account.hot_functions.clear();
    for thread in account.programs[0].processes.iter_mut().flat_map(|process| &mut process.threads) {
        (thread.spin_ns, thread.samples, thread.spin_basis) = (0, 0, ledger::SpinBasis::None);
    }
    let (_, tree) = page(&Document::new("0.1.0", account, sample::facts()));
    assert_eq!(tree.find(&|e| e.is("s-work")).len(), 0, "nobody looked whether it was work");
}

#[test]
fn the_overall_bar_has_the_numbers_of_the_text_report() {
    for document in [sample::heat(), varied(), sleepy(), sample::make()] {
        let (_, tree) = page(&document);
        let bar = tree.find(&|e| e.is("overall"))[0];
        let widths: Vec<u64> = bar.find(&|e| e.name == "rect").iter().map(|rect| rect.number("width")).collect();
        let table = tree.find(&|e| e.is("shares"))[0];
        let rows: Vec<Vec<String>> = table
            .find(&|e| e.name == "tr")
            .iter()
            .map(|row| row.find(&|e| ["td", "th"].contains(&e.name.as_str())).iter().map(|cell| text(cell)).collect())
            .collect();
        let tenths = |percent: &str| percent.trim_end_matches(" %").replace('.', "").parse::<u64>().unwrap();
        let printed: u64 = rows.iter().map(|row| tenths(&row[0])).sum();
        assert_eq!(widths.iter().sum::<u64>(), printed, "{rows:?}");
        assert!((990..=1000).contains(&printed), "{printed}");
        // Each part of the bar says its share, each row is a line of the text report.
        let report = report::text::text(&document, &Style { width: 300, ..Style::default() });
        for row in &rows {
            let line = report
                .lines()
                .map(str::trim)
                .find(|line| line.starts_with(&row[0]) && line[row[0].len()..].trim_start().starts_with(&row[1]));
            let line = line.unwrap_or_else(|| panic!("{row:?} in {report}"));
            assert!(line.ends_with(&row[2]), "{row:?}: {line}");
        }
        for rect in bar.find(&|e| e.name == "rect") {
            let said = text(rect);
            let share = tenths(said.rsplit_once(": ").unwrap().1);
            assert_eq!(share, rect.number("width"), "{said}");
        }
        // A picture of its own for each colour of the table.
        let of_bar: BTreeSet<&str> =
            bar.find(&|e| e.name == "rect").iter().map(|rect| rect.attribute("class")).collect();
        let chips = table.find(&|e| e.name == "rect");
        let of_table: BTreeSet<&str> = chips.iter().map(|rect| rect.attribute("class")).collect();
        assert_eq!(of_bar.difference(&of_table).collect::<Vec<_>>(), Vec::<&&str>::new());
    }
}

#[test]
fn bars_of_cpus_in_use_have_the_numbers_of_the_text_report() {
    let (_, tree) = page(&sample::heat());
    let rows: Vec<(String, String)> = tree.find(&|e| e.is("in-use"))[0]
        .find(&|e| e.name == "tr")
        .iter()
        .map(|row| {
            let share = text(row.find(&|e| e.name == "td")[0]);
            let width = row.find(&|e| e.name == "rect")[0].number("width");
            assert_eq!(format!("{}.{} %", width / 10, width % 10), share);
            (text(row.find(&|e| e.name == "th")[0]), share)
        })
        .collect();
    let report = report::text::text(&sample::heat(), &Style { width: 300, ..Style::default() });
    let words: Vec<String> = rows.iter().map(|(cpus, share)| format!("{cpus} for {share}")).collect();
    let line = format!("  CPUs in use: {}", words.join(", ").replacen(" %", " % of the time", 1));
    assert!(rows.len() == 3 && report.lines().any(|text| text == line), "{line}: {report}");
    let (_, tree) = page(&sample::make());
    assert!(tree.find(&|e| e.is("in-use")).is_empty(), "it is not known there");
}

#[test]
fn sums_are_not_called_time_lines() {
    let (_, tree) = page(&sample::heat());
    let titles: Vec<String> = tree.find(&|e| e.name == "h3").iter().map(|title| text(title)).collect();
    assert!(titles.iter().any(|title| title.contains("a sum, not a time line")), "{titles:?}");
    assert!(!titles.iter().any(|title| title.contains("life")), "{titles:?}");
    // Pictures that have a time axis say so in their title.
    for figure in tree.find(&|e| e.name == "figure" && !e.find(&|e| e.is("when")).is_empty()) {
        let title = text(figure.find(&|e| e.name == "h3")[0]);
        assert!(title.contains("time"), "{title}");
    }
}

#[test]
fn threads_that_slept_all_the_time_are_one_line_that_opens() {
    let (_, tree) = page(&sleepy());
    let bars = tree.find(&|e| e.name == "section" && e.attribute("id") == "states")[0];
    let folded = bars.find(&|e| e.name == "details")[0];
    let line = text(folded.find(&|e| e.name == "summary")[0]);
    assert_eq!(
        line,
        "17 threads slept all the time (blocked for at least 99.5 % of their life): asleep on a futex 82.4 %, slept 17.6 %"
    );
    let rows = |of: &Element| of.find(&|e| e.attribute("scope") == "row").len();
    assert_eq!((rows(folded), rows(bars)), (17, 20), "three are always seen");
    assert_eq!(folded.attribute("open"), "");
    // So it is in pictures over time.
    let maps = tree.find(&|e| e.is("pointed"));
    let numbers: Vec<usize> = maps.iter().map(|map| map.find(&|e| e.name == "rect").len()).collect();
    assert_eq!(numbers, [3, 17, 3, 17, 3, 17]);
    // All threads are in the table, and nothing is folded where nothing else is.
    let table = tree.find(&|e| e.attribute("id") == "threads")[0].find(&|e| e.name == "tbody")[0];
    assert_eq!(table.find(&|e| e.name == "tr").len(), 20);
    let mut account = sleepy().account;
    account.programs[0].processes[0].threads.drain(..3);
    let (_, tree) = page(&Document::new("0.1.0", account, sample::facts()));
    assert_eq!(tree.find(&|e| e.is("asleep")).len(), 0);
}

#[test]
fn of_many_threads_those_that_slept_get_no_row_before_others() {
    let mut account = sleepy().account;
    let threads = &mut account.programs[0].processes[0].threads;
    let sleeper = threads.last().unwrap().clone();
    threads.extend((0..100u32).map(|at| Thread {
        tid: 6000 + at,
        blocked_by: [(Cause::Futex, sleeper.blocked_ns)].into_iter().collect(),
        ..sleeper.clone()
    }));
    threads.rotate_left(3);
    let document = Document::new("0.1.0", account, sample::facts());
    let shown = html::shown(&document);
    assert_eq!(shown.len(), html::ROWS);
    assert!([4711, 4712, 4713].iter().all(|tid| shown.contains(tid)), "{shown:?}");
}

#[test]
fn who_waits_for_whom_is_a_matrix_with_its_table_open() {
    let (_, tree) = page(&sleepy());
    let section = tree.find(&|e| e.name == "section" && e.attribute("id") == "wakers")[0];
    let matrix = section.find(&|e| e.is("waits"))[0];
    let cells: Vec<&Element> = matrix
        .find(&|e| e.name == "rect")
        .into_iter()
        .filter(|rect| rect.attribute("class").starts_with('q'))
        .collect();
    let details = section.find(&|e| e.name == "details")[0];
    assert!(details.has("open"));
    let rows = details.find(&|e| e.name == "tbody")[0].find(&|e| e.name == "tr");
    assert_eq!((cells.len(), rows.len()), (20, 20));
    // Each row of the table is a cell that says the same.
    let said: Vec<String> = cells.iter().map(|cell| text(cell)).collect();
    for row in rows {
        let row: Vec<String> = row.find(&|e| e.name == "td").iter().map(|cell| text(cell)).collect();
        let expected = format!("{} waits for {}: {} times, {}", row[0], row[1], row[2], row[3]);
        assert!(said.contains(&expected), "{expected}");
    }
    // The longest waits are the darkest; all of one thread are in one column.
    let darkest: Vec<&&Element> = cells.iter().filter(|cell| cell.is("q8")).collect();
    assert_eq!(darkest.len(), 17);
    let columns: BTreeSet<&str> = darkest.iter().map(|cell| cell.attribute("x")).collect();
    assert_eq!(columns.len(), 1);
}
