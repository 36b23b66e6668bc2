//! `cox run --pack-cpus`: observing and packing in one session, with a section of the report for each.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};

use machine::limits::{Who, allowed_cpus};
use machine::process::Task;
use machine::{CpuSet, Root};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::run::{
    Account, COX, Ran, end_of, path, preload_library, root_with_two_cpus, run, send, shell_code, turn, wait_for,
    workload,
};

/// A folder for journals and reports of one test, and the machine's CPUs.
struct Place {
    folder: TempDir,
    allowed: CpuSet,
}

/// Root and two CPUs.
fn place(test: &str) -> Option<Place> {
    let allowed = root_with_two_cpus(test)?;
    Some(Place { folder: TempDir::new().unwrap(), allowed })
}

impl Place {
    fn two(&self) -> String {
        self.allowed.iter().take(2).collect::<CpuSet>().to_string()
    }

    fn last(&self) -> String {
        self.allowed.last().unwrap().to_string()
    }

    fn cox(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(COX);
        command.args(arguments).env("COX_CHANGES", self.folder.path().join("changes")).stdin(Stdio::null());
        command
    }

    /// `cox run` with its report on stderr, and as JSON.
    fn run(&self, arguments: &[&str]) -> (Ran, Value) {
        let json = path(&self.folder, "report.json");
        let ran = run(&mut self.cox(&[&["run", "--json", &json], arguments].concat()));
        let report = fs::read_to_string(&json).unwrap();
        (ran, serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report}")))
    }

    fn account(&self) -> Account {
        Account::read(path(&self.folder, "report.json"))
    }

    fn journals(&self) -> usize {
        let Ok(files) = fs::read_dir(self.folder.path().join("changes")) else { return 0 };
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "journal")).count()
    }
}

const SPINNING: [&str; 8] = ["--threads", "3", "--work-us", "300", "--wait", "spin", "--iterations-per-us", "300"];

/// Three threads that wait for one another in loops, until the test ends.
struct Runs(Child);

impl Runs {
    /// `within`: a command line that starts it; may be empty.
    fn spinning(within: &[&str]) -> Runs {
        let program = workload("barriers");
        let words = [within, &[program.as_str()], &SPINNING, &["--rounds", "1000000"]].concat();
        let runs = Runs(Command::new(words[0]).args(&words[1..]).stdout(Stdio::null()).spawn().unwrap());
        wait_for("all threads", || (runs.masks().len() == 3).then_some(()));
        runs
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// The mask of each thread.
    fn masks(&self) -> BTreeMap<u32, CpuSet> {
        let root = Root::live();
        let threads = Task::process(&root, self.0.id()).threads().unwrap_or_default();
        threads.into_iter().filter_map(|tid| Some((tid, allowed_cpus(&root, Who::Task(tid)).ok()?))).collect()
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn numbers(list: &str) -> Value {
    json!(list.parse::<CpuSet>().unwrap().iter().collect::<Vec<u32>>())
}

/// What holds for every such document.
fn adds_up(place: &Place, ran: &Ran, report: &Value) {
    place.account().assert_sums();
    let mut faults = Vec::new();
    testkit::schema::follows_schema(report, &mut faults);
    assert_eq!(faults, Vec::<String>::new());
    let added = testkit::audit::audit(&ran.stderr).unwrap_or_else(|open| panic!("{open:?}\n{}", ran.stderr));
    assert_eq!(added.programs, 1, "{}", ran.stderr);
    assert_eq!(report["pack"]["diagnostics"], json!([]));
    assert_eq!(place.journals(), 0);
}

#[test]
fn both_sections_are_there_and_add_up() {
    let Some(place) = place("both_sections_are_there_and_add_up") else { return };
    let _turn = turn();
    let (cpus, program) = (place.two(), workload("barriers"));
    // So long that the last moments of three threads, some ticks each, are far below what is allowed below.
    let rounds = ["--rounds", "2800"];
    let plain = run(Command::new(&program).args(SPINNING).args(rounds));
    let arguments = [&["--pack-cpus", &cpus, "--", &program][..], &SPINNING, &rounds].concat();
    let (ran, report) = place.run(&arguments);
    let checksum = |ran: &Ran| ran.text().lines().last().unwrap().split("checksum").nth(1).unwrap().to_owned();
    assert_eq!((ran.code, checksum(&ran)), (0, checksum(&plain)));
    adds_up(&place, &ran, &report);
    assert_eq!((&report["facts"]["packed_cpus"], &report["facts"]["pinned_cpus"]), (&numbers(&cpus), &Value::Null));
    assert_eq!(report["figures"]["facts.program_cpus"], 2);
    let pack = &report["pack"];
    assert_eq!((&pack["threads"], &pack["slots"], &pack["restored"]), (&json!(3), &json!(2), &json!(3)), "{pack}");
    assert_eq!((&pack["exit_code"], &pack["cpus"]), (&json!(0), &json!(cpus)));
    // Both have seen the same threads run: the packer from their births too, but not their last moments.
    let observed_ns: u64 = place.account().threads().map(|thread| thread.run_ns).sum();
    let packed_ns = pack["run_ns"].as_u64().unwrap();
    assert!(packed_ns.abs_diff(observed_ns) <= observed_ns / 20, "{packed_ns} and {observed_ns}");
    let section = format!("3 threads packed on CPUs {cpus} · ");
    let (observed, packed) = ran.stderr.split_once(&section).unwrap_or_else(|| panic!("{}", ran.stderr));
    assert!(observed.starts_with("cox: ") && observed.contains("Thread time: "), "{}", ran.stderr);
    assert!(packed.contains(", lower bound ") && packed.contains("masks restored"), "{}", ran.stderr);
    // Neither cox's masks nor its threads are taken for somebody's doing.
    assert!(!ran.stderr.contains("taskset -c") && !ran.stderr.contains("stop cox"), "{}", ran.stderr);
}

#[test]
fn without_it_nothing_is_packed() {
    let Some(place) = place("without_it_nothing_is_packed") else { return };
    let (ran, report) = place.run(&["--", "sh", "-c", "echo $LD_PRELOAD; exit 3"]);
    assert_eq!((ran.code, ran.text().as_str()), (3, "\n"));
    assert_eq!((&report["pack"], &report["facts"]["packed_cpus"]), (&Value::Null, &Value::Null));
    assert!(!ran.stderr.contains("packed"), "{}", ran.stderr);
}

#[test]
fn a_program_ends_as_without_cox_and_runs_on_the_pack_only() {
    let Some(place) = place("a_program_ends_as_without_cox_and_runs_on_the_pack_only") else { return };
    let last = place.last();
    let script = "grep Cpus_allowed_list /proc/self/status; nproc; echo err >&2; exit 7";
    let (ran, report) = place.run(&["-q", "--pack-cpus", &last, "--", "sh", "-c", script]);
    assert_eq!((ran.code, ran.text()), (7, format!("Cpus_allowed_list:\t{last}\n1\n")));
    assert_eq!(ran.stderr, "err\n");
    assert_eq!((&report["programs"][0]["exit_code"], &report["pack"]["exit_code"]), (&json!(7), &json!(7)));
    assert_eq!(run(&mut place.cox(&["run", "-q", "--pack-cpus", &last, "--", "/no/such/program"])).code, 127);
    assert_eq!(place.journals(), 0);
}

#[test]
fn the_preload_library_is_inside_as_with_cox_pack() {
    let Some(place) = place("the_preload_library_is_inside_as_with_cox_pack") else { return };
    let Some(library) = preload_library("the_preload_library_is_inside_as_with_cox_pack") else { return };
    let library = library.to_str().unwrap();
    let cpus = place.two();
    let inside = |options: &[&str]| {
        let script = r#"tr '\0' '\n' </proc/$$/environ | grep -e ^LD_PRELOAD= -e ^COX_PRELOAD_ALONE="#;
        let words = [&["run", "-q", "--pack-cpus", &cpus], options, &["--", "sh", "-c", script]].concat();
        run(place.cox(&words).env("COX_PRELOAD", library)).text()
    };
    assert_eq!(inside(&[]), format!("LD_PRELOAD={library}\n"));
    // It takes itself out of what children get.
    let alone = inside(&["--no-children"]);
    let mut alone: Vec<&str> = alone.lines().collect();
    alone.sort_unstable();
    assert_eq!(alone, [&format!("COX_PRELOAD_ALONE={library}"), "LD_PRELOAD="]);
    assert_eq!(inside(&["--no-preload"]), "");
}

#[test]
fn attaching_leaves_every_mask_as_it_was() {
    let Some(place) = place("attaching_leaves_every_mask_as_it_was") else { return };
    let _turn = turn();
    let last = place.last();
    let runs = Runs::spinning(&[]);
    let before = runs.masks();
    let (ran, report) = place.run(&["--pack-cpus", &last, "--pid", &runs.pid(), "--for", "1s"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(runs.masks(), before);
    adds_up(&place, &ran, &report);
    assert_eq!(report["pack"]["restored"], 3);
    // What cox has set is not what the program had.
    assert_eq!((&report["facts"]["packed_cpus"], &report["facts"]["pinned_cpus"]), (&numbers(&last), &Value::Null));
    assert_eq!((&report["pack"]["exit_code"], &report["programs"][0]["exit_code"]), (&Value::Null, &Value::Null));
    assert!(ran.stderr.contains(&format!("3 threads packed on CPU {last} · ")), "{}", ran.stderr);
}

#[test]
fn a_mask_that_the_program_had_before_is_told() {
    let Some(place) = place("a_mask_that_the_program_had_before_is_told") else { return };
    let last = place.last();
    let runs = Runs::spinning(&["taskset", "-c", &last]);
    let (ran, report) = place.run(&["--pack-cpus", &last, "--pid", &runs.pid(), "--for", "200ms"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(report["facts"]["pinned_cpus"], numbers(&last));
    // What its threads may not use is refused, as cox pack does.
    let first = place.allowed.first().unwrap().to_string();
    let ran = run(&mut place.cox(&["run", "--pack-cpus", &first, "--pid", &runs.pid()]));
    assert_eq!(ran.code, 125);
    assert!(ran.stderr.contains(&format!("may not use CPU {first} (allowed: {last})")), "{}", ran.stderr);
}

#[test]
fn what_cannot_be_is_refused_before_anything_starts() {
    let Some(place) = place("what_cannot_be_is_refused_before_anything_starts") else { return };
    let beyond = (place.allowed.last().unwrap() + 1).to_string();
    let started = ["--", "sh", "-c", "echo started"];
    for (arguments, part) in [
        ([&["--pack-cpus", &beyond][..], &started].concat(), "may not use CPU"),
        ([&["--pack-cpus", "x"][..], &started].concat(), "--pack-cpus"),
        ([&["--no-preload"][..], &started].concat(), "--pack-cpus"),
        (vec!["--pack-cpus", "0", "--cgroup", "/", "--for", "10ms"], "cannot be used with"),
        (vec!["--pack-cpus", "0", "--pid", "999999999"], "999999999"),
    ] {
        let ran = run(&mut place.cox(&[&["run"][..], &arguments].concat()));
        assert_eq!((ran.code, ran.text().as_str()), (125, ""), "{arguments:?}");
        assert!(ran.stderr.contains(part) && ran.stderr.lines().count() == 1, "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(place.journals(), 0);
}

/// Two packers of one program, whichever verb they are.
#[test]
fn a_second_packer_of_the_same_program_is_refused() {
    let Some(place) = place("a_second_packer_of_the_same_program_is_refused") else { return };
    let (last, two) = (place.last(), place.two());
    let runs = Runs::spinning(&[]);
    let before = runs.masks();
    let pid = runs.pid();
    let run_it = ["run", "-q", "--pid", &pid, "--pack-cpus"];
    let pack_it = ["pack", "-q", "--pid", &pid, "--cpus"];
    for (one, other) in [(run_it, pack_it), (pack_it, run_it)] {
        let mut first = place.cox(&[&one[..], &[&last]].concat()).spawn().unwrap();
        let packed = last.parse::<CpuSet>().unwrap();
        wait_for("the pack", || runs.masks().values().all(|mask| *mask == packed).then_some(()));
        for cpus in [&last, &two] {
            let second = run(&mut place.cox(&[&other[..], &[cpus]].concat()));
            assert_eq!(second.code, 125);
            assert!(second.stderr.contains("is packed already"), "{}", second.stderr);
        }
        send(first.id(), Signal::INT);
        assert_eq!(shell_code(end_of(&mut first)), 0);
        assert_eq!(runs.masks(), before);
    }
}

#[test]
fn killed_all_masks_come_back() {
    let Some(place) = place("killed_all_masks_come_back") else { return };
    let last = place.last();
    let runs = Runs::spinning(&[]);
    let before = runs.masks();
    let mut cox = place.cox(&["run", "-q", "--pack-cpus", &last, "--pid", &runs.pid()]).spawn().unwrap();
    wait_for("the pack", || (runs.masks() != before).then_some(()));
    cox.kill().unwrap();
    cox.wait().unwrap();
    wait_for("the guardian", || (place.journals() == 0).then_some(()));
    assert_eq!(runs.masks(), before);
}

/// The program reads which tracepoints cox's programs are attached to.
#[test]
fn one_program_runs_at_a_tracepoint_under_two_engines() {
    let Some(place) = place("one_program_runs_at_a_tracepoint_under_two_engines") else { return };
    let (links, two) = (path(&place.folder, "links"), place.two());
    let read = "cat /proc/$PPID/fdinfo/* > \"$0\" 2> /dev/null; true";
    // Both need births, execs and switches; only overlap needs to know where a thread was woken.
    let packed = ["sched_migrate_task", "sched_process_exec", "sched_switch", "sched_wakeup_new", "sched_waking"];
    let overlapped = [&packed[..], &["sched_wakeup"]].concat();
    for (engine, wanted) in [(&["--pack-cpus", &two][..], &packed[..]), (&["--overlap=bpf"], &overlapped)] {
        let ran = place.run(&[&["-q"], engine, &["--", "sh", "-c", read, &links]].concat()).0;
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let text = fs::read_to_string(&links).unwrap();
        let found = text.lines().filter_map(|line| line.strip_prefix("tp_name:")).map(str::trim);
        let (mut found, mut wanted) = (found.collect::<Vec<_>>(), [wanted, &["task_newtask"]].concat());
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{engine:?}");
    }
}

#[test]
fn a_packed_run_is_no_evidence_of_how_it_runs_alone() {
    let Some(place) = place("a_packed_run_is_no_evidence_of_how_it_runs_alone") else { return };
    let (cpus, program) = (place.two(), workload("barriers"));
    let words = [&["-q", "--pack-cpus", &cpus, "--", &program][..], &SPINNING, &["--rounds", "200"]].concat();
    assert_eq!(place.run(&words).0.code, 0);
    let ran = run(&mut place.cox(&["advise", "--ncpus", "2", "--from", &path(&place.folder, "report.json")]));
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (1, "cox: the run was packed; record it with cox run, without --pack-cpus\n")
    );
}
