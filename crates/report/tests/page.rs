//! The page agrees with the document, is well-formed whatever names contain, and stays small.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod markup;
mod sample;

use ledger::Provenance;
use ledger::stretch::{Doing, Stretch};
use ledger::summary::threads;
use ledger::timeline::{Span, Timeline};
use ledger::{Account, Lost, OwnCost, Process, Program, Thread, WokenBy};
use markup::{Element, text, tree};
use report::html::{self, COLUMNS};
use report::{Document, Style};
use wire::{Backend, Cause, Left, Migration, TraceEvent, What};

const MS: u64 = 1_000_000;

/// A timeline of this document's threads that has nothing in it yet.
fn empty(document: &Document) -> Timeline {
    Timeline::new(Span::new(0, document.account.window_ns, COLUMNS), &html::shown(document))
}

fn stretch(tid: u32, from_ns: u64, until_ns: u64, doing: Doing) -> Stretch {
    Stretch { life: tid, tid, tgid: tid, from_ns, until_ns, doing, cpu: 0 }
}

fn switch(out: u32, into: u32) -> What {
    What::Switch {
        out,
        left: Left::Preempted { yielded: false },
        out_is_member: out != 0,
        into,
        in_is_member: into != 0,
        in_cause: None,
    }
}

/// Something happens to each thread in the whole window: its turns go round the CPUs.
fn busy(document: &Document, cpus: u16, turns: u64) -> Timeline {
    let mut timeline = empty(document);
    let length_ns = document.account.window_ns;
    let tids: Vec<u32> = threads(&document.account).map(|thread| thread.tid).collect();
    for turn in 0..turns {
        let (from_ns, until_ns) = (length_ns * turn / turns, length_ns * (turn + 1) / turns);
        let cpu = (turn % u64::from(cpus)) as u16;
        for (at, tid) in tids.iter().enumerate() {
            let doing = match (turn as usize * 7 + at) % 5 {
                0 => Doing::Run,
                1 => Doing::WakeDelay,
                2 => Doing::Blocked(Cause::Disk),
                3 => Doing::Blocked(Cause::Futex),
                _ => Doing::Preempted { yielded: turn % 3 == 0 },
            };
            timeline.stretch(&stretch(*tid, from_ns, until_ns, doing));
        }
        let (out, into) = (tids[turn as usize % tids.len()], tids[(turn as usize + 1) % tids.len()]);
        timeline.trace_event(&TraceEvent::new(from_ns, cpu, switch(out, into)));
        let moved = What::Migration { tid: into, from: cpu, kind: Migration::WhileQueued };
        timeline.trace_event(&TraceEvent::new(from_ns, (cpu + 1) % cpus, moved));
    }
    timeline.finish()
}

fn page(document: &Document, timeline: &Timeline) -> (String, Element) {
    let page = html::page(document, timeline, None);
    let tree = tree(&page).unwrap_or_else(|fault| panic!("{fault}"));
    (page, tree)
}

#[test]
fn figures_are_those_of_the_text_report() {
    for document in [sample::heat(), sample::troubled(), sample::packed(), sample::make()] {
        let (_, tree) = page(&document, &busy(&document, 2, 50));
        let shown = text(&tree).replace('\u{a0}', " ");
        for sentence in document.verdict.iter().flat_map(|verdict| &verdict.sentences) {
            assert!(shown.contains(&sentence.text), "{}", sentence.text);
            for step in &sentence.next {
                assert!(shown.contains(&step.action) && shown.contains(&step.topic), "{step:?}");
            }
        }
        let style = Style { all_threads: true, width: 300, ..Style::default() };
        let report = report::text::text(&document, &style);
        // Figures with their units, wherever they stand in the report, and counts.
        let words: Vec<&str> = report.split_whitespace().collect();
        for pair in words.windows(2) {
            let bare = |word: &str| word.trim_matches(|c: char| "(),:;".contains(c)).to_owned();
            if ["%", "s", "ms"].contains(&bare(pair[1]).as_str()) && pair[0].ends_with(|c: char| c.is_ascii_digit()) {
                let figure = format!("{} {}", bare(pair[0]), bare(pair[1]));
                assert!(shown.contains(&figure), "{figure}");
            }
        }
    }
}

#[test]
fn processes_that_are_called_the_same_are_each_programs_own() {
    let mut document = sample::make();
    let make = document.account.programs[0].clone();
    // Another program of the same names, half of its compilers gone.
    let mut other = make.clone();
    other.command = vec!["ninja".into()];
    other.processes.retain(|process| process.comm != "cc1" || process.pid % 4 == 1);
    document.account.programs.push(other);
    let (_, tree) = page(&document, &busy(&document, 2, 50));
    let tables = tree.find(&|e| e.is("names"));
    let report = report::text::text(&document, &Style::default());
    for (at, (table, compilers)) in tables.iter().zip(["cc1 × 120", "cc1 × 60"]).enumerate() {
        let heading = format!("{}: program", ["A", "B"][at]);
        let said = text(table);
        assert!(said.contains(compilers) && said.contains(&heading), "{compilers} in {said}");
        // The text report says the same, with the table's rows below its heading.
        let rows = report.split_once(&heading).unwrap().1;
        assert!(rows.lines().skip(1).take(3).any(|line| line.trim_start().starts_with(compilers)), "{report}");
    }
    assert_eq!(tables.len(), 2);
    let section = tree.find(&|e| e.attribute("id") == "threads")[0];
    let cells: Vec<String> = section.find(&|e| e.name == "td").iter().map(|cell| text(cell)).collect();
    let of = |letter: &str| cells.iter().filter(|cell| cell.starts_with(letter) && cell.ends_with(" make")).count();
    assert_eq!((of("A "), of("B ")), (1, 1));
}

#[test]
fn only_programs_side_by_side_have_a_section_of_it() {
    let mut document = sample::heat();
    let sections = |document: &Document| {
        let (_, tree) = page(document, &busy(document, 2, 50));
        let named = |name: &str, attribute: &str| -> Vec<String> {
            let all = tree.find(&|e| e.name == name && !e.attribute(attribute).is_empty());
            all.iter().map(|e| e.attribute(attribute).trim_start_matches('#').to_owned()).collect()
        };
        // Links of the verdict to the guide's pages lead to what is folded up below it.
        let (explained, links): (Vec<String>, Vec<String>) =
            named("a", "href").into_iter().partition(|link| link.starts_with("why-"));
        assert_eq!(named("section", "id"), links, "each has its link, in the same order");
        let folded: Vec<String> = named("div", "id").into_iter().filter(|id| id.starts_with("why-")).collect();
        assert!(!folded.is_empty() && explained.iter().all(|link| folded.contains(link)), "{explained:?} {folded:?}");
        named("section", "id")
    };
    let alone = sections(&document);
    document.account.co_run = Some(ledger::co_run::CoRun::default());
    let beside = sections(&document);
    assert_eq!((alone.len(), beside.len(), beside[4].as_str()), (11, 12, "beside"));
    assert!(!alone.contains(&beside[4]));
}

#[test]
fn bars_are_as_long_as_lives_and_divided_as_the_account_divides_them() {
    let document = sample::heat();
    let (_, tree) = page(&document, &busy(&document, 2, 50));
    let bars: Vec<&Element> = tree.find(&|e| e.name == "table" && e.is("bars"))[0].find(&|e| e.name == "svg");
    assert_eq!(bars.len(), 3);
    for bar in bars {
        let widths: Vec<u64> = bar.find(&|e| e.name == "rect").iter().map(|rect| rect.number("width")).collect();
        assert_eq!(widths.iter().sum::<u64>(), 1000);
    }
    // 5.41 s of 12.41 s, and so on.
    let widths = |at: usize| -> Vec<(String, u64)> {
        let bars = tree.find(&|e| e.name == "table" && e.is("bars"))[0].find(&|e| e.name == "svg");
        bars[at]
            .find(&|e| e.name == "rect")
            .iter()
            .map(|r| (r.attribute("class").to_owned(), r.number("width")))
            .collect()
    };
    let expected =
        [("s-work", 436), ("s-spin", 210), ("s-preempted", 327), ("s-wake", 13), ("s-disk", 12), ("s-unknown", 2)];
    assert_eq!(widths(0), expected.map(|(class, width)| (class.to_owned(), width)));
}

#[test]
fn cells_say_what_happened_in_them() {
    let document = sample::heat();
    let mut timeline = empty(&document);
    let span = timeline.span;
    // The second thread waits through column 5 and through a half of column 6.
    let half = span.border_ns(6) + span.width_ns(6) / 2;
    timeline.stretch(&stretch(4712, span.border_ns(5), half, Doing::WakeDelay));
    for _ in 0..3 {
        timeline.trace_event(&TraceEvent::new(span.border_ns(7), 1, switch(4713, 4711)));
        let moved = What::Migration { tid: 4711, from: 0, kind: Migration::AtWakeup };
        timeline.trace_event(&TraceEvent::new(span.border_ns(9), 1, moved));
    }
    let (page, tree) = page(&document, &timeline.finish());
    let maps = tree.find(&|e| e.is("pointed"));
    assert_eq!(maps.len(), 3, "waiting, switches, migrations");
    let values = |map: usize, row: usize| -> Vec<(usize, u64)> {
        let rows = maps[map].find(&|e| e.name == "rect");
        let cells = rows[row].attribute("data-v").split(',').enumerate();
        cells.filter_map(|(column, value)| Some((column, value.parse().ok()?))).collect()
    };
    // Thousandths, rounded up: what is there is seen.
    assert_eq!((values(0, 0), values(0, 1)), (vec![], vec![(5, 1000), (6, 500)]));
    assert_eq!((values(1, 2), values(1, 1)), (vec![(7, 3)], vec![]));
    assert_eq!(values(2, 0), [(9, 3)]);
    // The same in shades: rows are 26 pixels high.
    assert!(
        page.contains("<path class=\"q8\" d=\"M5 26h1v25h-1z\"/>")
            && page.contains("<path class=\"q4\" d=\"M6 26h1v25h-1z\"/>")
    );
    assert!(page.contains("CPU 0 → CPU 1: 3<") && text(&tree).contains("3 migrations in the window"));
}

#[test]
fn hostile_names_are_only_text() {
    const NAME: &str = "</script><b onmouseover=\"x\">&'\u{202e}";
    let mut document = sample::troubled();
    let program = &mut document.account.programs[0];
    program.command = vec![NAME.into(), "</title></style>".into()];
    for thread in program.processes.iter_mut().flat_map(|process| &mut process.threads) {
        thread.comm = NAME.into();
        thread.woken_by =
            vec![WokenBy { tid: 1, host_tid: None, comm: Some(NAME.into()), count: 1, blocked_ns: 5 * MS }];
    }
    document.cox_version = NAME.into();
    let name = || Some(NAME.to_owned());
    document.account.provenance = Some(Provenance {
        host: name(),
        kernel: name(),
        cpu_model: name(),
        container: name(),
        job: name(),
        command: vec![NAME.into()],
        working_directory: name(),
        ..Provenance::default()
    });
    for hot in &mut document.account.hot_functions {
        (hot.module, hot.function, hot.waiting) = (NAME.into(), Some(NAME.into()), Some(NAME.into()));
    }
    document.account.preemptors[0].comm = NAME.into();
    let document = Document::new(NAME, document.account, sample::facts());
    let (page, tree) = page(&document, &busy(&document, 2, 50));
    assert!(!page.contains("<b ") && !page.contains('\u{202e}') && !page.contains("onmouseover=\""));
    assert_eq!(tree.find(&|e| e.name == "script").len(), 1);
    assert_eq!(tree.find(&|e| e.name == "b").len(), 0);
    assert!(text(&tree).contains("</script><b onmouseover=\"x\">&'?"));
}

#[test]
fn nothing_is_fetched() {
    let document = sample::heat();
    let (page, tree) = page(&document, &busy(&document, 2, 50));
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("src=") && !page.contains("@import"));
    for link in tree.find(&|e| !e.attribute("href").is_empty()) {
        let to = link.attribute("href").strip_prefix('#').expect("a place on the page");
        assert_eq!(tree.find(&|e| e.attribute("id") == to).len(), 1, "{to}");
    }
}

#[test]
fn what_was_lost_is_on_the_face_of_every_picture_over_time() {
    let document = sample::heat();
    let mut timeline = busy(&document, 2, 50);
    let whole = page(&document, &timeline).1;
    assert_eq!(whole.find(&|e| e.is("hole") || e.is("lost")).len(), 0);
    (timeline.lost[9], timeline.holes[9], timeline.holes[10]) = (1_234, true, true);
    let tree = page(&document, &timeline).1;
    let plots = tree.find(&|e| e.is("plot"));
    assert_eq!(plots.len(), 5, "CPUs, demand, waiting, switches, migrations");
    for plot in plots {
        assert_eq!(plot.find(&|e| e.is("hole")).len(), 2);
    }
    let said = tree.find(&|e| e.is("lost"));
    // The matrix and both histograms lack what was lost, too.
    assert_eq!(said.len(), 8);
    assert!(said.iter().all(|said| text(said) == "1,234 trace events lost: hatched columns are incomplete."));
}

#[test]
fn a_page_of_one_thread_and_a_page_of_nothing_are_whole() {
    let mut one = sample::heat();
    one.account.programs[0].processes[0].threads.truncate(1);
    let (_, tree) = page(&one, &busy(&one, 1, 20));
    assert_eq!(tree.find(&|e| e.name == "section").len(), 11);
    let none = Account {
        programs: Vec::new(),
        cpus: Vec::new(),
        hot_functions: Vec::new(),
        preemptors: Vec::new(),
        ..one.account
    };
    let none = Document::new("0.1.0", none, sample::facts());
    let (_, tree) = page(&none, &empty(&none).finish());
    assert_eq!(tree.find(&|e| e.name == "section").len(), 11);
}

/// 2,000 threads for ten minutes.
fn crowd() -> Document {
    let thread = |tid: u32| {
        let part = |of: u64| (u64::from(tid) * of % 97 + 1) * 1_000 * MS;
        let (run_ns, wake_delay_ns, preempt_wait_ns, disk_ns) = (part(3), part(5), part(7), part(11));
        let woken_by = (1..=8).map(|step| WokenBy {
            tid: 10_000 + (tid + step * 13) % 2_000,
            host_tid: None,
            comm: Some("crowd".into()),
            count: 1_000,
            blocked_ns: disk_ns / 8,
        });
        Thread {
            tid,
            comm: format!("worker/{tid}"),
            wall_ns: run_ns + wake_delay_ns + preempt_wait_ns + disk_ns,
            run_ns,
            wake_delay_ns,
            preempt_wait_ns,
            blocked_ns: disk_ns,
            blocked_by: [(Cause::Disk, disk_ns)].into_iter().collect(),
            switches_voluntary: 123_456,
            switches_involuntary: 654_321,
            migrations: [(Migration::WhileQueued, 12_345)].into_iter().collect(),
            cpus: sample::ran_on((0..8).map(|cpu| (cpu, run_ns / 8))),
            woken_by: woken_by.collect(),
            ..Thread::default()
        }
    };
    let threads = (10_000..12_000).map(thread).collect();
    let program = Program {
        command: vec!["./crowd".into()],
        exit_code: Some(0),
        wall_ns: 600_000 * MS,
        processes: vec![Process { pid: 10_000, comm: "crowd".into(), threads, ..Process::default() }],
        ..Program::default()
    };
    let account = Account {
        backend: Backend::Bpf,
        sees: None,
        provenance: None,
        window_ns: 600_000 * MS,
        events: 1_000_000_000,
        lost: Lost::default(),
        own_cost: OwnCost::default(),
        programs: vec![program],
        cpus: Vec::new(),
        preemptors: Vec::new(),
        co_run: None,
        hot_functions: Vec::new(),
    };
    Document::new("0.1.0", account, sample::facts())
}

#[test]
fn two_thousand_threads_for_ten_minutes_stay_small() {
    let document = crowd();
    // More turns than columns: no column is like its neighbour.
    for cpus in [64, 256] {
        let (page, tree) = page(&document, &busy(&document, cpus, 3_000));
        assert!(page.len() < 5_000_000, "{} bytes with {cpus} CPUs", page.len());
        let rows = tree.find(&|e| e.is("pointed"))[0].find(&|e| e.name == "rect").len();
        assert_eq!(rows, html::ROWS + 1, "those that lost most, and the others in one");
        assert!(text(&tree).contains("1,940 more (mean)"));
        let table = tree.find(&|e| e.attribute("id") == "threads")[0].find(&|e| e.name == "tbody")[0];
        assert_eq!(table.find(&|e| e.name == "tr").len(), 2_000);
    }
}
