//! `cox pack` with the preload library inside the program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use machine::Root;
use machine::process::Task;
use rustix::process::{Pid, Signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value;
use tempfile::TempDir;
use testkit::run::{COX, end_of, path, preload_library, root_with_two_cpus, run, send, shell_code, wait_for, workload};
use watch::preload_page::{Page, SpinThrottle, is_page};

/// What a test of these needs: two CPUs, root, and the library.
struct Place {
    folder: TempDir,
    library: PathBuf,
    cpu: u32,
}

fn place(test: &str) -> Option<Place> {
    let allowed = root_with_two_cpus(test)?;
    let library = preload_library(test)?;
    let cpu = allowed.first().unwrap();
    Some(Place { folder: TempDir::new().unwrap(), library, cpu })
}

impl Place {
    /// `cox pack` on one CPU, with its report in a file.
    fn cox(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(COX);
        command.args(["pack", "-q", "--cpus", &self.cpu.to_string(), "--json", &path(&self.folder, "report.json")]);
        command.args(arguments).env("COX_CHANGES", self.folder.path().join("changes"));
        command.env("COX_PRELOAD", &self.library).stdin(Stdio::null());
        command
    }

    fn report(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(path(&self.folder, "report.json")).unwrap()).unwrap()
    }

    /// Two threads that meet every 0.2 ms, for so many seconds, started on all CPUs.
    fn start(&self, seconds: &str, variables: &[(&str, &str)]) -> Program {
        let mut command = Command::new(workload("imbalance"));
        command.args(REGIONS).args(["--seconds", seconds]).envs(variables.iter().copied());
        let program = Program(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        wait_for("two threads", || (program.threads().len() == 2).then_some(()));
        program
    }

    fn start_with_library(&self, seconds: &str) -> Program {
        self.start(seconds, &[("LD_PRELOAD", self.library.to_str().unwrap())])
    }
}

const REGIONS: [&str; 8] = ["--threads", "2", "--factor", "1", "--work-us", "200", "--iterations-per-us", "500"];

struct Program(Child);

impl Program {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn threads(&self) -> Vec<u32> {
        Task::process(&Root::live(), self.0.id()).threads().unwrap_or_default()
    }

    fn throttle(&self) -> Option<SpinThrottle> {
        let maps = Task::process(&Root::live(), self.0.id()).maps().ok()?;
        let page = Page::open(&Root::live(), self.0.id(), maps.iter().find(|mapping| is_page(mapping))?).ok()?;
        Some(page.throttle())
    }

    fn becomes(&self, throttle: SpinThrottle) {
        wait_for(&format!("{throttle:?}"), || (self.throttle() == Some(throttle)).then_some(()));
    }

    /// Its own results are right; how many loops it has done.
    fn loops(mut self) -> u64 {
        assert_eq!(shell_code(end_of(&mut self.0)), 0);
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        words[words.iter().position(|word| *word == "loops").unwrap() - 1].parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_launched_program_has_it_unless_it_shall_not() {
    let Some(place) = place("a_launched_program_has_it_unless_it_shall_not") else { return };
    let program = workload("imbalance");
    // Packing begins by itself only if the threads spin or leave CPUs idle, and these do neither.
    for (options, preloaded) in [(&["--always"][..], 1), (&["--always", "--no-preload"][..], 0)] {
        let arguments = [options, &["--", &program], &REGIONS, &["--seconds", "0.4"]].concat();
        let ran = run(&mut place.cox(&arguments));
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        let report = place.report();
        assert_eq!(report["preloaded"].as_u64(), Some(preloaded), "{report}");
        // It began on the CPUs that it has: nothing to do about its waiting.
        assert_eq!(report["spin_throttled"].as_u64(), Some(0), "{report}");
        assert_eq!(
            (report["spinning_runtimes"].as_array().map(Vec::len), report["threads"].as_u64()),
            (Some(0), Some(2))
        );
    }
    let shows = "echo \"${LD_PRELOAD-none}\"";
    let ran = run(&mut place.cox(&["--", "sh", "-c", shows]));
    assert_eq!(ran.text().trim(), place.library.to_str().unwrap());
    assert_eq!(run(&mut place.cox(&["--no-children", "--", "sh", "-c", shows])).text(), "none\n");
}

#[test]
fn attached_to_it_keeps_libgomp_from_spinning_until_cox_ends() {
    let Some(place) = place("attached_to_it_keeps_libgomp_from_spinning_until_cox_ends") else { return };
    let program = place.start_with_library("6");
    let before = program.threads();
    for end in ["asked to", "killed"] {
        let mut cox = place.cox(&["--pid", &program.pid()]).spawn().unwrap();
        program.becomes(SpinThrottle::Throttled);
        if end == "killed" {
            cox.kill().unwrap();
            cox.wait().unwrap();
        } else {
            send(cox.id(), Signal::INT);
            assert_eq!(shell_code(end_of(&mut cox)), 0);
            let report = place.report();
            assert_eq!(report["spin_throttled"].as_u64(), Some(1), "{report}");
            assert_eq!(report["spinning_runtimes"].as_array().map(Vec::len), Some(0), "{report}");
            // The library's own threads are not the program's.
            assert_eq!(report["threads"].as_u64(), Some(2), "{report}");
        }
        program.becomes(SpinThrottle::AsItWas);
        wait_for("the helpers' end", || (program.threads() == before).then_some(()));
    }
    assert!(program.loops() > 0);
}

#[test]
fn where_no_team_can_be_had_it_says_so() {
    let Some(place) = place("where_no_team_can_be_had_it_says_so") else { return };
    let library = place.library.to_str().unwrap();
    for variable in [("OMP_THREAD_LIMIT", "2"), ("OMP_DISPLAY_AFFINITY", "true")] {
        let program = place.start("3", &[("LD_PRELOAD", library), variable]);
        let mut cox = place.cox(&["--pid", &program.pid()]).spawn().unwrap();
        program.becomes(SpinThrottle::Refused);
        sleep(Duration::from_millis(100));
        send(cox.id(), Signal::INT);
        end_of(&mut cox);
        let report = place.report();
        assert_eq!(report["spin_throttled"].as_u64(), Some(0), "{report}");
        let remedy = report["spinning_runtimes"][0]["remedy"].as_str().unwrap();
        assert!(remedy.contains("OMP_WAIT_POLICY=passive") && !remedy.contains("LD_PRELOAD"), "{report}");
        assert!(program.loops() > 0);
    }
}

#[test]
fn without_it_the_report_names_the_loss_and_the_remedy() {
    let Some(place) = place("without_it_the_report_names_the_loss_and_the_remedy") else { return };
    for (variables, named) in [(&[][..], 1), (&[("OMP_WAIT_POLICY", "passive")][..], 0)] {
        let program = place.start("2", variables);
        let ran = run(&mut place.cox(&["--pid", &program.pid(), "--for", "500ms"]));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let report = place.report();
        let runtimes = report["spinning_runtimes"].as_array().unwrap();
        assert_eq!((runtimes.len(), report["preloaded"].as_u64()), (named, Some(0)), "{report}");
        if let Some(runtime) = runtimes.first() {
            assert_eq!(runtime["pid"].as_u64(), Some(program.0.id().into()));
            assert!(runtime["loss"].as_str().unwrap().contains("spins for milliseconds"), "{report}");
            assert!(runtime["remedy"].as_str().unwrap().contains(place.library.to_str().unwrap()), "{report}");
        }
    }
}

/// Who is in no barrier may still wait in a loop of the program's own: what the library says comes beside the
/// judging of code, not in its place.
#[test]
fn loops_of_the_programs_own_are_seen_beside_the_library() {
    let Some(place) = place("loops_of_the_programs_own_are_seen_beside_the_library") else { return };
    // Threads follow one another through a grid by flags, and meet at an OpenMP barrier after each step.
    let mut cox = place.cox(&["--", &workload("kernel-lu"), "--threads", "3", "--size", "24", "--steps", "30"]);
    let ran = run(&mut cox);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let report = place.report();
    assert_eq!(report["preloaded"].as_u64(), Some(1), "{report}");
    assert!(report["spinning"].as_f64() > Some(0.1) && report["rotating_ns"].as_u64() > Some(0), "{report}");
}

/// Packed after their start, side by side: with the library and cox, and with an affinity alone.
#[test]
fn a_packed_libgomp_is_faster_for_it() {
    let Some(place) = place("a_packed_libgomp_is_faster_for_it") else { return };
    let throttled = place.start_with_library("3");
    let mut cox = place.cox(&["--pid", &throttled.pid()]).spawn().unwrap();
    let throttled = throttled.loops();
    end_of(&mut cox);
    let plain = place.start("3", &[]);
    let mut mask = CpuSet::new();
    mask.set(place.cpu as usize);
    for tid in plain.threads() {
        sched_setaffinity(Pid::from_raw(tid as i32), &mask).unwrap();
    }
    let plain = plain.loops();
    assert!(throttled > 2 * plain, "{throttled} loops with it, {plain} without");
}
