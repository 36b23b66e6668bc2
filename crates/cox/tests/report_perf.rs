//! `cox report` on recordings of perf, compared with perf's own output for the same file.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::measured::{Bench, assert_none, assert_undisturbed};
use testkit::recorded::{cox, document, lines, perf, perf_bench, record, run};
use testkit::skip::{Need, skip};

/// Rows of a table: a name, and so many numbers behind it; of these the wanted ones.
fn rows(text: &str, numbers: usize, wanted: &[usize]) -> Vec<String> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, values) = words.split_at_checked(words.len().checked_sub(numbers)?)?;
        let all = values.iter().all(|word| word.parse::<f64>().is_ok()) && !name.is_empty();
        let wanted = wanted.iter().map(|at| *values.get(*at).unwrap_or(&"")).collect::<Vec<_>>().join(" ");
        all.then(|| format!("{} {wanted}", name.join(" ")))
    };
    let mut rows: Vec<String> = text.lines().filter(|line| line.contains('[')).filter_map(row).collect();
    rows.sort();
    rows
}

#[track_caller]
fn assert_same(what: &str, perfs: &[String], ours: &[String]) {
    assert!(perfs.len() > 10, "{what}: {}", perfs.len());
    let faults: Vec<String> = perfs
        .iter()
        .filter(|row| !ours.contains(row))
        .map(|row| format!("{what}: perf {row}"))
        .chain(ours.iter().filter(|row| !perfs.contains(row)).map(|row| format!("{what}: cox  {row}")))
        .collect();
    assert_none(&faults);
    assert_eq!(perfs.len(), ours.len(), "{what}");
}

#[test]
fn timehist_is_perfs_to_the_last_digit() {
    const TEST: &str = "timehist_is_perfs_to_the_last_digit";
    let Some(bench) = perf_bench(TEST) else { return };
    // perf's timehist does not find its events in what was recorded to a pipe.
    for form in ["", "-z"] {
        let Some(file) = record(TEST, &bench, form) else { continue };
        let ours = cox(&["--timehist", "--summary"], &file).0;
        // Parent, count, run time: sum, least, mean, most, spread.
        let first = [0, 1, 2, 3, 4, 5, 6];
        let perfs = perf(&["sched", "timehist", "-s"], &file);
        assert_same("-s", &rows(&perfs, 8, &first), &rows(&ours, 11, &first));
        // Sleep, I/O wait, preempted, delay.
        let perfs = perf(&["sched", "timehist", "-s", "--state"], &file);
        assert_same("-s --state", &rows(&perfs, 7, &[0, 1, 2, 3, 4, 5, 6]), &rows(&ours, 11, &[0, 1, 2, 7, 8, 9, 10]));
        let (perfs, ours) = (lines(&perf(&["sched", "timehist"], &file)), lines(&cox(&["--timehist"], &file).0));
        assert!(perfs.len() > 100 && perfs.len() == ours.len(), "{} and {}", perfs.len(), ours.len());
        let differing = perfs.iter().zip(&ours).find(|(perf, ours)| perf != ours);
        assert_eq!(differing, None, "{form}");
    }
}

#[test]
fn later_perf_calls_a_preempted_wait_a_delay() {
    const TEST: &str = "later_perf_calls_a_preempted_wait_a_delay";
    let Some(bench) = perf_bench(TEST) else { return };
    let Some(file) = record(TEST, &bench, "") else { return };
    let sums = |rule| {
        let text = cox(&["--timehist", "--summary", "--rule", rule], &file).0;
        let rows = rows(&text, 11, &[7, 8, 9, 10]);
        rows.iter().fold([0.0; 4], |mut sums, row| {
            let numbers = row.rsplit(' ').take(4).map(|number| number.parse::<f64>().unwrap());
            sums.iter_mut().rev().zip(numbers).for_each(|(sum, number)| *sum += number);
            sums
        })
    };
    let ([sleep, iowait, preempt, delay], newer) = (sums("perf-6.1"), sums("newer"));
    let close = |a: f64, b: f64| (a - b).abs() < 0.5 + a.abs() * 0.001;
    assert!(close(sleep + iowait + preempt, newer[..3].iter().sum()), "{newer:?}");
    assert!(newer[2] > 1.0 && newer[3] >= delay + newer[2] * 0.9, "{delay} {newer:?}");
}

#[test]
fn the_account_agrees_with_what_the_scheduler_charged() {
    const TEST: &str = "the_account_agrees_with_what_the_scheduler_charged";
    let Some(bench) = perf_bench(TEST) else { return };
    // The hypervisor takes CPUs away between a reading of the scheduler's clock and the event of the switch.
    assert_undisturbed(|| record(TEST, &bench, "").map_or_else(Vec::new, |file| differences(&file, &bench)));
}

/// What a report on a recording says otherwise than the scheduler's own sums in it.
fn differences(file: &Path, bench: &Bench) -> Vec<String> {
    let (document, _) = document(file, bench);
    assert_eq!((document.account.backend, document.checks.worst_gap), (wire::Backend::PerfData, 0.0));
    assert!(document.account.programs[0].command.join(" ").contains("sched record"), "{:?}", document.account.programs);
    let threads: Vec<_> = ledger::summary::threads(&document.account).collect();
    // What is charged is told by thread: a key in the text of its own.
    let text = perf(&["script", "--ns", "-F", "comm,tid,cpu,time,event,trace"], file);
    let mut faults = Vec::new();
    let mut compared = 0;
    for thread in threads.iter().filter(|thread| thread.comm == "md5sum" && !thread.alive) {
        let key = format!(" pid={} runtime=", thread.tid);
        let charged = text
            .lines()
            .filter(|line| line.contains("sched_stat_runtime"))
            .filter_map(|line| line.split_once(&key)?.1.split(' ').next()?.parse::<u64>().ok());
        let charged_ns: u64 = charged.sum();
        compared += 1;
        // The scheduler does not charge what the switch itself takes, nor what the hypervisor took.
        let switches = thread.switches_voluntary + thread.switches_involuntary;
        println!("{}: {} ns, charged {charged_ns} ns, {switches} switches", thread.tid, thread.run_ns);
        if thread.run_ns + 1000 * switches < charged_ns
            || thread.run_ns > charged_ns + charged_ns / 2 + 20_000 * switches
        {
            faults.push(format!("{} ran {} ns and was charged {charged_ns} ns", thread.tid, thread.run_ns));
        }
        if thread.unknown_ns * 10 > thread.wall_ns {
            faults.push(format!("{}: {} of {} ns unknown", thread.tid, thread.unknown_ns, thread.wall_ns));
        }
    }
    assert!(compared >= 2, "{compared} were seen");
    faults
}

#[test]
fn losses_are_said_first_and_a_verdict_claims_less() {
    const TEST: &str = "losses_are_said_first_and_a_verdict_claims_less";
    let Some(bench) = perf_bench(TEST) else { return };
    let (file, text) = (bench.folder().join("lossy.data"), bench.folder().join("lossy.txt"));
    // One page for each CPU, and a program that switches all the time: longer, if perf could keep up.
    let record = |rounds: &&str| -> Option<u64> {
        let pingpong = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/workloads/pingpong");
        let mut command = Command::new("perf");
        command.args(["sched", "record", "-m", "1", "-o"]).arg(&file).args(["--", pingpong, "--rounds", rounds]);
        let is_recorded = command.output().unwrap().status.success();
        is_recorded.then(|| {
            let told = perf(&["script", "--ns", "--show-lost-events"], &file);
            fs::write(&text, &told).unwrap();
            told.lines()
                .filter_map(|line| line.split_once("PERF_RECORD_LOST lost ")?.1.trim().parse::<u64>().ok())
                .sum()
        })
    };
    let Some(lost) = ["40000", "160000", "640000"].iter().filter_map(record).find(|lost| *lost >= 1000) else {
        return skip(TEST, Need::Perf, "perf cannot record with a buffer of one page, or lost nothing");
    };
    let (of_file, said) = document(&file, &bench);
    assert!(said.contains("perf lost"), "{said}");
    // Newer perf knows of those, too, that were lost behind the last record; by far not of as many again.
    let counted = of_file.account.lost.events;
    assert!((lost..lost + lost / 2).contains(&counted), "{lost} {counted}");
    for document in [of_file, document(&text, &bench).0] {
        let part = document.account.lost.events as f64 / document.account.events as f64;
        let verdict = &document.verdict[0];
        assert!(document.account.lost.events >= lost && part > 0.001, "{:?}", document.account.lost);
        assert!(verdict.sentences[0].text.contains("events were lost"), "{:?}", verdict.sentences);
        assert_eq!(verdict.confidence, advise::Confidence::Low);
        assert!(verdict.sentences.iter().flat_map(|sentence| &sentence.next).all(|step| step.bound.is_none()));
    }
}

#[test]
fn traces_of_it_say_what_its_account_says() {
    const TEST: &str = "traces_of_it_say_what_its_account_says";
    let Some(bench) = perf_bench(TEST) else { return };
    let Some(file) = record(TEST, &bench, "") else { return };
    let (trace, prv) = (bench.folder().join("app.pftrace"), bench.folder().join("app"));
    cox(&["-q", "--trace", trace.to_str().unwrap(), "--paraver", prv.to_str().unwrap()], &file);
    assert!(fs::metadata(prv.with_extension("prv")).unwrap().len() > 10_000);
    let (of_file, of_trace) = (document(&file, &bench).0, document(&trace, &bench).0);
    assert_eq!(of_file, of_trace);
    let mut opened = std::io::BufReader::new(fs::File::open(&trace).unwrap());
    let (recording, _) = trace::session::read(&mut opened, bench.folder()).unwrap();
    let clocks = recording.play(|_| -> std::io::Result<()> { Ok(()) }).unwrap();
    let played: u64 = clocks.iter().map(|clock| clock.run_ns).sum();
    let told: u64 = ledger::summary::threads(&of_file.account).map(|thread| thread.run_ns).sum();
    assert_eq!(played, told);
}

#[test]
fn kuhns_percentages_are_sums_of_perfs_lines() {
    const TEST: &str = "kuhns_percentages_are_sums_of_perfs_lines";
    let Some(bench) = perf_bench(TEST) else { return };
    let Some(file) = record(TEST, &bench, "") else { return };
    let text = perf(&["sched", "timehist"], &file);
    let (mut waits, mut idle, mut times) = (0.0, 0.0, Vec::new());
    for line in lines(&text) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[words.len() - at].parse::<f64>().unwrap();
        times.push(words[0].parse::<f64>().unwrap() * 1e3);
        if line.contains("<idle>") {
            idle += number(1);
        } else {
            waits += number(3) + number(2);
        }
    }
    let window = times.last().unwrap() - times[0];
    let ours = cox(&["--kuhn2022"], &file).0;
    let percent = |name: &str| -> f64 {
        let line = ours.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{ours}"));
        line.trim_start()[name.len()..].split_whitespace().next().unwrap().parse().unwrap()
    };
    for (name, sum) in [("context switch", waits), ("idle", idle)] {
        let truth = 100.0 * sum / window;
        // perf cuts each number to microseconds.
        let slack = 0.1 + 100.0 * 0.003 * times.len() as f64 / window;
        assert!((percent(name) - truth).abs() <= slack, "{name}: {truth} in\n{ours}");
    }
    assert!(percent("migration") <= percent("context switch") && ours.contains("twice (rule perf-6.1)"), "{ours}");
    // Of the program alone.
    let (mut waits, all) = (0.0, waits);
    for line in lines(&text).into_iter().filter(|line| line.contains(" sleep[")) {
        let words: Vec<&str> = line.split(' ').collect();
        waits += [3, 2].map(|at| words[words.len() - at].parse::<f64>().unwrap()).iter().sum::<f64>();
    }
    assert!(waits < all, "other threads waited, too");
    let ours = cox(&["--kuhn2022", "--of", "sleep,nobody"], &file).0;
    let line = ours.lines().find(|line| line.trim_start().starts_with("context switch")).unwrap();
    let percent: f64 = line.split_whitespace().nth(2).unwrap().parse().unwrap();
    let (truth, slack) = (100.0 * waits / window, 0.1 + 100.0 * 0.003 * times.len() as f64 / window);
    assert!((percent - truth).abs() <= slack, "{truth} in\n{ours}");
}

#[test]
fn what_cannot_be_reported_on_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, bytes: &[u8], arguments: &[&str], code: i32, clue: &str| {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        let ran = run(env!("CARGO_BIN_EXE_cox"), &[&["report"], arguments].concat(), &file);
        let err = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!((ran.status.code(), err.lines().count()), (Some(code), 1), "{err}");
        assert!(err.starts_with("cox: ") && err.contains(clue), "no {clue:?} in {err}");
    };
    refused("big-endian", b"2ELIFREP\0\0\0\0\0\0\0\x68", &[], 125, "big-endian");
    refused("short", b"PERFILE2\x68", &[], 125, "cut off");
    refused("text", b"hello\n", &[], 125, "not a perf recording");
    refused("empty", b"", &[], 125, "not a perf recording");
    refused("trace", b"\x0a\x00", &["--timehist"], 125, "a trace of cox");
    refused("both", b"", &["--timehist", "--kuhn2022"], 2, "--kuhn2022");
    refused("json", b"", &["--timehist", "--json", "-"], 2, "--json");
    // Alone it would say nothing.
    refused("rule", b"", &["--rule", "newer"], 2, "--timehist");
    refused("rule", b"2ELIFREP", &["--kuhn2022", "--rule", "newer"], 125, "big-endian");
}
