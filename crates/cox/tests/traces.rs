//! Traces contain the same as accounts: read by Perfetto's own classes, by an independent reader of Paraver's files, and by `cox report`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use report::Document;
use testkit::measured::bench;
use testkit::skip::{Need, skip};
use testkit::traced::{COX, agree, by_paraver, by_perfetto, report_in, succeeded, trace, workload};

#[test]
fn threads_that_take_turns_on_cpus() {
    let test = "threads_that_take_turns_on_cpus";
    let Some(bench) = bench(test) else { return };
    let traced = trace(&bench, &[], &[&workload("mandelbrot"), "--threads", "3", "--steps", "3", "--no-verify"]);
    assert!(traced.threads().any(|thread| thread.preempt_wait_ns > 1_000_000), "nobody was preempted");
    agree(test, &traced);
}

#[test]
fn threads_that_are_blocked_by_one_another_and_by_the_disk() {
    let test = "threads_that_are_blocked_by_one_another_and_by_the_disk";
    let Some(bench) = bench(test) else { return };
    let heat = workload("heat");
    let program =
        [heat.as_str(), "--size", "256", "--block", "64", "--steps", "40", "--every", "4", "--direct", "--folder", "."];
    let traced = trace(&bench, &[], &program);
    assert!(traced.threads().any(|thread| thread.blocked_by[wire::Cause::Disk] > 0), "no disk");
    agree(test, &traced);
}

#[test]
fn processes_that_come_and_go_and_exec() {
    let test = "processes_that_come_and_go_and_exec";
    let Some(bench) = bench(test) else { return };
    let traced =
        trace(&bench, &[], &["sh", "-c", "for n in 1 2 3; do sleep 0.01 & done; wait; sh -c 'sleep 0.01 | cat'"]);
    assert!(traced.document.account.programs[0].processes.len() >= 6);
    agree(test, &traced);
}

#[test]
fn a_program_that_another_thread_than_the_first_begins() {
    let test = "a_program_that_another_thread_than_the_first_begins";
    let Some(bench) = bench(test) else { return };
    // The first thread sleeps; the second turns the process into something else, under the first one's id.
    let program = "import os, threading, time\n\
        threading.Thread(target=lambda: (time.sleep(0.05), os.execvp('sleep', ['sleep', '0.05']))).start()\n\
        time.sleep(10)";
    let traced = trace(&bench, &[], &["sh", "-c", "python3 -c \"$0\"; sleep 0.01", program]);
    let process = traced.document.account.programs[0].processes.iter().find(|process| process.threads.len() > 1);
    let process = process.expect("one of two threads");
    assert_eq!(process.comm, "sleep");
    agree(test, &traced);
    // Of an id with two lives the sums are compared, by the reader that tells lives apart.
    let run: u64 = process.threads.iter().map(|thread| thread.run_ns + thread.blocked_ns).sum();
    let ids: Vec<u32> = process.threads.iter().map(|thread| thread.tid).collect();
    let mut ids = ids.clone();
    ids.dedup();
    let told: u64 = by_paraver(&traced.paraver)
        .iter()
        .filter(|(tid, _)| ids.contains(tid))
        .map(|(_, sums)| sums.states[0] + sums.states[3])
        .sum();
    assert!(told.abs_diff(run) * 1000 <= run, "{told} {run}");
}

#[test]
fn a_switch_is_never_missed_where_they_are_many() {
    let test = "a_switch_is_never_missed_where_they_are_many";
    let Some(bench) = bench(test) else { return };
    let traced = trace(&bench, &[], &[&workload("pingpong"), "--rounds", "50000"]);
    let switches: u64 = traced.threads().map(|thread| thread.switches_voluntary + thread.switches_involuntary).sum();
    assert!(switches > 75_000, "{switches} switches");
    agree(test, &traced);
}

#[test]
fn spinning_is_seen_in_both_traces_as_sampled() {
    let test = "spinning_is_seen_in_both_traces_as_sampled";
    let Some(bench) = bench(test) else { return };
    let barriers = workload("barriers");
    let line = [barriers.as_str(), "--threads", "3", "--work-us", "4000", "--wait", "spin", "--rounds", "150"];
    let traced = trace(&bench, &[], &line);
    agree(test, &traced);
    let account: BTreeMap<u32, (u64, u64)> =
        traced.threads().filter(|thread| thread.samples > 50).map(|t| (t.tid, (t.samples, t.spin_ns))).collect();
    assert!(account.len() == 3 && account.values().any(|(_, spin_ns)| *spin_ns > 0), "{account:?}");
    // Paraver: every sample, and as large a part of them spun as of the thread's time on CPUs.
    let prv = fs::read_to_string(traced.paraver.with_extension("prv")).expect("read");
    let values: Vec<u32> =
        prv.lines().filter_map(|line| line.rsplit_once(":91000003:")?.1.parse::<u32>().ok()).collect();
    let samples: u64 = traced.threads().map(|thread| thread.samples).sum();
    assert_eq!(values.len() as u64, samples);
    // Value 7 is a futex system call.
    let spun = values.iter().filter(|value| (2..7).contains(*value)).count() as f64 / values.len() as f64;
    let expected = traced.threads().map(|thread| thread.spin_ns).sum::<u64>() as f64
        / traced.threads().map(|thread| thread.run_ns).sum::<u64>() as f64;
    assert!((spun - expected).abs() < 0.02, "{spun} of samples spun, {expected} of the time");
    // Perfetto: slices within those of running, which the reader checks.
    if let Some((_, told)) = by_perfetto(test, &traced.perfetto) {
        let slices = told["slices"].as_object().expect("slices");
        let seen = |tid: &u32| {
            let names = slices[&tid.to_string()].as_object().expect("names");
            names.iter().any(|(name, ns)| name.starts_with("spinning (sampled): ") && ns.as_u64() > Some(0))
        };
        assert!(
            account.iter().filter(|(_, (_, spin_ns))| *spin_ns > 100_000_000).all(|(tid, _)| seen(tid)),
            "{slices:?}"
        );
    }
}

#[test]
fn a_report_from_the_file_is_the_report_of_the_run() {
    let test = "a_report_from_the_file_is_the_report_of_the_run";
    let Some(bench) = bench(test) else { return };
    let traced = trace(&bench, &[], &[&workload("imbalance"), "--threads", "2", "--rounds", "20"]);
    let at = |name: &str| bench.folder().join(name);
    let mut command = Command::new(COX);
    command.arg("report").arg(&traced.perfetto).args(["--output", "-", "--json"]).arg(at("again.json"));
    command.arg("--trace").arg(at("again.pftrace")).arg("--paraver").arg(at("again"));
    let output = succeeded(&mut command);
    let again: Document = serde_json::from_slice(&fs::read(at("again.json")).expect("read")).expect("a document");
    assert_eq!(again, traced.document);
    // A terminal's width and alphabet are the reader's own: figures are compared, not lines.
    let figures = |text: &str| -> Vec<String> {
        let parts = text.split(|c: char| !c.is_ascii_digit() && c != '.');
        parts.filter(|part| part.chars().any(|c| c.is_ascii_digit())).map(str::to_owned).collect()
    };
    assert_eq!(figures(&report_in(&output.stdout)), figures(&traced.report));
    for ending in ["prv", "pcf", "row"].into_iter().chain(trace::paraver::VIEWS) {
        let read = |path: PathBuf| fs::read_to_string(path).expect("read");
        assert_eq!(read(at("again").with_extension(ending)), read(traced.paraver.with_extension(ending)), "{ending}");
    }
    let same = fs::read(at("again.pftrace")).expect("read") == fs::read(&traced.perfetto).expect("read");
    assert!(same, "the traces differ");
}

#[test]
fn what_finds_no_room_is_counted_marked_and_said_first() {
    let test = "what_finds_no_room_is_counted_marked_and_said_first";
    let Some(bench) = bench(test) else { return };
    // Whoever reads is stopped for half of the time. Behind a shell, since the program is stopped with its group by nobody.
    let stopped = format!(
        "{} --seconds 1 & sleep 0.2; kill -STOP $PPID; sleep 0.4; kill -CONT $PPID; wait",
        workload("pingpong")
    );
    let traced = trace(&bench, &["--trace-buffer", "4k"], &["sh", "-c", &stopped]);
    let lost = traced.document.account.lost.trace_events;
    assert!(lost > 10_000, "{lost} lost");
    let again = succeeded(Command::new(COX).arg("report").arg(&traced.perfetto)).stdout;
    for report in [traced.report.as_str(), &String::from_utf8_lossy(&again)] {
        assert!(report.contains("The trace has gaps"), "{report}");
    }
    assert!(traced.document.verdict[0].sentences[0].text.contains("gaps"), "{:?}", traced.document.verdict);
    // The account is kept elsewhere, and whole.
    assert_eq!(traced.document.checks.worst_gap, 0.0);
    assert!(traced.threads().all(|thread| thread.unknown_ns * 100 < thread.wall_ns));
    let prv = fs::read_to_string(traced.paraver.with_extension("prv")).expect("read");
    let marked: u64 = prv.lines().filter_map(|line| line.rsplit_once(":91000002:")?.1.parse::<u64>().ok()).sum();
    assert_eq!(marked, lost);
    if let Some((_, told)) = by_perfetto(test, &traced.perfetto) {
        assert!(told["bundles with losses"].as_u64() > Some(0));
    }
}

#[test]
fn what_cannot_be_traced_is_refused_before_anything_starts() {
    let Some(bench) = bench("what_cannot_be_traced_is_refused_before_anything_starts") else { return };
    let at = |name: &str| bench.folder().join(name).display().to_string();
    let refused = |arguments: &[&str], why: &str| {
        let touched = at("touched");
        let output = Command::new(COX).args(arguments).args(["--", "touch", &touched]).output().expect("start cox");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert!(!Path::new(&touched).exists(), "{arguments:?}: the program has run");
    };
    refused(&["run", "--backend", "perf", "--trace", &at("t")], "need eBPF");
    refused(&["run", "--backend", "proc", "--paraver", &at("t")], "need eBPF");
    refused(&["run", "--trace", "/nowhere/at/all"], "cannot write");
    refused(&["run", "--paraver", "/nowhere/at/all"], "cannot write");
    refused(&["run", "--trace", &at("t"), "--trace-buffer", "1"], "from 4k to 1G");
}

#[test]
fn files_that_are_no_traces_are_refused_by_one_line() {
    let Some(bench) = bench("files_that_are_no_traces_are_refused_by_one_line") else { return };
    let traced = trace(&bench, &[], &["true"]);
    let whole = fs::read(&traced.perfetto).expect("read");
    let refused = |bytes: &[u8], why: &str| {
        let path = bench.folder().join("bad.pftrace");
        fs::write(&path, bytes).expect("write");
        let output = Command::new(COX).arg("report").arg(&path).output().expect("start cox");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{why}: {said}");
        assert!(output.stdout.is_empty());
    };
    refused(b"", "not a cox trace");
    refused(b"#!/bin/sh\necho\n", "not a cox trace");
    refused(b"\n\n", "not a Perfetto trace");
    refused(&whole[..whole.len() - 1], "cut off");
    refused(&whole[..whole.len() / 2], "");
    // A trace without a recording: a packet with nothing in it.
    refused(&[0x0a, 0], "no recording of cox");
}

#[test]
fn a_full_disk_costs_the_trace_and_not_the_account() {
    let test = "a_full_disk_costs_the_trace_and_not_the_account";
    let Some(bench) = bench(test) else { return };
    let small = bench.folder().join("small");
    fs::create_dir(&small).expect("create a folder");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&small).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skip(test, Need::Namespaces, "no file system can be mounted here");
    }
    let json = bench.folder().join("cox.json");
    // More than fits in memory, which goes to that disk while the program runs; and less, of which only the files are too large.
    let cannot_keep = format!("cannot keep the trace in '{}': No space left", small.display());
    let cannot_write = format!("cannot write '{}': No space left", small.join("t").display());
    let ran = [("500000", cannot_keep), ("20000", cannot_write)].map(|(rounds, why)| {
        let mut command = Command::new(COX);
        command.args(["run", "--json"]).arg(&json).arg("--trace").arg(small.join("t")).arg("--paraver");
        command.arg(small.join("p")).arg("--").args([&workload("pingpong"), "--rounds", rounds]);
        let output = command.output().expect("start cox");
        let left: Vec<_> = fs::read_dir(&small).expect("list").map(|entry| entry.expect("it").file_name()).collect();
        (output, left, fs::read(&json).expect("the account"), why)
    });
    assert!(Command::new("umount").arg(&small).status().expect("start umount").success());
    for (output, left, json, why) in ran {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let diagnostics: Vec<_> = said.lines().filter(|line| line.starts_with("cox: cannot")).collect();
        assert!(diagnostics.len() == 1 && diagnostics[0].contains(&why), "{why}: {said}");
        assert!(left.is_empty(), "{why}: {left:?}");
        let document: Document = serde_json::from_slice(&json).expect("a document");
        assert_eq!(document.account.programs[0].processes.len(), 2);
        assert!(report_in(&output.stderr).contains("did work"), "{said}");
    }
}

#[test]
fn a_killed_cox_leaves_nothing() {
    let Some(bench) = bench("a_killed_cox_leaves_nothing") else { return };
    // One that is new and one that replaces another: neither is touched before there is a whole one.
    let (trace, older) = (bench.folder().join("t.pftrace"), bench.folder().join("older.json"));
    fs::write(&older, "older").expect("write");
    let program = format!("{} --seconds 1 & sleep 0.5; kill -KILL $PPID; wait", workload("pingpong"));
    let mut command = Command::new(COX);
    command.args(["run", "-q", "--trace"]).arg(&trace).arg("--json").arg(&older).args(["--", "sh", "-c", &program]);
    let status = command.status().expect("start cox");
    assert_eq!(status.code(), None, "killed");
    let names: Vec<_> =
        fs::read_dir(bench.folder()).expect("list").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["older.json"]);
    assert_eq!(fs::read(&older).expect("it"), b"older");
}
