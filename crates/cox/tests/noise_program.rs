//! `cox run --noise` with traces and a page: they contain what the report counts, thread by thread and cause by cause.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use report::noise::{ProgramNoise, ThreadNoise};
use testkit::browser::{CUT, asked_all};
use testkit::built::{PACKAGE, TARGET};
use testkit::measured::{Bench, bench};
use testkit::run::root_with_two_cpus;
use testkit::skip::{Need, installed, skip};
use testkit::traced::{Traced, succeeded, trace, workload};

/// Net time of each cause of each thread, ns.
type Times = BTreeMap<(u32, String), u64>;

/// Runs a program of which one thread interrupts another one. Returns its page too.
fn interrupted(bench: &Bench, victim: &str) -> (Traced, String) {
    let inject = workload("inject");
    let options = ["munmap", "--victim", victim, "--cpu", "0", "--rate", "500", "--priority", "50", "--seconds", "1"];
    let program = [&[inject.as_str()][..], &options].concat();
    let traced = trace(bench, &["--noise", "--html", "cox.html"], &program);
    let page = fs::read_to_string(bench.folder().join("cox.html")).unwrap();
    (traced, page)
}

fn name(noise: &ProgramNoise, cause: u32) -> &str {
    &noise.causes[cause as usize].name
}

fn is_fault(name: &str) -> bool {
    name.contains("page fault")
}

/// The times of the report, without page faults, of which one in eleven is traced.
fn by_report(noise: &ProgramNoise) -> Times {
    let of_thread = |thread: &ThreadNoise| -> Vec<((u32, String), u64)> {
        let row = |cause: u32, ns: u64| ((thread.tid, name(noise, cause).to_owned()), ns);
        thread.by_cause.iter().map(|taken| row(taken.cause, taken.inside_ns)).collect()
    };
    let mut times = Times::new();
    for (key, ns) in noise.threads.iter().flat_map(of_thread).filter(|((_, name), _)| !is_fault(name)) {
        // Several causes can have the same name: another place in the kernel sent the interrupt.
        *times.entry(key).or_default() += ns;
    }
    times
}

/// The times in Paraver's files. Each event says what interrupts the thread from then on.
fn by_paraver(prefix: &Path) -> Times {
    let read = |ending: &str| fs::read_to_string(prefix.with_extension(ending)).unwrap();
    let (meanings, rows) = (read("pcf"), read("row"));
    let (_, meanings) = meanings.split_once("Interrupted by\nVALUES\n").expect("the causes are named");
    let named = meanings.lines().map_while(|line| line.split_once("    "));
    let names: BTreeMap<u64, &str> = named.map(|(value, name)| (value.parse().unwrap(), name)).collect();
    let of_threads = rows.lines().skip_while(|line| !line.starts_with("LEVEL THREAD")).skip(1);
    let threads: Vec<u32> = of_threads.map_while(|line| line.split(' ').next()?.parse().ok()).collect();
    let mut times = Times::new();
    let mut now: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for line in read("prv").lines().filter(|line| line.starts_with("2:")) {
        let fields: Vec<u64> = line.split(':').map(|field| field.parse().unwrap()).collect();
        let [_, _, _, _, thread, at_ns, 91_000_004, value] = fields[..] else { continue };
        let before = now.insert(thread, (at_ns, value));
        if let Some((since_ns, cause)) = before.filter(|(_, cause)| *cause > 0) {
            let key = (threads[thread as usize - 1], names[&cause].to_owned());
            *times.entry(key).or_default() += at_ns - since_ns;
        }
    }
    assert!(now.values().all(|(_, value)| *value == 0), "an interruption never ends: {now:?}");
    times
}

/// The times in Perfetto's trace, by Perfetto's classes; `None` if they are not installed.
fn by_perfetto(test: &str, file: &Path) -> Option<Times> {
    let classes = Path::new(TARGET).join("python");
    if !classes.join("perfetto").is_dir() {
        skip(test, Need::Python, "needs Perfetto's protobuf classes (make python-packages)");
        return None;
    }
    let reader = Path::new(PACKAGE).join("tests/programs/perfetto_interruptions.py");
    let output = succeeded(Command::new("python3").env("PYTHONPATH", &classes).arg(reader).arg(file));
    let told: BTreeMap<u32, BTreeMap<String, u64>> = serde_json::from_slice(&output.stdout).unwrap();
    let keyed = |tid: u32, causes: BTreeMap<String, u64>| causes.into_iter().map(move |(name, ns)| ((tid, name), ns));
    Some(told.into_iter().flat_map(|(tid, causes)| keyed(tid, causes)).collect())
}

/// Asserts that a trace has the causes of the report, with their times. Waits of a thread can overlap if the machine is busy: a switch that the kernel
/// did not trace is told late. A trace draws the overlap once.
fn assert_same(source: &str, report: &Times, told: &Times) {
    for (key, ns) in report {
        let told_ns = told.get(key).copied().unwrap_or_else(|| panic!("{source}: no {key:?}"));
        let is_wait = key.1.starts_with("thread ") || key.1.starts_with("kworker");
        let least = if is_wait { 0 } else { ns - ns / 50 };
        let is_same = (least.saturating_sub(20_000)..=ns + ns / 50 + 20_000).contains(&told_ns);
        assert!(is_same, "{source}: {key:?}: {told_ns}, the report has {ns}");
    }
    let unknown: Vec<_> = told.keys().filter(|key| !is_fault(&key.1) && !report.contains_key(key)).collect();
    assert!(unknown.is_empty(), "{source}: {unknown:?}");
}

#[test]
fn traces_and_the_page_have_what_interrupted_each_thread() {
    const TEST: &str = "traces_and_the_page_have_what_interrupted_each_thread";
    let Some(cpus) = root_with_two_cpus(TEST) else { return };
    let Some(bench) = bench(TEST) else { return };
    let (traced, page) = interrupted(&bench, &cpus.last().unwrap().to_string());
    let noise = traced.document.noise.as_ref().expect("noise");
    let report = by_report(noise);
    let victim = traced.threads().find(|thread| thread.comm == "victim").expect("the victim").tid;
    let of_victim = |begin: &str| report.keys().find(|(tid, name)| *tid == victim && name.starts_with(begin));
    let (_, flushes) = of_victim("IPI: TLB flush by inject-munmap").expect("the sender is named");
    assert!(of_victim("timer tick").is_some(), "{report:?}");

    assert_same("Paraver", &report, &by_paraver(&traced.paraver));
    if let Some(told) = by_perfetto(TEST, &traced.perfetto) {
        assert_same("Perfetto", &report, &told);
    }

    let section = page.split("id=\"interrupted\"").nth(1).expect("a section").split("</section>").next().unwrap();
    assert!(section.replace('\u{a0}', " ").contains(flushes.as_str()), "{flushes}");
    let (_, picture) = section.split_once("<h3>Interruptions over time</h3><p>").expect("a picture");
    let listed: u64 = picture.split([' ', '\u{a0}']).next().unwrap().replace(',', "").parse().unwrap();
    let count = |faults: bool| -> u64 {
        let rows = noise.total.iter().filter(|row| faults || !is_fault(name(noise, row.cause)));
        rows.map(|row| row.count).sum()
    };
    assert!((count(false)..=count(true)).contains(&listed), "{listed} of {} to {}", count(false), count(true));
    assert!(["n-ipi", "n-tick"].iter().all(|class| section.contains(&format!("class=\"mark {class}\""))), "marks");
    assert_eq!(section.matches("<details>").count(), noise.threads.len(), "a table for each thread");
    assert!(!section.contains("not listed"), "nothing was left out");
}

/// Without noise there is no such section, and a stored trace draws the table without the picture.
#[test]
fn pages_without_interruptions_say_so_or_have_no_section() {
    const TEST: &str = "pages_without_interruptions_say_so_or_have_no_section";
    if root_with_two_cpus(TEST).is_none() {
        return;
    }
    let Some(bench) = bench(TEST) else { return };
    let busy = ["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"];
    let page = |name: &str| fs::read_to_string(bench.folder().join(name)).unwrap();
    trace(&bench, &["--html", "plain.html"], &busy);
    assert!(!page("plain.html").contains("What interrupted the threads"));
    trace(&bench, &["--noise", "--html", "own.html"], &busy);
    assert!(page("own.html").contains("<h3>Interruptions over time</h3>"));
    let mut again = Command::new(env!("CARGO_BIN_EXE_cox"));
    succeeded(again.args(["report", "--html", "later.html", "cox.pftrace"]).current_dir(bench.folder()));
    let later = page("later.html");
    assert!(later.contains("What interrupted the threads") && later.contains("timer tick"), "the table is there");
    assert!(!later.contains("Interruptions over time") && later.contains("Single interruptions are not drawn"));
}

#[test]
fn in_a_browser_the_section_does_not_overflow() {
    const TEST: &str = "in_a_browser_the_section_does_not_overflow";
    if !installed(TEST, Need::Browser, "chromium") {
        return;
    }
    let Some(cpus) = root_with_two_cpus(TEST) else { return };
    let Some(bench) = bench(TEST) else { return };
    let (_, page) = interrupted(&bench, &cpus.last().unwrap().to_string());
    // Also the tables of threads, which are folded up at first.
    let page = page.replace("<details>", "<details open>");
    for (width, said) in [1280, 400].into_iter().zip(asked_all(bench.folder(), &page, &[(CUT, 1280), (CUT, 400)])) {
        assert_eq!(said[1], "0", "at {width} px: {said:?}");
    }
}
