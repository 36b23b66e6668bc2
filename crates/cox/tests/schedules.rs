//! `cox run --schedule` and `cox loops`: other loop schedules for programs as they are, and what their loops did.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use testkit::run::{COX, Ran, path, run};
use testkit::skip::is_root;

/// A program of the tests of the library, and a folder for reports and for cox's own temporary files.
struct Bench {
    folder: TempDir,
    program: String,
}

impl Bench {
    fn new() -> Bench {
        Bench::of("gcc", &[])
    }

    fn of(compiler: &str, flags: &[&str]) -> Bench {
        let folder = TempDir::new().unwrap();
        let program = path(&folder, "uneven");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload-loops/tests/programs/uneven.c");
        let mut command = Command::new(compiler);
        command.args(["-g", "-O1", "-fopenmp", "-o", &program]).arg(source).args(flags);
        assert!(command.status().unwrap().success(), "{command:?}");
        fs::create_dir(folder.path().join("tmp")).unwrap();
        Bench { folder, program }
    }

    fn cox(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(COX);
        command.args(arguments).stdin(Stdio::null()).env_remove("OMP_SCHEDULE").env_remove("OMP_NUM_THREADS");
        command.env("TMPDIR", self.folder.path().join("tmp")).env("OMP_WAIT_POLICY", "passive");
        command
    }

    /// Runs cox with `--json`, in which the loops are what `part` selects.
    fn report(&self, command: &mut Command) -> (Ran, Value) {
        let ran = run(command);
        let text = fs::read_to_string(self.folder.path().join("report.json")).unwrap();
        (ran, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    /// `cox run --schedule SCHEDULE`, with three threads; returns the section on loops.
    fn loops(&self, schedule: &str, more: &[&str], arguments: &[&str]) -> Value {
        let json = path(&self.folder, "report.json");
        let all = [&["run", "--json", &json, "--schedule", schedule], more, &["--", &self.program], arguments].concat();
        let (ran, mut report) = self.report(self.cox(&all).env("OMP_NUM_THREADS", "3"));
        assert_eq!((ran.code, ran.stdout.as_slice()), (0, b"kept\n".as_slice()), "{}", ran.stderr);
        assert!(ran.stderr.contains("\nloops      "), "{}", ran.stderr);
        report["loops"].take()
    }

    /// What cox has left in its temporary folder.
    fn left(&self) -> Vec<PathBuf> {
        fs::read_dir(self.folder.path().join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

/// The loop with this clause.
fn of<'l>(loops: &'l Value, clause: &str) -> &'l Value {
    let all = loops["loops"].as_array().unwrap();
    all.iter().find(|one| one["clause"] == clause).unwrap_or_else(|| panic!("{clause}: {loops}"))
}

#[test]
fn each_loop_is_in_the_report_with_its_line() {
    let bench = Bench::new();
    let loops = bench.loops("all:fac2", &[], &["10", "1000"]);
    assert_eq!((&loops["schedule"], &loops["all"], &loops["processes"]), (&"fac2".into(), &true.into(), &1.into()));
    let source = include_str!("../../preload-loops/tests/programs/uneven.c");
    for (clause, text) in
        [("runtime", "schedule(runtime)"), ("dynamic", "schedule(dynamic, 3)"), ("guided", "schedule(guided)")]
    {
        let one = of(&loops, clause);
        assert_eq!(
            (&one["schedule"], &one["threads"], &one["instances"]),
            (&"fac2".into(), &3.into(), &10.into()),
            "{one}"
        );
        assert_eq!((&one["function"], &one["iterations"]), (&"loops".into(), &10_000.into()), "{one}");
        let line = source.lines().position(|line| line.contains(text)).unwrap() as u64 + 1;
        assert!((line..=line + 1).contains(&one["line"].as_u64().unwrap()), "{one}");
        // One iteration sleeps 5 ms, and the other threads wait.
        assert!(
            one["wall_ns"].as_u64().unwrap() >= 50_000_000 && one["load_imbalance"].as_f64().unwrap() > 0.3,
            "{one}"
        );
    }
    // Without `all:`, the others belong to libgomp.
    let loops = bench.loops("static,7", &[], &["10", "1000"]);
    assert_eq!(loops["loops"].as_array().unwrap().len(), 1);
    assert_eq!(of(&loops, "runtime")["chunks"], 10 * 143);
    assert!(bench.left().is_empty(), "{:?}", bench.left());
}

#[test]
fn what_could_change_nothing_is_refused_before_the_program_starts() {
    let bench = Bench::new();
    let started = path(&bench.folder, "started");
    let static_program = path(&bench.folder, "static");
    let source = path(&bench.folder, "static.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    assert!(Command::new("gcc").args(["-static", "-o", &static_program, &source]).status().unwrap().success());
    let inside = Bench::of("gcc", &["-static-libgcc", "-Wl,-Bstatic", "-lgomp", "-Wl,-Bdynamic", "-ldl"]);
    for (options, variables, said) in [
        (&["--schedule", "fax2"][..], &[][..], "unknown schedule 'fax2': use fac2"),
        (&["--schedule", "ss,0"], &[], "invalid chunk '0'"),
        (&["--schedule", "ss,-1"], &[], "invalid chunk '-1'"),
        (&["--schedule", "fac"], &[], "--schedule fac: schedule 'fac' needs the mean time of an iteration"),
        (&["--schedule", "wf", "--schedule-inputs", "weights=1:x"], &[], "is none of mean_ns=F"),
        (
            &["--schedule", "wf", "--schedule-inputs", "weights=1:2:3"],
            &[("OMP_NUM_THREADS", "2")],
            "weights for 3 threads, and the program has 2",
        ),
        (&["--schedule", "fac2"], &[("OMP_SCHEDULE", "guided,4")], "OMP_SCHEDULE=guided,4 is in the environment"),
        (&["--schedule", "awf", "--timing", "clock"], &[], "unknown timing 'clock': use wall, cpu or both"),
        (&["--timing", "wall"], &[], "--schedule"),
    ] {
        let ran =
            run(bench.cox(&[&["run"], options, &["--", "touch", &started]].concat()).envs(variables.iter().copied()));
        assert_eq!(ran.code, 125, "{}", ran.stderr);
        assert!(ran.stderr.contains(said) && ran.stderr.lines().count() == 1, "{said}: {}", ran.stderr);
    }
    for (program, said) in
        [(&static_program, "it is statically linked"), (&inside.program, "libgomp is linked into it statically")]
    {
        let ran = run(&mut bench.cox(&["run", "--schedule", "fac2", "--", program, "1", "1"]));
        assert_eq!((ran.code, ran.stdout.as_slice()), (125, b"".as_slice()), "{}", ran.stderr);
        assert!(ran.stderr.contains(said) && ran.stderr.lines().count() == 1, "{said}: {}", ran.stderr);
    }
    for run_options in [&["run", "--schedule", "fac2"][..], &["loops"]] {
        let ran = run(&mut bench.cox(&[run_options, &["--", "/nowhere/at/all"]].concat()));
        assert_eq!(ran.code, 127, "{}", ran.stderr);
        assert!(ran.stderr.starts_with("cox: cannot run '/nowhere/at/all': no such file"), "{}", ran.stderr);
    }
    assert!(!Path::new(&started).exists());
    assert!(bench.left().is_empty(), "{:?}", bench.left());
}

/// Iterations sleep longer towards the end, so with `static` one thread takes half as long again as in balance.
#[test]
fn what_auto_has_found_is_used_by_the_next_run_of_the_same_build() {
    let bench = Bench::new();
    let file = path(&bench.folder, "schedules");
    let loops = bench.loops("auto", &["--save-schedules", &file], &["60", "16", "slope"]);
    let found = of(&loops, "runtime");
    let schedule = found["schedule"].as_str().unwrap();
    assert_ne!(schedule, "static", "{found}");
    let reason = found["selection"]["reason"].as_str().unwrap();
    assert!(["fastest", "balanced", "similar"].contains(&reason), "{found}");
    assert!(found["selection"]["rounds"].as_u64().unwrap() >= 1, "{found}");
    let saved = fs::read_to_string(&file).unwrap();
    assert!(
        saved.lines().any(|line| line.starts_with("loop 0 ") && line.ends_with(&format!(" runtime 3 {schedule}"))),
        "{saved}"
    );

    // With the file, from the first instance on; another loop of the program is not in it.
    let from = format!("from:{file}");
    let loops = bench.loops(&from, &[], &["4", "16", "slope"]);
    let again = of(&loops, "runtime");
    assert_eq!((&again["schedule"], &again["instances"]), (&schedule.into(), &4.into()), "{again}");
    assert_eq!(again["saved"], true, "{again}");
    assert!(again["load_imbalance"].as_f64().unwrap() < 0.6, "{again}");

    // Another build has other addresses; a damaged file has a line that cannot be read.
    let refused = |said: &str| {
        let ran = run(&mut bench.cox(&["run", "--schedule", &from, "--", &bench.program, "1", "1"]));
        assert_eq!((ran.code, ran.stdout.as_slice()), (125, b"".as_slice()), "{}", ran.stderr);
        assert!(ran.stderr.contains(said) && ran.stderr.lines().count() == 1, "{said}: {}", ran.stderr);
    };
    fs::write(&file, saved.replacen("module ", "module 00", 1)).unwrap();
    refused("is for another build of ");
    fs::write(&file, format!("{saved}nonsense\n")).unwrap();
    refused("cannot be read: 'nonsense'");
    fs::remove_file(&file).unwrap();
    refused("cannot read ");
}

/// The library tells how it knew CPU time. Without glibc's registration of restartable sequences, it asks the kernel each time.
#[test]
fn the_report_says_which_time_schedules_have_used() {
    let bench = Bench::new();
    let said = |schedule: &str, more: &[&str]| {
        let loops = bench.loops(schedule, more, &["20", "100"]);
        (of(&loops, "runtime")["timing"].clone(), loops["cpu_time"].clone())
    };
    let after = Value::from("after switches");
    assert_eq!(said("static_weighted", &[]), ("both".into(), after.clone()));
    assert_eq!(said("static_weighted", &["--timing", "wall"]), ("wall".into(), Value::Null));
    assert_eq!(said("awf_b", &[]), ("wall".into(), Value::Null));
    assert_eq!(said("awf_b", &["--timing", "cpu"]), ("cpu".into(), after));
    assert_eq!(said("fac2", &["--timing", "both"]), (Value::Null, Value::Null));
    let json = path(&bench.folder, "report.json");
    let command =
        ["run", "--json", &json, "--schedule", "all:awf_b", "--timing", "both", "--", &bench.program, "5", "100"];
    let (ran, report) = bench.report(bench.cox(&command).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0"));
    assert_eq!((ran.code, &report["loops"]["cpu_time"]), (0, &"each time".into()), "{}", ran.stderr);
    assert!(ran.stderr.contains("each request asked the kernel for the thread's CPU time"), "{}", ran.stderr);
}

/// `--overlap` takes over the same entry points; packing loads the other library, too.
#[test]
fn schedules_go_with_overlap_and_packing() {
    let bench = Bench::new();
    for more in [
        &["--overlap=off"][..],
        &["--overlap=standby-idle"],
        &["--overlap=perf"],
        &["--overlap=auto"],
        &["--pack-cpus", "0"],
    ] {
        for schedule in ["all:fac2", "all:static_steal", "all:awf_c", "all:auto"] {
            let loops = bench.loops(schedule, more, &["20", "100"]);
            for clause in ["runtime", "dynamic", "guided"] {
                assert_eq!(
                    (&of(&loops, clause)["instances"], &of(&loops, clause)["iterations"]),
                    (&20.into(), &2000.into()),
                    "{more:?}: {loops}"
                );
            }
        }
    }
}

#[test]
fn processes_that_the_program_starts_count_unless_they_are_excluded() {
    let bench = Bench::new();
    let json = path(&bench.folder, "report.json");
    let both = format!("{0} 3 10; {0} 4 10", bench.program);
    let run = |more: &[&str]| {
        let all = [&["run", "--json", &json, "--schedule", "ss"], more, &["--", "sh", "-c", &both]].concat();
        bench.report(&mut bench.cox(&all)).1["loops"].take()
    };
    let loops = run(&[]);
    assert_eq!((&loops["processes"], &of(&loops, "runtime")["instances"]), (&2.into(), &7.into()));
    assert_eq!(run(&["--no-children"])["processes"], 0);
}

/// A program that is killed has written nothing, and yet nothing is lost but the last instance.
#[test]
fn a_killed_program_has_a_report() {
    let bench = Bench::new();
    let json = path(&bench.folder, "report.json");
    let killed = format!("{} 100000 10 & sleep 1; kill -9 $!", bench.program);
    let (ran, report) = bench.report(&mut bench.cox(&[
        "run",
        "--json",
        &json,
        "--schedule",
        "ss",
        "--wait-all",
        "--",
        "bash",
        "-c",
        &killed,
    ]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(of(&report["loops"], "runtime")["instances"].as_u64().unwrap() > 5, "{}", report["loops"]);
}

#[test]
fn cox_loops_keeps_the_schedules_and_says_what_would_help() {
    let bench = Bench::new();
    let json = path(&bench.folder, "report.json");
    let arguments = ["loops", "--json", &json, "--", &bench.program, "20", "1000"];
    let (ran, report) = bench.report(bench.cox(&arguments).env("OMP_NUM_THREADS", "2").env("OMP_SCHEDULE", "static"));
    assert_eq!((ran.code, ran.stdout.as_slice()), (0, b"kept\n".as_slice()), "{}", ran.stderr);
    assert_eq!((&report["schema_version"], &report["schedule"]), (&1.into(), &"as_written".into()));
    let schedules = ["runtime", "dynamic", "guided"].map(|clause| of(&report, clause)["schedule"].clone());
    assert_eq!(schedules, ["static", "ss", "gss"]);
    for clause in ["runtime", "dynamic", "guided"] {
        let one = of(&report, clause);
        assert!(one["os_caused_ns"].as_u64().unwrap() <= one["wall_ns"].as_u64().unwrap(), "{one}");
        assert!(!one["advice"].as_str().unwrap().is_empty(), "{one}");
    }
    assert!(ran.stderr.starts_with("cox: ") && ran.stderr.contains("would help"), "{}", ran.stderr);
}

/// While a thread sleeps, it waits for no CPU; while other programs compute on its CPU, it does.
#[test]
fn what_the_os_caused_is_told_from_the_programs_own_imbalance() {
    let bench = Bench::new();
    let json = path(&bench.folder, "report.json");
    let hog = "taskset -c 0 sh -c 'while :; do :; done' &";
    // Both threads on one CPU, on which two other programs compute.
    let script = format!("{hog} {hog} taskset -c 0 {} 4 100 work; kill $(jobs -p); true", bench.program);
    let command = ["loops", "--json", &json, "--", "bash", "-c", &script];
    let (ran, report) = bench.report(bench.cox(&command).env("OMP_NUM_THREADS", "2"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let times = |clause| ["wall_ns", "os_caused_ns"].map(|name| of(&report, clause)[name].as_f64().unwrap());
    let [wall, os_caused] = times("runtime");
    assert!(os_caused > 0.25 * wall, "{} of {}", os_caused, wall);
    // In each of the four instances, one thread sleeps 5 ms.
    let [wall, os_caused] = times("guided");
    assert!(wall - os_caused >= 0.99 * 4.0 * 5e6, "{} of {}", os_caused, wall);
}

/// A program may close all descriptors, or run where cox's folder cannot be written.
#[test]
fn without_its_folder_the_program_runs_and_the_report_says_that_nothing_was_seen() {
    let bench = Bench::new();
    let json = path(&bench.folder, "report.json");
    let script = format!("chmod 0 $COX_LOOPS; exec setpriv --reuid 65534 --clear-groups {} 3 10", bench.program);
    if !is_root("without_its_folder_the_program_runs_and_the_report_says_that_nothing_was_seen") {
        return;
    }
    for folder in [bench.folder.path(), Path::new(&bench.program)] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (ran, report) =
        bench.report(&mut bench.cox(&["run", "--json", &json, "--schedule", "ss", "--", "sh", "-c", &script]));
    assert_eq!(
        (ran.code, ran.stdout.as_slice(), &report["loops"]["processes"]),
        (0, b"kept\n".as_slice(), &0.into()),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("no loop was seen whose schedule can change"), "{}", ran.stderr);
}
