//! Compares latency quantiles with the exact quantiles of a trace of the same run: they agree within the stated error.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use ledger::account::{Process, Thread};
use ledger::latency::{ERROR, Quantiles};
use ledger::summary::threads_of;
use ledger::{Latencies, Program};
use report::Document;
use testkit::measured::bench;
use testkit::recorded::{cox, perf_bench, record};
use testkit::run::on_one_line;
use testkit::traced::{COX, Intervals, intervals_by_paraver, succeeded, trace, workload};
use wire::latency::PLACES;

/// Returns the smallest of the lengths that at least `percent` % of them do not exceed (nearest rank).
fn exact(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

/// Compares intervals of one kind. A trace does not contain intervals of 0 ns, so the missing ones are added with that length.
fn faults_of(who: &str, told: Quantiles, lengths: &[u64]) -> Vec<String> {
    let count = told.count as usize;
    if count < lengths.len() {
        return vec![format!("{who}: {told:?}, but the trace has {}", lengths.len())];
    }
    let mut sorted = vec![0; count];
    sorted[..lengths.len()].copy_from_slice(lengths);
    sorted.sort_unstable();
    let quantiles =
        [(50, told.p50_ns, ERROR), (90, told.p90_ns, ERROR), (99, told.p99_ns, ERROR), (100, told.max_ns, 0.0)];
    let wrong = quantiles.into_iter().filter(|(percent, told, error)| {
        let exact = if count == 0 { 0 } else { exact(&sorted, *percent) };
        told.abs_diff(exact) as f64 > error * exact as f64
    });
    wrong
        .map(|(percent, ns, _)| {
            format!("{who}: {percent} %: {ns} ns of {told:?}, the trace has {}", exact(&sorted, percent))
        })
        .collect()
}

fn faults(who: &str, told: &Latencies, intervals: &Intervals) -> Vec<String> {
    let kinds = [told.wake_delay, told.preempt_wait, told.blocked, told.slice].map(|of| of.expect("eBPF sees all"));
    let of_kind =
        |(kind, told): (usize, Quantiles)| faults_of(&format!("{who}, kind {kind}"), told, &intervals.0[kind]);
    kinds.into_iter().enumerate().flat_map(of_kind).collect()
}

/// Checks that the histograms of a thread that has ended contain each of its switches and wake-ups once.
fn miscounted(thread: &Thread, told: &Latencies) -> Option<String> {
    let counts = [told.wake_delay, told.preempt_wait, told.blocked, told.slice].map(|of| of.map_or(0, |of| of.count));
    let switches = thread.switches_voluntary + thread.switches_involuntary;
    let expected = [thread.wakeups, thread.switches_involuntary, thread.switches_voluntary, switches + 1];
    (counts != expected).then(|| format!("{} {}: {counts:?}, the account has {expected:?}", thread.tid, thread.comm))
}

fn all_faults(program: &Program, by_thread: &BTreeMap<u32, Intervals>) -> Vec<String> {
    let mut faults_found = Vec::new();
    let mut all = Intervals::default();
    for process in &program.processes {
        let Process { pid, threads, latencies, .. } = process;
        let mut of_process = Intervals::default();
        for thread in threads {
            let told = thread.latencies.as_ref().expect("a thread's");
            let intervals = &by_thread[&thread.tid];
            faults_found.extend(faults(&format!("thread {}", thread.tid), told, intervals));
            faults_found.extend(miscounted(thread, told));
            of_process.extend(intervals);
        }
        faults_found.extend(faults(&format!("process {pid}"), latencies.as_ref().expect("a process'"), &of_process));
        all.extend(&of_process);
    }
    faults_found.extend(faults("program", program.latencies.as_ref().expect("a program's"), &all));
    faults_found
}

fn agree(test: &str, program: &[&str]) -> Option<Program> {
    let bench = bench(test)?;
    let traced = trace(&bench, &["--latency"], program);
    assert_eq!(traced.document.lost_events, 0);
    let program = traced.document.account.programs[0].clone();
    let wrong = all_faults(&program, &intervals_by_paraver(&traced.paraver));
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(traced.report.contains("p99"), "{}", traced.report);
    Some(program)
}

#[test]
fn of_threads_that_wake_each_other() {
    let program = agree("of_threads_that_wake_each_other", &[&workload("pingpong"), "--rounds", "20000"]);
    let count = |program: Program| program.latencies.and_then(|all| all.blocked).map(|blocked| blocked.count);
    assert!(program.is_none_or(|program| count(program) > Some(5_000)));
}

#[test]
fn of_threads_that_take_turns() {
    let mandelbrot = workload("mandelbrot");
    agree("of_threads_that_take_turns", &[&mandelbrot, "--threads", "3", "--steps", "2", "--no-verify"]);
}

#[test]
fn of_processes_that_come_and_go() {
    let script = "for n in 1 2 3; do sleep 0.01 & done; wait; sh -c 'sleep 0.01 | cat'";
    let program = agree("of_processes_that_come_and_go", &["sh", "-c", script]);
    assert!(program.is_none_or(|program| threads_of(&program).count() >= 6));
}

#[test]
fn of_programs_side_by_side() {
    let Some(bench) = bench("of_programs_side_by_side") else { return };
    let json = bench.folder().join("cox.json");
    let one = "sh -c 'for n in 1 2 3 4 5 6 7; do sleep 0.01; done'";
    for options in [&[][..], &["--latency"][..]] {
        let mut command = Command::new(COX);
        command.arg("run").args(options).args(["--co-run", one, "--json"]).arg(&json);
        succeeded(command.args(["--", "sh", "-c", "sleep 0.01 & wait"]));
        let document: Document = serde_json::from_slice(&fs::read(&json).expect("the JSON")).expect("a document");
        let counts = document.account.programs.iter().map(|program| {
            let told = program.latencies.expect("a program's");
            let counts = [told.wake_delay, told.preempt_wait, told.blocked, told.slice];
            let sum = |of: fn(&Thread) -> u64| threads_of(program).map(of).sum::<u64>();
            let (voluntary, others) =
                (sum(|thread| thread.switches_voluntary), sum(|thread| thread.switches_involuntary));
            let slices = voluntary + others + threads_of(program).count() as u64;
            let counts = counts.map(|of| of.map_or(0, |of| of.count));
            assert_eq!(counts, [sum(|thread| thread.wakeups), others, voluntary, slices], "{program:?}");
            counts
        });
        let counts: Vec<_> = counts.collect();
        assert!(counts.len() == 2 && counts[1][2] >= counts[0][2] + 5, "{counts:?}");
    }
}

#[test]
fn a_trace_without_quantiles_of_threads_says_so() {
    let Some(bench) = bench("a_trace_without_quantiles_of_threads_says_so") else { return };
    for (options, is_without) in [(&[][..], true), (&["--latency"][..], false)] {
        let traced = trace(&bench, options, &["sh", "-c", "sleep 0.01 & wait"]);
        let (report, said) = cox(&["--latency"], &traced.perfetto);
        assert_eq!(said.contains("no latency quantiles of threads"), is_without, "{said}");
        assert_eq!(report.contains("p99"), !is_without, "{report}");
    }
}

#[test]
fn threads_beyond_the_memory_count_for_their_program_and_are_named() {
    let Some(bench) = bench("threads_beyond_the_memory_count_for_their_program_and_are_named") else { return };
    let script = format!("i=0; while [ $i -lt {} ]; do (:); i=$((i+1)); done", PLACES + 20);
    let json = bench.folder().join("cox.json");
    let mut command = Command::new(COX);
    let output = succeeded(command.args(["run", "--latency", "--json"]).arg(&json).args(["--", "sh", "-c", &script]));
    let document: Document = serde_json::from_slice(&fs::read(json).expect("the JSON")).expect("a document");
    let program = &document.account.programs[0];
    let without = threads_of(program).filter(|thread| thread.latencies.is_none()).count();
    assert_eq!((threads_of(program).count(), without), (PLACES as usize + 21, 21));
    let slices = program.latencies.and_then(|all| all.slice).map(|slice| slice.count);
    let stints = threads_of(program).map(|thread| thread.switches_voluntary + thread.switches_involuntary + 1);
    assert_eq!(slices, Some(stints.sum()));
    let report = String::from_utf8_lossy(&output.stderr);
    let report = on_one_line(&report);
    assert!(report.contains("No quantiles of 21 threads (sh): the memory for histograms is full."), "{report}");
}

#[test]
fn of_a_recording_of_perf() {
    let test = "of_a_recording_of_perf";
    let Some(bench) = perf_bench(test) else { return };
    let Some(file) = record(test, &bench, "") else { return };
    let (json, paraver) = (bench.folder().join("cox.json"), bench.folder().join("cox"));
    let names = [&json, &paraver].map(|path| path.to_str().expect("a name"));
    cox(&["-q", "--latency", "--json", names[0], "--paraver", names[1]], &file);
    let document: Document = serde_json::from_slice(&fs::read(json).expect("the JSON")).expect("a document");
    let by_thread = intervals_by_paraver(&paraver);
    // The trace also shows the intervals of living threads that are still open at its end.
    let threads = threads_of(&document.account.programs[0]).filter(|thread| !thread.alive && thread.impossible == 0);
    let told = threads.filter_map(|thread| Some((thread, thread.latencies.as_deref()?)));
    let told: Vec<(&Thread, &Latencies)> = told.collect();
    assert!(told.len() >= 12, "{} threads", told.len());
    let none = Intervals::default();
    let of_thread = |tid| by_thread.get(&tid).unwrap_or(&none);
    let wrong =
        told.iter().flat_map(|(thread, told)| faults(&format!("thread {}", thread.tid), told, of_thread(thread.tid)));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn by_perf_wake_delays_are_in_blocks_and_by_proc_nothing_is_seen() {
    let test = "by_perf_wake_delays_are_in_blocks_and_by_proc_nothing_is_seen";
    let Some(bench) = bench(test) else { return };
    let run = |backend: &str| {
        let json = bench.folder().join(backend);
        let mut command = Command::new(COX);
        command.args(["run", "--latency", "--backend", backend, "--json"]).arg(&json);
        let output = succeeded(command.args(["--", &workload("pingpong"), "--rounds", "2000"]));
        let document: Document = serde_json::from_slice(&fs::read(json).expect("the JSON")).expect("a document");
        (document.account, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (account, report) = run("perf");
    let all = account.programs[0].latencies.expect("perf sees intervals");
    let (threads, count) = (threads_of(&account.programs[0]), |of: Option<Quantiles>| of.map_or(0, |of| of.count));
    let sum = |of: fn(&Thread) -> u64| threads_of(&account.programs[0]).map(of).sum::<u64>();
    assert_eq!((all.wake_delay, count(all.blocked)), (None, sum(|thread| thread.switches_voluntary)));
    assert_eq!(count(all.preempt_wait), sum(|thread| thread.switches_involuntary));
    let own: u64 = threads.filter_map(|thread| thread.latencies.as_deref()).map(|own| count(own.slice)).sum();
    assert!(count(all.slice) >= 2_000 && own == count(all.slice), "{own} of {all:?}");
    assert!(report.contains("Wake delay counts as blocked time"), "{report}");
    let (account, report) = run("proc");
    assert!(account.programs[0].latencies.is_none() && !account.sees().latencies);
    assert!(report.contains("the proc backend does not see individual waits"), "{report}");
}
