//! `cox noise forecast` on recordings made for it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::run::{COX, Ran, path, preload_library, run, workload};

fn forecast(arguments: &[&str]) -> Ran {
    run(Command::new(COX).args(["noise", "forecast"]).args(arguments).stdin(Stdio::null()))
}

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// A recording of `cox noise` of ten seconds in which each CPU has these detours: begin, length, cause.
fn recording(folder: &TempDir, name: &str, online: u32, cpus: &[Vec<(u64, u64, u32)>]) -> String {
    let length = 10 * SECOND;
    let above = |detours: &[(u64, u64, u32)]| {
        let stolen: u64 = detours.iter().map(|detour| detour.1).sum();
        json!({"count": detours.len(), "stolen_ns": stolen, "longest_ns": detours.iter().map(|d| d.1).max().unwrap_or(0)})
    };
    let cpu = |(number, detours): (usize, &Vec<(u64, u64, u32)>)| {
        json!({
            "cpu": number, "tid": 100 + number, "begin_ns": 0, "length_ns": length, "readings": 1, "quiet_ns": null,
            "step_ns": null, "fine": above(detours), "coarse": above(detours), "truncated": false, "caused_ns": null,
            "outside_ns": null, "unknown_ns": null, "by_cause": [],
            "check": {"rows": [], "agreeing": 0, "not_seen": []}, "steal_ns": 0, "detours": detours,
        })
    };
    let cause = |name: &str| json!({"name": name, "class": "thread", "knob": null, "call_site": null});
    let report = json!({
        "schema_version": 1, "cox_version": "0", "provenance": provenance(folder),
        "measurement": {"measuring": "detour", "work": null, "quantum_ns": null, "pinned": true, "length_ns": length,
            "threshold_ns": 100, "coarse_threshold_ns": 10000, "smallest_gap_ns": 20, "begin_ns": 5, "online_cpus": online},
        "clock": {"source": "tsc", "ticks_per_us": 2000.0, "error_ppm": 0.1},
        "events": {"blind": null, "count": 0, "lost": 0, "without": [], "switches": null, "page_faults": null},
        "causes": [cause("often"), cause("seldom")],
        "cpus": cpus.iter().enumerate().map(cpu).collect::<Vec<_>>(),
    });
    let file = path(folder, name);
    fs::write(&file, report.to_string()).unwrap();
    file
}

/// Where and when, as cox writes it now.
fn provenance(folder: &TempDir) -> Value {
    let file = path(folder, "now.json");
    let options = ["noise", "--for", "100ms", "--warm-up", "100ms", "--no-causes", "-q", "--json", &file];
    assert_eq!(run(Command::new(COX).args(options)).code, 0);
    let report: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    report["provenance"].clone()
}

/// 500 µs every 10 ms, from `offset_ns` on.
fn periodic(offset_ns: u64, cause: u32) -> Vec<(u64, u64, u32)> {
    (0..1000).map(|n| (offset_ns + n * 10 * MS, MS / 2, cause)).collect()
}

fn read(file: impl AsRef<Path>) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// The theory: at a work of 1 ms, noise in step adds 0.053, and half a period apart 0.111.
#[test]
fn noise_in_step_costs_less_than_noise_out_of_step() {
    let folder = TempDir::new().unwrap();
    let slowdown = |name: &str, offset_ns: u64| {
        let file = recording(&folder, name, 2, &[periodic(MS, 0), periodic(MS + offset_ns, 0)]);
        let out = path(&folder, "out.json");
        let ran = forecast(&[&file, "--ranks", "2", "--work", "1ms", "-q", "--json", &out]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        read(&out)["works"][0]["scales"][0]["slowdown"].as_f64().unwrap()
    };
    let (in_step, apart) = (slowdown("a.json", 0), slowdown("b.json", 5 * MS));
    assert!((in_step - 1.053).abs() < 0.003, "{in_step}");
    assert!((apart - 1.111).abs() < 0.003, "{apart}");
}

/// What comes behind the last listed detour of a CPU is not known, and not silence.
#[test]
fn a_recording_ends_where_the_first_list_is_full() {
    let folder = TempDir::new().unwrap();
    let file = recording(&folder, "a.json", 2, &[periodic(0, 0), periodic(0, 0)]);
    let mut report = read(&file);
    let cpu = &mut report["cpus"][1];
    cpu["truncated"] = Value::Bool(true);
    cpu["detours"].as_array_mut().unwrap().truncate(200);
    cpu["listed_ns"] = json!(1_990 * MS + MS / 2);
    fs::write(&file, report.to_string()).unwrap();
    let out = path(&folder, "out.json");
    let ran = forecast(&[&file, "--ranks", "2", "--work", "1ms", "-q", "--json", &out]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let forecast = read(&out);
    assert_eq!(forecast["sources"][0]["length_ns"], json!(1_990 * MS + MS / 2));
    let slowdown = forecast["works"][0]["scales"][0]["slowdown"].as_f64().unwrap();
    assert!((slowdown - 1.053).abs() < 0.01, "{slowdown}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_causes_are_ranked() {
    let folder = TempDir::new().unwrap();
    let mut detours = periodic(0, 0);
    detours.insert(501, (5 * SECOND + 2 * MS, 3 * MS, 1));
    let file = recording(&folder, "a.json", 1, &[detours]);
    let ask = |seed: &str| {
        let out = path(&folder, "out.json");
        let ran = forecast(&[&file, "--ranks", "1,64,100000", "--seed", seed, "--json", &out]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        (ran.text(), fs::read_to_string(&out).unwrap())
    };
    let (text, bytes) = ask("7");
    assert_eq!((text.clone(), bytes.clone()), ask("7"));
    let report: Value = serde_json::from_str(&bytes).unwrap();
    let schema: Value =
        serde_json::from_slice(&run(Command::new(COX).args(["schema", "noise-forecast"])).stdout).unwrap();
    for name in report.as_object().unwrap().keys() {
        assert!(schema["properties"][name].is_object(), "{name}");
    }
    let seldom: Vec<(&str, bool)> = report["without"]
        .as_array()
        .unwrap()
        .iter()
        .map(|without| (without["cause"].as_str().unwrap(), without["seldom"].as_bool().unwrap()))
        .collect();
    assert!(seldom.contains(&("often", false)) && seldom.contains(&("seldom", true)), "{seldom:?}");
    assert!(text.contains("too seldom to know") && text.contains("at least"), "{text}");
    for work in report["works"].as_array().unwrap() {
        for scale in work["scales"].as_array().unwrap() {
            let at_least = scale["at_least"].as_f64().unwrap();
            assert!(at_least >= 1.0, "{scale}");
            if let Some(slowdown) = scale["slowdown"].as_f64() {
                let (low, high) = (scale["interval"][0].as_f64().unwrap(), scale["interval"][1].as_f64().unwrap());
                assert!(low <= slowdown && slowdown <= high, "{scale}");
            }
        }
    }
}

/// On two of three CPUs, a noisy CPU that is left to the system pays.
#[test]
fn leaving_the_noisy_cpu_to_the_system_pays() {
    let folder = TempDir::new().unwrap();
    let noisy: Vec<(u64, u64, u32)> = (0..1000).map(|n| (n * 10 * MS, 8 * MS, 0)).collect();
    let quiet = || periodic(MS, 0).into_iter().map(|(start, length, cause)| (start, length / 100, cause)).collect();
    let all = recording(&folder, "all.json", 3, &[noisy, quiet(), quiet()]);
    let two = recording(&folder, "two.json", 3, &[quiet(), quiet()]);
    let out = path(&folder, "out.json");
    let ran = forecast(&[&all, &two, "--ranks", "3000", "--work", "1ms", "--json", &out]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let leave = &read(&out)["leave"][0];
    assert_eq!(leave["best"], 1, "{leave}");
    assert!(ran.text().contains("best: leave 1 CPU"), "{}", ran.text());
}

/// The table of causes is about the largest number of ranks, wherever it is in the list; threads of a name are one cause.
#[test]
fn ranks_are_in_order_and_threads_of_a_name_are_one_cause() {
    let folder = TempDir::new().unwrap();
    let file = recording(&folder, "a.json", 1, &[periodic(0, 0)]);
    let mut noise = read(&file);
    let names = ["thread cc1(71)", "thread cc1(72)"];
    noise["causes"] =
        names.map(|name| json!({"name": name, "class": "thread", "knob": null, "call_site": null})).into();
    for (at, detour) in noise["cpus"][0]["detours"].as_array_mut().unwrap().iter_mut().enumerate() {
        detour[2] = json!(at % 2);
    }
    fs::write(&file, noise.to_string()).unwrap();
    let out = path(&folder, "out.json");
    let ran = forecast(&[&file, "--ranks", "100000,2,100000", "--work", "1ms", "--json", &out]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let report = read(&out);
    let ranks: Vec<&Value> = report["works"][0]["scales"].as_array().unwrap().iter().map(|of| &of["ranks"]).collect();
    assert_eq!(ranks, [2, 100_000]);
    assert!(ran.text().contains("without, at work 1.0 ms and 100,000 ranks"), "{}", ran.text());
    let without = report["without"].as_array().unwrap();
    assert_eq!((without.len(), &without[0]["cause"]), (1, &json!("thread cc1 (2 threads)")), "{without:?}");
    assert_eq!((&without[0]["times"], &report["causes_left_out"]), (&json!(1000), &json!(0)));
}

/// `cox run --noise` on a program; returns the file of its report.
fn noise_of(folder: &TempDir, library: &Path, program: &[&str]) -> String {
    let file = path(folder, "run.json");
    let mut command = Command::new(COX);
    command.args(["run", "--noise", "-q", "--json", &file, "--"]).args(program);
    let ran = run(command.env("COX_PRELOAD", library).stdin(Stdio::null()));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    file
}

/// The programs know their work; other programs on the CPUs make some phases longer, but not all.
#[test]
fn the_works_are_the_phases_of_a_program() {
    let Some(library) = preload_library("the_works_are_the_phases_of_a_program") else { return };
    let folder = TempDir::new().unwrap();
    let noise = recording(&folder, "a.json", 1, &[periodic(MS, 0)]);
    let (loops, ranks) = (workload("imbalance"), workload("bsp-mpi"));
    let openmp = [&loops, "--threads", "2", "--factor", "1", "--work-us", "2000", "--seconds", "1"];
    let mut cases = vec![("OpenMP", openmp.to_vec())];
    if Path::new(&ranks).exists() {
        cases.push(("MPI", vec![&ranks, "--work-us", "2000", "--steps", "300"]));
    }
    for (between, program) in cases {
        let report = noise_of(&folder, &library, &program);
        let phases = &read(&report)["noise"]["phases"];
        assert_eq!((&phases["unknown"], &phases["between"]), (&Value::Null, &json!([between])), "{phases}");
        let count = phases["count"].as_u64().unwrap();
        assert!((20..5000).contains(&count), "{phases}");
        let out = path(&folder, "out.json");
        let ran = forecast(&[&noise, "--ranks", "100", "--phases-of", &report, "--json", &out]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        assert!(ran.text().contains("work as in") && ran.text().contains(between), "{}", ran.text());
        let answer = read(&out);
        assert_eq!(answer["phases_of"]["count"], count);
        let works: Vec<u64> =
            answer["works"].as_array().unwrap().iter().map(|at| at["work_ns"].as_u64().unwrap()).collect();
        assert!(works.is_sorted() && works.len() <= 3, "{works:?}");
        assert!(works[0] > MS && works[0] < 5 * MS / 2, "{works:?}: {phases}");
    }
    // Ranks that meet at barriers of their own.
    let report =
        noise_of(&folder, &library, &[&workload("bsp"), "--threads", "2", "--work-us", "100", "--steps", "10"]);
    let ran = forecast(&[&noise, "--ranks", "4", "--phases-of", &report]);
    assert_eq!((ran.code, ran.stderr.lines().count()), (125, 1), "{}", ran.stderr);
    assert!(ran.stderr.contains("has no phases: no two barriers"), "{}", ran.stderr);
}

#[test]
fn a_noise_trace_of_netgauge_is_a_recording() {
    let folder = TempDir::new().unwrap();
    let trace = path(&folder, "trace.txt");
    let rows: String = (0..1000_u64).map(|n| format!("{}\t{}\n", n * 10 * MS, MS / 2)).collect();
    fs::write(&trace, format!("# Benchmark Method: selfish\n{rows}")).unwrap();
    let ran = forecast(&[&trace, "--ranks", "1", "--work", "1ms"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(ran.text().contains("1.05"), "{}", ran.text());
}

#[test]
fn what_cannot_be_answered_is_refused_in_one_line() {
    let folder = TempDir::new().unwrap();
    let good = recording(&folder, "good.json", 1, &[periodic(0, 0)]);
    let file = |name: &str, text: &str| {
        let file = path(&folder, name);
        fs::write(&file, text).unwrap();
        file
    };
    let backwards = file("backwards.txt", "0\t100\n1000\t100\n500\t100\n");
    let words = file("words.txt", "0\t100\nabc\t100\n");
    let other = file("other.json", "{\"schema_version\": 1}");
    for (options, code, part) in [
        (&[good.as_str(), "--ranks", "0"][..], 2, "0 is not in"),
        (&[&good, "--ranks", "4", "--work", "0ms"], 125, "at least 1 ns"),
        (&[&good, "--ranks", "4", "--work", "20s"], 125, "longer than the recording"),
        (&[&good, "--ranks", "4", "--ranks-per-node", "2"], 125, "the recording has 1 CPU;"),
        (&[&backwards, "--ranks", "4"], 125, "line 3"),
        (&[&words, "--ranks", "4"], 125, "line 2"),
        (&[&other, "--ranks", "4"], 125, "not a recording"),
        (&["/no/such/file", "--ranks", "4"], 125, "cannot read"),
        (&[&good, &good, "--ranks", "4", "--work", "1ms"], 2, "two recordings have 0 CPUs left"),
        (&[&good], 2, "--ranks"),
        (&[&good, "--ranks", "4", "--phases-of", "/no/such/file"], 125, "cannot read"),
        (&[&good, "--ranks", "4", "--phases-of", &other], 125, "has no phases"),
        (&[&good, "--ranks", "4", "--phases-of", &words], 125, "not a report of cox run --noise"),
        (&[&good, "--ranks", "4", "--phases-of", &other, "--work", "1ms"], 2, "cannot be used with"),
    ] {
        let ran = forecast(options);
        assert_eq!((ran.code, ran.text().as_str()), (code, ""), "{options:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{options:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(part), "{options:?}: {}", ran.stderr);
    }
}
