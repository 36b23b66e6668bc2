//! `cox noise` and `cox run --noise` against injected noise whose truth is known, and against the kernel's own counters.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use testkit::run::{COX, Ran, is_root, path, root_with_two_cpus, run, turn, workload};

fn cox(arguments: &[&str]) -> Ran {
    run(Command::new(COX).args(arguments).stdin(Stdio::null()))
}

/// Runs `cox noise` with these options. Returns its JSON.
fn noise(options: &[&str]) -> Value {
    let folder = TempDir::new().unwrap();
    let json = path(&folder, "noise.json");
    let ran = cox(&[&["noise", "--quiet", "--json", &json], options].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{options:?}");
    serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap()
}

/// Starts the injector, which writes its truth and its log into `folder`.
fn inject(folder: &TempDir, options: &[&str]) -> Child {
    let (truth, log) = (path(folder, "truth"), path(folder, "log"));
    let mut command = Command::new(workload("inject"));
    command.args(options).args(["--truth", &truth, "--log", &log]).stdout(Stdio::null());
    command.spawn().unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

/// The causes whose names begin so, by index.
fn causes(report: &Value, begin: &str) -> Vec<u64> {
    let named = list(&report["causes"]).iter().enumerate();
    named.filter(|(_, cause)| cause["name"].as_str().unwrap().starts_with(begin)).map(|(at, _)| at as u64).collect()
}

/// The sum of a figure over the causes of a CPU whose names begin so.
fn of_causes(report: &Value, cpu: &Value, begin: &str, figure: &str) -> u64 {
    let wanted = causes(report, begin);
    let rows = list(&cpu["by_cause"]).iter().filter(|row| wanted.contains(&number(&row["cause"])));
    rows.map(|row| number(&row[figure])).sum()
}

fn last_cpu() -> String {
    root_with_two_cpus("noise").and_then(|cpus| cpus.last()).unwrap_or(0).to_string()
}

#[test]
fn every_counter_of_the_kernel_agrees_with_the_events() {
    if !is_root("every_counter_of_the_kernel_agrees_with_the_events") {
        return;
    }
    let report = noise(&["--for", "3s"]);
    assert_eq!(number(&report["events"]["lost"]), 0);
    for cpu in list(&report["cpus"]) {
        let check = &cpu["check"];
        assert_eq!(list(&check["not_seen"]), &Vec::<Value>::new(), "{check}");
        let timer = list(&check["rows"]).iter().find(|row| row[0] == "LOC").unwrap();
        assert!(number(&timer[1]) > 100, "the comparison is not empty: {timer}");
    }
    let [kernel, seen] = ["switches", "page_faults"].map(|name| &report["events"][name]);
    assert!(number(&kernel[0]).abs_diff(number(&kernel[1])) <= 3 + number(&kernel[0]) / 200, "{kernel}");
    assert!(number(&seen[0]).abs_diff(number(&seen[1])) <= 3, "{seen}");
}

#[test]
fn a_source_without_a_tracepoint_makes_detours_unknown_and_not_outside() {
    if !is_root("a_source_without_a_tracepoint_makes_detours_unknown_and_not_outside") {
        return;
    }
    let all = [
        "local_timer_entry",
        "local_timer_exit",
        "hrtimer_expire_entry",
        "hrtimer_expire_exit",
        "softirq_entry",
        "softirq_exit",
    ];
    let options: Vec<&str> = all.iter().flat_map(|name| ["--without", name]).chain(["--for", "1s"]).collect();
    let report = noise(&options);
    let missing: Vec<&str> = list(&report["events"]["without"]).iter().map(|name| name.as_str().unwrap()).collect();
    assert!(all.iter().all(|name| missing.contains(name)), "{missing:?}");
    for cpu in list(&report["cpus"]) {
        let not_seen = list(&cpu["check"]["not_seen"]);
        assert!(not_seen.iter().any(|row| row.as_str().unwrap().ends_with("× LOC")), "{not_seen:?}");
        assert_eq!(number(&cpu["outside_ns"]), 0);
        assert!(number(&cpu["unknown_ns"]) > 0);
        assert_eq!(of_causes(&report, cpu, "timer tick", "count"), 0);
    }
}

/// Rate within 1 %, the right thread in 99 %, and a median between the time that the thread spins and the time that it has the CPU.
#[test]
fn an_injected_thread_is_found_with_its_rate_and_length() {
    if root_with_two_cpus("an_injected_thread_is_found_with_its_rate_and_length").is_none() {
        return;
    }
    let _turn = turn();
    let (folder, cpu) = (TempDir::new().unwrap(), last_cpu());
    let mut injector =
        inject(&folder, &["rt", "--cpu", &cpu, "--length-us", "50", "--period-us", "3000", "--seconds", "6"]);
    let report = noise(&["--cpus", &cpu, "--for", "3s"]);
    assert!(injector.wait().unwrap().success());
    let truth: Value = serde_json::from_str(&fs::read_to_string(path(&folder, "truth")).unwrap()).unwrap();
    let log = fs::read_to_string(path(&folder, "log")).unwrap();
    let cpu = &report["cpus"][0];
    let begin_ns = number(&report["measurement"]["begin_ns"]) + number(&cpu["begin_ns"]);
    let end_ns = begin_ns + number(&cpu["length_ns"]);
    let line = |line: &str| -> Option<(u64, u64)> {
        let mut numbers = line.split(',').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    let within = |(from, to): &(u64, u64)| *from > begin_ns + 1_000_000 && *to + 1_000_000 < end_ns;
    let injected: Vec<(u64, u64)> = log.lines().filter_map(line).filter(within).collect();
    assert!(injected.len() > 900, "{}", injected.len());

    let counted = of_causes(&report, cpu, "thread inject-rt(", "count");
    assert!(
        counted.abs_diff(injected.len() as u64) <= injected.len() as u64 / 100 + 2,
        "{counted} of {}",
        injected.len()
    );
    let rows = list(&cpu["by_cause"]);
    let wanted = causes(&report, "thread inject-rt(");
    let row = rows.iter().find(|row| wanted.contains(&number(&row["cause"]))).unwrap();
    // The thread has its CPU for longer than it spins: it also enters and leaves the kernel. The kernel's clock of the thread has both, and the work at
    // its start and end.
    let (median, spun) = (number(&row["median_ns"]), number(&truth["median_ns"]));
    let thread = &truth["threads"][0];
    let on_cpu = number(&thread["cpu_ns"]) / number(&thread["count"]);
    assert!(median + 500 >= spun, "{median} {spun}");
    assert!(median <= on_cpu + on_cpu / 10 + 1_000, "{median}, {on_cpu} by the kernel's clock of the thread");

    let detours: Vec<(u64, u64, u64)> = list(&cpu["detours"])
        .iter()
        .map(|detour| {
            let [from, length, cause] = [0, 1, 2].map(|at| number(&detour[at]));
            let from = number(&report["measurement"]["begin_ns"]) + from;
            (from, from + length, cause)
        })
        .collect();
    // A detour of more than a millisecond has other threads in it, which may have taken more.
    let is_found = |(from, to): &&(u64, u64)| {
        detours.iter().any(|(begin, end, cause)| {
            begin <= to && end >= from && (wanted.contains(cause) || end - begin > 1_000_000)
        })
    };
    let found = injected.iter().filter(is_found).count();
    assert!(found * 100 >= injected.len() * 99, "{found} of {}", injected.len());
}

/// Every interrupt that a sibling's system call sends is reported with the sender, its system call, and the place in the kernel.
#[test]
fn the_sender_of_an_interrupt_is_named() {
    if root_with_two_cpus("the_sender_of_an_interrupt_is_named").is_none() {
        return;
    }
    for (kind, begin, call) in [("munmap", "IPI: TLB flush", "munmap"), ("membarrier", "IPI: membarrier", "membarrier")]
    {
        let folder = TempDir::new().unwrap();
        let (json, program) = (path(&folder, "run.json"), workload("inject"));
        let victim = last_cpu();
        let options = ["--victim", &victim, "--cpu", "0", "--rate", "500", "--priority", "50", "--seconds", "2"];
        let command = [&["run", "--quiet", "--noise", "--json", &json, "--", &program, kind][..], &options].concat();
        let ran = cox(&command);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        let noise = &report["noise"];
        let count = |wanted: &dyn Fn(&str, &Value) -> bool| -> u64 {
            let cause = |row: &Value| noise["causes"][number(&row["cause"]) as usize].clone();
            let is_wanted = |row: &&Value| {
                let cause = cause(row);
                wanted(cause["name"].as_str().unwrap(), &cause["call_site"])
            };
            list(&noise["total"]).iter().filter(is_wanted).map(|row| number(&row["count"])).sum()
        };
        let all = count(&|name, _| name.starts_with(begin));
        let named = count(&|name, site| name.starts_with(&format!("{begin} by ")) && site.is_string());
        let by_sibling = count(&|name, _| name.starts_with(&format!("{begin} by inject-")) && name.ends_with(call));
        assert!(by_sibling > 300, "{kind}: {by_sibling} of {all}");
        assert!(named * 100 >= all * 99, "{kind}: {named} of {all}");
    }
}

/// A sample is an interrupt by a timer of cox's own, and would be a part of the noise.
#[test]
fn cox_takes_no_samples_of_a_program_whose_noise_it_measures() {
    if !is_root("cox_takes_no_samples_of_a_program_whose_noise_it_measures") {
        return;
    }
    // The sampler of another session is on every CPU.
    let _turn = turn();
    for backend in ["bpf", "perf"] {
        let folder = TempDir::new().unwrap();
        let json = path(&folder, "run.json");
        let program = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let options = ["run", "--noise", "--backend", backend, "--json", &json, "--", "sh", "-c", program];
        let ran = cox(&options);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        assert_eq!((report["backend"].as_str(), report["sees"]["unsampled"].as_str()), (Some(backend), Some("noise")));
        let names: Vec<&str> =
            list(&report["noise"]["causes"]).iter().map(|cause| cause["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"timer tick"), "{names:?}");
        assert!(!names.iter().any(|name| name.contains("perf_swevent_hrtimer")), "{names:?}");
        // Nothing looks as if it had been measured.
        let figures = report["figures"].as_object().unwrap();
        for absent in ["spin_ns", "work_ns", "samples", "kernel_ns", "serial_ns", "parallel_efficiency"] {
            assert!(!figures.contains_key(absent), "{backend}: {absent}");
        }
        let thread = &report["programs"][0]["processes"][0]["threads"][0];
        assert_eq!((thread["spin_basis"].as_str(), number(&thread["samples"])), (Some("none"), 0), "{thread}");
        assert_eq!(list(&report["hot_functions"]), &Vec::<Value>::new());
        let said = testkit::run::on_one_line(&ran.stderr);
        assert!(said.contains("because --noise takes no samples"), "{said}");
    }
}

/// A thread that moves between CPUs is charged only with what happened where it was, and never twice.
#[test]
fn a_moving_thread_is_not_charged_with_what_happens_elsewhere() {
    if root_with_two_cpus("a_moving_thread_is_not_charged_with_what_happens_elsewhere").is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    // One more computing thread than CPUs moves the threads about.
    let mut load = inject(
        &folder,
        &["sync", "--cpu", "0", "--rate", "200", "--victim", "1", "--seconds", "5", "--dir", &path(&folder, ".")],
    );
    let report = noise(&["--unpinned", "--for", "2s"]);
    assert!(load.wait().unwrap().success());
    for thread in list(&report["cpus"]) {
        let inside: u64 = list(&thread["by_cause"]).iter().map(|row| number(&row["inside_ns"])).sum();
        let stolen = number(&thread["fine"]["stolen_ns"]);
        // Some short interruptions are below the threshold of a detour.
        assert!(inside <= stolen + stolen / 50 + 1_000_000, "{inside} {stolen}");
        // A detour of a millisecond is not spent in entering and leaving the kernel.
        let charged: u64 = list(&thread["by_cause"]).iter().map(|row| number(&row["stolen_ns"])).sum();
        let outside = number(&thread["outside_ns"]) + number(&thread["unknown_ns"]);
        assert!(inside + outside >= charged - charged / 4, "{inside} {outside} {charged}");
    }
}

#[test]
fn one_cpu_is_enough() {
    let ran = run(Command::new("taskset").args(["-c", "0", COX, "noise", "--for", "1s"]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.text().contains("CPU 0: "), "{}", ran.text());
    assert!(!ran.text().contains("CPU 1"), "{}", ran.text());
}

#[test]
fn every_loop_measures() {
    for (options, part) in [
        (&["--loop", "fwq", "--work", "integer"][..], "quiet quantum"),
        (&["--loop", "fwq", "--work", "streaming"], "quiet quantum"),
        (&["--loop", "ftq"], "quanta"),
        (&["--loop", "bsp"], "S = "),
    ] {
        let ran = cox(&[&["noise", "--for", "500ms", "--warm-up", "200ms", "--no-causes"], options].concat());
        assert_eq!(ran.code, 0, "{options:?}: {}", ran.stderr);
        assert!(testkit::run::on_one_line(&ran.text()).contains(part), "{options:?}: {}", ran.text());
    }
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_line() {
    for (options, part) in [
        (&["--cpus", "4095"][..], "CPU 4095 is not online"),
        (&["--cpus", ""], "empty"),
        (&["--loop", "fwq", "--quantum", "0ms"], "quantum needs a length above 0"),
        (&["--loop", "fwq", "--quantum", "5s"], "longer than the measurement"),
        (&["--threshold", "0.1ns"], "below two ticks"),
        (&["--loop", "ftq", "--quantum", "600ms"], "two quanta"),
        (&["--loop", "fwq", "--quantum", "100ns"], "needs 1µs at least"),
        (&["--ring", "100000000"], "--ring 100000000: a list of more than"),
        (&["--loop", "ftq", "--hlog", "/dev/null"], "--hlog: --loop ftq finds no detours"),
        (&["--loop", "ftq", "--netgauge", "%c"], "--netgauge: --loop ftq finds no detours"),
        (&["--loop", "ftq", "--trace", "/dev/null"], "--trace: --loop ftq finds no detours"),
        (&["--loop", "ftq", "--paraver", "x"], "--paraver: --loop ftq finds no detours"),
        (&["--without", "no_such_tracepoint"], "no_such_tracepoint"),
    ] {
        let ran = cox(&[&["noise", "--for", "1s"], options].concat());
        assert!([2, 125].contains(&ran.code), "{options:?}: {}", ran.code);
        assert_eq!(ran.text(), "", "{options:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{options:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(part), "{options:?}: {}", ran.stderr);
    }
    let ran = run(Command::new("taskset").args(["-c", "0", COX, "noise", "--cpus", "0-1", "--for", "1s"]));
    let is_refused = ran.code == 2 && (ran.stderr.contains("may use") || ran.stderr.contains("not online"));
    assert!(is_refused, "{}", ran.stderr);
}

/// As of all commands: what was asked for on stdout is alone there.
#[test]
fn a_file_on_stdout_has_no_text_around_it() {
    let folder = TempDir::new().unwrap();
    let brief = ["noise", "--for", "300ms", "--warm-up", "100ms", "--no-causes"];
    let ran = cox(&[&brief[..], &["--json", "-"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(report["cpus"].is_array(), "{report}");
    let page = cox(&[&brief[..], &["--html", "-"]].concat()).text();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"), "{page:.200}");
    let file = path(&folder, "noise.json");
    fs::write(&file, &ran.stdout).unwrap();
    let ran = cox(&["noise", "forecast", &file, "--ranks", "2", "--work", "1ms", "--json", "-"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    serde_json::from_slice::<Value>(&ran.stdout).unwrap();
    // Files elsewhere leave the text on stdout.
    let ran = cox(&[&brief[..], &["--json", &path(&folder, "other.json")]].concat());
    assert!(ran.text().starts_with("cox: noise on CPU"), "{}", ran.text());
}

#[test]
fn the_schema_names_what_is_written() {
    let schema: Value = serde_json::from_slice(&cox(&["schema", "noise"]).stdout).unwrap();
    let report = noise(&["--for", "500ms", "--warm-up", "100ms", "--no-causes"]);
    for name in report.as_object().unwrap().keys() {
        assert!(schema["properties"][name].is_object(), "{name}");
    }
}

/// Measurements are compared as runs are.
#[test]
fn measurements_of_noise_are_compared() {
    let folder = TempDir::new().unwrap();
    let measure = |name: &str| {
        let file = path(&folder, name);
        let options = ["noise", "--for", "300ms", "--warm-up", "100ms", "--no-causes", "-q", "--json", &file];
        assert_eq!(cox(&options).code, 0);
        file
    };
    let files: Vec<String> = (0..4).map(|n| measure(&format!("{n}.json"))).collect();
    let (before, after) = (format!("before={},{}", files[0], files[1]), format!("after={},{}", files[2], files[3]));
    let ran = cox(&["compare", &before, &after]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.text());
    assert!(ran.text().contains("noise stolen"), "{}", ran.text());
    let report = path(&folder, "run.json");
    assert_eq!(cox(&["run", "-q", "--json", &report, "--", "true"]).code, 0);
    let ran = cox(&["compare", &before, &format!("after={report}")]);
    assert_eq!(ran.code, 125);
    assert!(ran.stderr.contains("cannot compare measurements of cox noise with reports of cox run"), "{}", ran.stderr);
}

/// A short list makes fewer causes known, and no figure smaller.
#[test]
fn a_full_list_is_no_quiet_machine() {
    let folder = TempDir::new().unwrap();
    let netgauge = path(&folder, "x");
    let brief = ["--for", "500ms", "--warm-up", "100ms", "--no-causes", "--ncpus", "1", "--ring", "3"];
    let report = noise(&[&brief[..], &["--netgauge", &netgauge]].concat());
    let cpu = &report["cpus"][0];
    let [length, listed] = ["length_ns", "listed_ns"].map(|name| number(&cpu[name]));
    assert_eq!((&cpu["truncated"], list(&cpu["detours"]).len()), (&Value::Bool(true), 3));
    let last = &list(&cpu["detours"])[2];
    assert_eq!(listed, number(&last[0]) + number(&last[1]) - number(&cpu["begin_ns"]));
    assert!(listed < length, "{listed} {length}");
    assert!(number(&cpu["coarse"]["count"]) > 3, "a tick takes longer than 10 µs here now and then: {}", cpu["coarse"]);
    assert!(number(&cpu["fine"]["longest_ns"]) >= number(&cpu["coarse"]["longest_ns"]));
    let by_length: u64 = list(&cpu["lengths"]).iter().map(|bucket| number(&bucket[1])).sum();
    assert_eq!(by_length, number(&cpu["fine"]["count"]), "also those that are not listed");
    let period = fs::read_to_string(netgauge).unwrap();
    assert!(!period.contains(&length.to_string()), "{period}");
}

/// Nothing is known about detours below the threshold, also not that there were none.
#[test]
fn the_coarse_threshold_is_not_below_the_other_one() {
    let options =
        ["noise", "--for", "300ms", "--warm-up", "100ms", "--no-causes", "--ncpus", "1", "--threshold", "20us"];
    let ran = cox(&options);
    let said = testkit::run::on_one_line(&ran.text());
    assert!(said.contains("threshold 20 µs") && said.contains("above 20 µs: "), "{said}");
    assert!(!said.contains("above 10 µs"), "{said}");
}

/// Fixed time quanta count work: there is no quiet quantum, and no detour that could have a cause.
#[test]
fn fixed_time_quanta_have_no_detours() {
    let report = noise(&["--loop", "ftq", "--for", "300ms", "--warm-up", "100ms", "--ncpus", "1"]);
    let cpu = &report["cpus"][0];
    for absent in ["quiet_ns", "caused_ns", "outside_ns", "unknown_ns"] {
        assert_eq!(cpu[absent], Value::Null, "{absent}");
    }
}

/// Of a quantum, only what it took too long is a detour, in every file.
#[test]
fn quanta_in_viewers_are_as_long_as_their_excess() {
    let folder = TempDir::new().unwrap();
    let prefix = path(&folder, "x");
    let options = ["--loop", "fwq", "--for", "1s", "--warm-up", "100ms", "--no-causes", "--ncpus", "1"];
    let report = noise(&[&options[..], &["--paraver", &prefix]].concat());
    let cpu = &report["cpus"][0];
    let quiet = number(&cpu["quiet_ns"]);
    let wanted: Vec<u64> = list(&cpu["detours"]).iter().map(|detour| number(&detour[1]) - quiet).collect();
    // A state: 1:cpu:application:task:thread:begin:end:state.
    let records = fs::read_to_string(format!("{prefix}.prv")).unwrap();
    let states = records.lines().filter(|line| line.starts_with("1:"));
    let lengths: Vec<u64> = states
        .map(|line| {
            let fields: Vec<u64> = line.split(':').map(|field| field.parse().unwrap()).collect();
            fields[6] - fields[5]
        })
        .collect();
    assert!(!wanted.is_empty() && wanted.iter().all(|excess| lengths.contains(excess)), "{wanted:?} {lengths:?}");
}

/// The text says what was measured, not what was planned.
#[test]
fn an_interrupted_measurement_says_its_length() {
    let mut command = Command::new(COX);
    command.args(["noise", "--for", "50s", "--warm-up", "100ms", "--no-causes", "--ncpus", "1"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let said = testkit::run::on_one_line(&said);
    assert!(said.contains(" s (ended early: 50.00 s were wanted) · threshold"), "{said}");
}
