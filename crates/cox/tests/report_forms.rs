//! `cox report` on recordings in all formats of perf: the reports are equal.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::Command;

use ledger::Delays;
use report::Document;
use testkit::measured::assert_none;
use testkit::recorded::{cox, document, lines, perf, perf_bench, record};
use testkit::run::on_one_line;
use testkit::skip::{Need, skip};

#[test]
fn text_of_perf_script_tells_the_same() {
    const TEST: &str = "text_of_perf_script_tells_the_same";
    let Some(bench) = perf_bench(TEST) else { return };
    let text = bench.folder().join("perf.txt");
    // Times have microseconds if they are not wanted with all digits.
    for (form, script, digit_ns) in
        [("", &["script"][..], 1000), ("pipe", &["script", "--ns"], 0), ("-z", &["script", "--ns"], 0)]
    {
        let Some(file) = record(TEST, &bench, form) else { continue };
        fs::write(&text, perf(script, &file)).unwrap();
        let [(of_file, _), (of_text, _)] = [document(&file, &bench), document(&text, &bench)];
        assert_eq!(of_file.account.events, of_text.account.events);
        let run = |document: &Document, tid: u32| -> u64 {
            let threads = ledger::summary::threads(&document.account).filter(|thread| thread.tid == tid);
            threads.map(|thread| thread.run_ns).sum()
        };
        let mut faults = Vec::new();
        for thread in ledger::summary::threads(&of_file.account) {
            let (theirs_ns, ours_ns) = (run(&of_text, thread.tid), run(&of_file, thread.tid));
            let slack_ns = digit_ns * (2 + thread.switches_voluntary + thread.switches_involuntary);
            if ours_ns.abs_diff(theirs_ns) > slack_ns {
                faults.push(format!("{form} {} {}: {ours_ns} and {theirs_ns} ns", thread.tid, thread.comm));
            }
        }
        assert_none(&faults);
        let lines = |file| lines(&cox(&["--timehist"], file).0).len();
        assert_eq!(lines(&file), lines(&text));
    }
}

#[test]
fn json_of_a_recording_is_alone_on_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("perf.txt");
    let text = " app 9/9 [000] 1.000001000: sched:sched_switch: prev_comm=app prev_pid=9 prev_prio=120 prev_state=S ==> \
                next_comm=b next_pid=8 next_prio=120\n";
    fs::write(&recording, text).unwrap();
    let printed = cox(&["--json", "-"], &recording).0;
    serde_json::from_str::<Document>(&printed).unwrap();
    // Without it there is the text.
    assert!(cox(&[], &recording).0.contains("app"));
}

#[test]
fn both_forms_of_text_tell_the_same() {
    const TEST: &str = "both_forms_of_text_tell_the_same";
    let Some(bench) = perf_bench(TEST) else { return };
    // perf takes plugins from its user's home, too; this one prints switches and wake-ups in its own way.
    let plugin = Path::new("/usr/lib/traceevent/plugins/plugin_sched_switch.so");
    let home = bench.folder().join(".local/lib/traceevent/plugins");
    fs::create_dir_all(&home).unwrap();
    if fs::copy(plugin, home.join("plugin_sched_switch.so")).is_err() {
        return skip(TEST, Need::Perf, format_args!("needs {}", plugin.display()));
    }
    let Some(file) = record(TEST, &bench, "") else { return };
    let [plain, plugins] = [Path::new("/nowhere"), bench.folder()].map(|home| {
        let mut command = Command::new("perf");
        let ran = command.args(["script", "--ns", "-i"]).arg(&file).env("HOME", home).output().unwrap();
        let text = bench.folder().join("perf.txt");
        fs::write(&text, &ran.stdout).unwrap();
        (String::from_utf8_lossy(&ran.stdout).into_owned(), document(&text, &bench))
    });
    if plain.0.contains(" ==> next_comm=") == plugins.0.contains(" ==> next_comm=") {
        return skip(TEST, Need::Perf, "perf does not load the plugin");
    }
    assert_eq!(plain.1.1, plugins.1.1);
    let lives = |document: &Document| -> Vec<_> {
        let threads = ledger::summary::threads(&document.account);
        let mut lives: Vec<_> = threads.map(|t| (t.tid, t.run_ns, t.wake_delay_ns, t.blocked_ns, t.wall_ns)).collect();
        lives.sort_unstable();
        lives
    };
    assert_eq!(lives(&plain.1.0), lives(&plugins.1.0));
    assert!(lives(&plain.1.0).iter().any(|life| life.2 > 0), "nobody waited to be woken");
}

#[test]
fn what_comes_through_a_pipe_is_read_as_it_comes() {
    const TEST: &str = "what_comes_through_a_pipe_is_read_as_it_comes";
    let Some(bench) = perf_bench(TEST) else { return };
    let Some(file) = record(TEST, &bench, "pipe") else { return };
    let cox = env!("CARGO_BIN_EXE_cox");
    let ran = |script: &str| {
        let mut command = Command::new("timeout");
        command.args(["120", "sh", "-c", script]).current_dir(bench.folder()).env("COX", cox).env("FILE", &file);
        let ran = command.output().unwrap();
        let [out, err] = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (ran.status.code(), out, err)
    };
    let (_, whole, _) = ran("$COX report --timehist $FILE");
    assert!(whole.lines().count() > 100, "{whole}");
    for script in [
        "cat $FILE | $COX report --timehist -",
        "cat $FILE | $COX report --timehist /dev/stdin",
        "$COX report --timehist - <$FILE",
        "mkfifo f && { cat $FILE >f & $COX report --timehist f; }",
    ] {
        let (code, out, err) = ran(script);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{script}");
        assert!(out == whole, "{script}");
    }
    // As it is meant: perf tells it while it records.
    let (code, out, err) = ran("perf sched record -o - -- sleep 0.1 2>/dev/null | $COX report -");
    assert!(code == Some(0) && out.contains("wake-delay"), "{out}{err}");
    // In the form for files it is told what to do.
    let Some(_) = record(TEST, &bench, "") else { return };
    for script in ["cat $FILE | $COX report -", "cat $FILE | $COX report /dev/stdin"] {
        let (code, _, err) = ran(script);
        assert_eq!((code, err.lines().count()), (Some(125), 1), "{script}: {err}");
        assert!(err.contains("cannot be read from a pipe") && !err.contains("llegal seek"), "{err}");
    }
    let (code, out, _) = ran("$COX report - <$FILE");
    assert!(code == Some(0) && out.contains("wake-delay"), "{out}");
}

#[test]
fn what_a_recording_has_none_of_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("perf.txt");
    let said = |lines: &[&str]| {
        fs::write(&text, lines.join("\n") + "\n").unwrap();
        cox(&["-q"], &text).1
    };
    let switch = "a 5 [000] 1.000000: sched:sched_switch: a:5 [120] S ==> b:6 [120]";
    let waking = "b 6 [000] 1.000100: sched:sched_wakeup: a:5 [120] CPU:000";
    let odd = "b 6 [000] 1.000200: sched:sched_wakeup: a woke";
    assert_eq!(said(&[switch, waking]), "");
    let no_waking = said(&[switch, odd]);
    assert!(no_waking.contains("no wake-ups") && no_waking.contains("does not know: 1"), "{no_waking}");
    assert!(!no_waking.contains("no switches"), "{no_waking}");
    // Without wake-ups, the wait for a CPU after them is part of blocked time.
    let delays = |lines: &[&str]| {
        fs::write(&text, lines.join("\n") + "\n").unwrap();
        let json = folder.path().join("cox.json");
        let report = cox(&["--latency", "--json", json.to_str().unwrap()], &text).0;
        let document: Document = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
        let latencies = document.account.programs[0].latencies.unwrap();
        assert_eq!(latencies.blocked.map(|of| of.count), Some(1));
        let report = on_one_line(&report);
        (latencies.wake_delay.map(|of| of.max_ns), document.account.sees().delays, report)
    };
    let back = "b 6 [000] 1.000300: sched:sched_switch: b:6 [120] S ==> a:5 [120]";
    let came = "c 7 [000] 0.999000: sched:sched_switch: c:7 [120] S ==> a:5 [120]";
    let (longest_ns, place, _) = delays(&[came, switch, waking, back]);
    assert_eq!((longest_ns, place), (Some(200_000), Delays::Apart));
    let (longest_ns, place, report) = delays(&[came, switch, back]);
    assert_eq!((longest_ns, place), (None, Delays::InBlocked));
    assert!(report.contains("Wake delay counts as blocked time: the recording has no wake-ups."), "{report}");
    let no_switch = said(&[waking]);
    assert!(no_switch.contains("no switches") && no_switch.lines().count() == 1, "{no_switch}");
}

#[test]
fn arrivals_that_nobody_recorded_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("perf.txt");
    let lines = [
        "a 5 [000] 1.000000: sched:sched_switch: a:5 [120] S ==> swapper/0:0 [120]",
        "b 6 [001] 1.000100: sched:sched_wakeup: a:5 [120] CPU:000",
        "a 5 [000] 1.000400: sched:sched_stat_runtime: comm=a pid=5 runtime=200000 [ns]",
        "a 5 [000] 1.000400: sched:sched_switch: a:5 [120] S ==> swapper/0:0 [120]",
    ];
    let said = |lines: &[&str]| {
        fs::write(&text, lines.join("\n") + "\n").unwrap();
        cox(&["-q"], &text).1
    };
    let told = said(&lines);
    assert!(told.contains("recording lacks 1 switches") && told.lines().count() == 1, "{told}");
    // Nobody knows when it came, and nothing is found.
    let told = said(&[lines[0], lines[1], lines[3]]);
    assert_eq!(told, "");
}

#[test]
fn a_recording_that_was_cut_is_read_up_to_there() {
    const TEST: &str = "a_recording_that_was_cut_is_read_up_to_there";
    let Some(bench) = perf_bench(TEST) else { return };
    // With small buffers, what is compressed comes in many pieces; the one that is cut is lost.
    for form in ["pipe", "", "-z -m 16"] {
        let Some(file) = record(TEST, &bench, form) else { continue };
        let whole = document(&file, &bench).0;
        let bytes = fs::read(&file).unwrap();
        // Most of a file is records; in a pipe formats come first, in a file last, with other things. Records are small: it is cut in one.
        let length = match form {
            "pipe" => bytes.len() * 9 / 10 + 3,
            _ => u64::from_le_bytes(bytes[48..56].try_into().unwrap()) as usize * 9 / 10 + 3,
        };
        fs::write(&file, &bytes[..length]).unwrap();
        let (document, err) = document(&file, &bench);
        assert!(err.contains("complete up to byte"), "{form}: {err}");
        assert_eq!(err.contains("layouts"), form != "pipe", "{form}: {err}");
        let (events, all) = (document.account.events, whole.account.events);
        // Half of such a file is names of what was there before, which are not compressed.
        let least = if form.starts_with("-z") { 100 } else { all / 2 };
        assert!(events > least && events < all, "{form}: {events} of {all}");
    }
}
