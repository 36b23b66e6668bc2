//! The page of `cox noise` says what the text says, adds up, and stays small; names in it are only text.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod markup;
mod noise_sample;

use std::collections::BTreeSet;

use markup::{Element, text, tree};
use noise_sample::{CLASSES, HOSTILE, detours, measured, of_ftq, ticks};
use report::html;
use report::noise::{NoiseReport, Taken};
use report::style::Style;

fn page(report: &NoiseReport) -> (String, Element) {
    let page = html::noise(report);
    let tree = tree(&page).unwrap_or_else(|fault| panic!("{fault}"));
    (page, tree)
}

/// The titles of all figures of a page.
fn figures(tree: &Element) -> Vec<String> {
    tree.find(&|e| e.name == "figcaption").iter().map(|caption| text(caption.find(&|e| e.name == "h3")[0])).collect()
}

/// The figure with this title.
fn figure<'t>(tree: &'t Element, title: &str) -> &'t Element {
    let all = tree.find(&|e| e.name == "figure");
    all.into_iter().find(|figure| text(figure.find(&|e| e.name == "h3")[0]) == title).unwrap()
}

fn sum(figure: &Element, attribute: &str) -> u64 {
    figure.find(&|e| e.has(attribute)).iter().map(|bar| bar.number(attribute)).sum()
}

#[test]
fn each_loop_has_its_pictures() {
    let detours = ["Detours over time", "Number of detours by length", "Stolen time by length of the detours"];
    let mut report = measured("detour");
    report.cpus[0].ticks = ticks();
    assert_eq!(figures(&page(&report).1), [detours[0], detours[1], detours[2], "What ticks did"]);
    let mut report = measured("fwq");
    report.cpus[0].quanta = Some(vec![(990_000, 1_500), (990_500, 500)]);
    assert_eq!(figures(&page(&report).1), [detours[0], detours[1], detours[2], "Quanta"]);
    let mut report = measured("bsp");
    report.cpus[0].steps = Some(vec![(990_100, 1_500), (1_200_000, 500)]);
    report.cpus[0].until_barrier = Some(vec![(990_000, 1_999), (995_000, 1)]);
    let [steps, work] = ["Steps, with the barrier", "Work of the steps, up to the barrier"];
    assert_eq!(figures(&page(&report).1), [detours[0], detours[1], detours[2], steps, work]);
    assert_eq!(figures(&page(&of_ftq()).1), ["Periodic disturbances"]);
}

#[test]
fn the_page_says_what_the_text_says() {
    let mut quanta = measured("fwq");
    quanta.events.lost = 3;
    quanta.cpus[0].steal_ns = 5_000_000;
    let mut blind = measured("detour");
    blind.events.blind = Some("not root".into());
    let mut ticked = measured("detour");
    ticked.cpus[0].ticks = ticks();
    for report in [measured("detour"), quanta, blind, ticked, of_ftq()] {
        let shown = text(&page(&report).1).replace('\u{a0}', " ");
        let style = Style { width: 1_000, ..Style::default() };
        let said = report::noise::text(&report, &style);
        for line in said.lines().filter(|line| line.contains(" · ")) {
            let line = line.trim().trim_start_matches("cox: ");
            assert!(shown.contains(line), "{line}\n{shown}");
        }
        for line in said
            .lines()
            .filter(|line| line.starts_with("  => ") || line.contains("silences") || line.contains("not known"))
        {
            let line = line.trim().trim_start_matches("=> ");
            assert!(shown.contains(line), "{line}");
        }
        // Names and figures of the tables.
        let cells: Vec<String> = page(&report).1.find(&|e| e.name == "td").iter().map(|cell| text(cell)).collect();
        for row in said.lines().filter(|line| line.starts_with("  timer tick ") || line.starts_with("  tick alone ")) {
            for cell in row.trim().split("  ").map(str::trim).filter(|cell| !cell.is_empty()) {
                assert!(cells.iter().any(|shown| shown == cell), "{cell} in {cells:?}");
            }
        }
    }
}

#[test]
fn pictures_of_lengths_add_up_to_all_detours() {
    for measuring in ["detour", "fwq"] {
        let report = measured(measuring);
        let cpu = &report.cpus[0];
        let (_, tree) = page(&report);
        for title in ["Number of detours by length", "Stolen time by length of the detours"] {
            let figure = figure(&tree, title);
            assert_eq!(sum(figure, "data-count"), cpu.detours.len() as u64, "{title}");
            assert_eq!(sum(figure, "data-ns"), cpu.fine.stolen_ns, "{title}");
            // The shares that bars show when one points at them.
            let titles: Vec<String> = figure.find(&|e| e.name == "title").iter().map(|title| text(title)).collect();
            let share = |title: &String| {
                title.split(", ").find_map(|part| part.strip_suffix(" %")?.parse::<f64>().ok()).unwrap()
            };
            assert_eq!((titles.iter().map(share).sum::<f64>() * 10.0).round(), 1000.0, "{title}");
        }
        // By class, too: the number of ticks, and of threads.
        for (class, cause) in [("n-tick", 0), ("n-thread", 6), ("n-unknown", 10)] {
            let bars = figure(&tree, "Number of detours by length").find(&|e| e.is(class) && e.has("data-count"));
            let drawn: u64 = bars.iter().map(|bar| bar.number("data-count")).sum();
            assert_eq!(drawn, cpu.detours.iter().filter(|(.., of)| *of == cause).count() as u64, "{class}");
            assert!(drawn > 0);
        }
    }
}

#[test]
fn each_detour_has_a_mark_and_many_share_marks() {
    let marks = |tree: &Element| -> Vec<String> {
        let groups = figure(tree, "Detours over time").find(&|e| e.is("mark"));
        groups.iter().flat_map(|group| group.find(&|e| e.name == "title")).map(text).collect()
    };
    let mut report = measured("detour");
    let (_, tree) = page(&report);
    assert_eq!(marks(&tree).len(), 500);
    assert!(!text(&tree).contains("share marks"));
    report.cpus[0].detours = detours(200_000);
    report.cpus[0].truncated = true;
    report.cpus[0].fine.count = 210_000;
    let (page, tree) = page(&report);
    let marks = marks(&tree);
    assert!((1_000..=3_000).contains(&marks.len()), "{}", marks.len());
    assert!(page.len() < 700_000, "{} bytes", page.len());
    let said = text(figure(&tree, "Detours over time"));
    assert!(
        said.contains(&format!("200,000 detours, {},{:03} marks", marks.len() / 1000, marks.len() % 1000)),
        "{said}"
    );
    assert!(said.contains("share marks") && said.contains("10,000 more detours were counted but not listed"), "{said}");
    let stands_for = |mark: &String| -> u64 {
        mark.split_once("the longest of ").map_or(1, |(_, number)| number.replace(',', "").parse().unwrap())
    };
    assert_eq!(marks.iter().map(stands_for).sum::<u64>(), 200_000);
}

#[test]
fn many_cpus_share_the_room_for_marks() {
    let mut report = measured("detour");
    report.cpus[0].detours = detours(4_000);
    report.cpus = (0..128).map(|cpu| report::noise::Cpu { cpu, ..report.cpus[0].clone() }).collect();
    let page = html::noise(&report);
    assert!(page.len() < 20_000_000, "{} bytes", page.len());
    assert_eq!(page.matches("<section ").count(), 129);
}

#[test]
fn bars_of_ticks_are_divided_as_the_ticks_are() {
    let mut report = measured("detour");
    report.cpus[0].ticks = ticks();
    let (_, tree) = page(&report);
    let bars = figure(&tree, "What ticks did").find(&|e| e.name == "svg" && !e.attribute("aria-label").is_empty());
    let widths = |bar: &Element| -> Vec<(String, u64)> {
        bar.find(&|e| e.name == "rect").iter().map(|r| (r.attribute("class").to_owned(), r.number("width"))).collect()
    };
    let expected =
        |parts: &[(&str, u64)]| parts.iter().map(|(class, width)| ((*class).to_owned(), *width)).collect::<Vec<_>>();
    assert_eq!(widths(bars[0]), expected(&[("n-tick", 667), ("n-entry", 333)]));
    assert_eq!(
        widths(bars[1]),
        expected(&[("n-tick", 500), ("n-softirq", 214), ("n-entry", 286)]),
        "without other threads"
    );
    assert!(text(&tree).contains("tick function 1.3 µs · entry and exit 666 ns"), "means per tick");
    assert!(text(&tree).contains("tick + softirq SCHED + other threads · 50 ticks"));
}

#[test]
fn quanta_become_bars_and_none_is_lost() {
    let mut report = measured("fwq");
    let quanta: Vec<(u64, u64)> = (0..300).map(|at| (990_000 + at * at * 40, 1 + 4_000 / (at + 1))).collect();
    report.cpus[0].quanta = Some(quanta.clone());
    let (_, tree) = page(&report);
    let number: u64 = quanta.iter().map(|(_, count)| count).sum();
    assert_eq!(sum(figure(&tree, "Quanta"), "data-count"), number);
    assert!(text(figure(&tree, "Quanta")).contains("the shortest 990.0 µs"));
    // One quantum, and none.
    for few in [vec![(990_000, 1)], Vec::new()] {
        report.cpus[0].quanta = Some(few);
        page(&report);
    }
}

#[test]
fn peaks_are_named_in_the_picture_and_below_it() {
    let (_, tree) = page(&of_ftq());
    let names = figure(&tree, "Periodic disturbances")
        .find(&|e| e.name == "text" && text(e).ends_with(" Hz") && !text(e).starts_with("frequency"));
    assert_eq!(names.iter().map(|name| text(name)).collect::<Vec<_>>(), ["250.0 Hz", "499.9 Hz"]);
    let cells: Vec<String> = tree.find(&|e| e.name == "td").iter().map(|cell| text(cell)).collect();
    assert!(cells.windows(3).any(|row| row == ["250.0 Hz", "0.21 %", "64×"]), "{cells:?}");
    let mut report = of_ftq();
    report.cpus[0].spectrum.as_mut().unwrap().peaks.clear();
    assert!(text(&page(&report).1).contains("periodic: nothing stands out"));
    report.cpus[0].spectrum = None;
    assert!(text(&page(&report).1).contains("too few quanta for a spectrum"));
}

#[test]
fn hostile_names_are_only_text() {
    let mut report = measured("detour");
    report.cox_version = HOSTILE.into();
    report.provenance.host = Some(HOSTILE.into());
    report.events.blind = Some(HOSTILE.into());
    report.events.without = vec![HOSTILE.into()];
    report.clock.source = Some(HOSTILE.into());
    report.causes[0].knob = Some(HOSTILE.into());
    report.cpus[0].check.not_seen = vec![HOSTILE.into()];
    report.cpus[0].ticks = ticks();
    report.cpus[0].ticks[0].what = HOSTILE.into();
    report.cpus[0].ticks[0].parts[0].what = HOSTILE.into();
    report.causes[1].class = HOSTILE.into();
    let (page, tree) = page(&report);
    assert!(!page.contains("<b ") && !page.contains("onmouseover=\""));
    assert_eq!(tree.find(&|e| e.name == "b").len(), 0);
    assert_eq!(tree.find(&|e| e.name == "script").len(), 0);
    // In each place: the title of a mark, the table of causes, the header, the checks, the ticks and their parts, the facts, the foot.
    assert!(text(&tree).matches(HOSTILE).count() >= 10, "{}", text(&tree).matches(HOSTILE).count());
}

#[test]
fn nothing_is_fetched_and_links_lead_to_sections() {
    let mut report = measured("detour");
    report.cpus.push(report::noise::Cpu { cpu: 0, ..report.cpus[0].clone() });
    let (page, tree) = page(&report);
    assert!(page.contains("default-src 'none'") && !page.contains("script-src") && !page.contains("<script"));
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("src=") && !page.contains("@import"));
    let links: Vec<&str> =
        tree.find(&|e| e.has("href")).iter().map(|e| e.attribute("href").strip_prefix('#').unwrap()).collect();
    let sections: Vec<&str> = tree.find(&|e| e.name == "section").iter().map(|e| e.attribute("id")).collect();
    assert_eq!(links, sections);
    assert_eq!(sections, ["cpu-1", "cpu-0", "measurement"]);
    report.measurement.pinned = false;
    report.cpus.truncate(1);
    assert_eq!(self::page(&report).1.find(&|e| e.name == "section")[0].attribute("id"), "thread-4711");
}

#[test]
fn a_page_of_nothing_is_whole() {
    let mut report = measured("detour");
    report.cpus[0].detours.clear();
    report.cpus[0].by_cause.clear();
    assert_eq!(figures(&page(&report).1), [""; 0]);
    report.cpus.clear();
    assert_eq!(page(&report).1.find(&|e| e.name == "section").len(), 1);
    // Detours of no length: an axis needs a logarithm.
    let mut report = measured("fwq");
    report.cpus[0].detours = vec![(0, 1, 0), (0, 990_000, 99)];
    page(&report);
}

#[test]
fn every_class_has_a_colour_and_words_of_its_own() {
    let mut report = measured("detour");
    report.cpus[0].ticks = ticks();
    let (page, tree) = page(&report);
    let marks = figure(&tree, "Detours over time").find(&|e| e.is("mark"));
    assert_eq!(marks.len(), CLASSES.len());
    let css = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let fill = |class: &str| -> String {
        let rule =
            css.split_once(&format!(".{class}{{fill:var(--")).unwrap_or_else(|| panic!("{class} has no colour")).1;
        let name = rule.split_once(')').unwrap().0;
        css.split_once(&format!("--{name}:")).unwrap().1.split([';', '}']).next().unwrap().to_owned()
    };
    let mut words = BTreeSet::new();
    let mut colours = BTreeSet::new();
    let entries = tree.find(&|e| e.is("legend")).into_iter().flat_map(|legend| legend.find(&|e| e.name == "li"));
    for entry in entries {
        let class =
            entry.find(&|e| e.attribute("class").contains("n-"))[0].attribute("class").trim_start_matches("bare ");
        words.insert((text(entry), class.to_owned()));
        colours.insert(fill(class));
    }
    // All classes, and entering and leaving the kernel.
    assert_eq!((words.len(), colours.len()), (12, 12), "{words:?} {colours:?}");
    assert_eq!(words.iter().map(|(words, _)| words).collect::<BTreeSet<_>>().len(), 12);
}

/// `inside_ns` is what a cause took itself, `stolen_ns` the detours it was in. Of two CPUs, one loses nothing.
#[test]
fn shares_are_means_of_the_cpus_and_their_parts_add_up() {
    let mut report = measured("detour");
    let taken = |cause: u32, inside_ns| Taken { cause, count: 1, inside_ns, stolen_ns: 9, median_ns: 9, longest_ns: 9 };
    let (ms, quiet) = (1_000_000, report.cpus[0].clone());
    let busy = &mut report.cpus[0];
    busy.fine.stolen_ns = 190 * ms;
    busy.steal_ns = 40 * ms;
    // A tick, a thread, a work item; outside this kernel and unknown are in the rest.
    busy.by_cause = vec![taken(0, 20 * ms), taken(6, 70 * ms), taken(7, 30 * ms), taken(9, 60 * ms), taken(10, 5 * ms)];
    report.cpus.push(quiet);
    report.cpus[1].fine.stolen_ns = 0;
    report.cpus[1].by_cause.clear();
    // Halves of shares of 2 s.
    for (share, expected) in report.shares().into_iter().zip([0.0475, 0.005, 0.025, 0.0175, 0.01]) {
        assert!((share - expected).abs() < 1e-9, "{share} instead of {expected}");
    }
}
