//! The jobs. Each prints its facts.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use testkit::guardians;
use testkit::machine_state::{MachineState, is_of_worker, not_restored_within};

use crate::facts::{fact, is_fine};
use crate::machine::{Machine, own};
use crate::session::{Ended, Session, cox, kill, start, text};

/// At most so many timer interrupts come to a CPU without a tick each second.
const TICKLESS_PER_S: f64 = 2.0;
/// At least so many come to one with a tick. The kernels have 250, but an emulated CPU gets them only when it is its turn.
const TICKS_PER_S: f64 = 20.0;
/// How long a tick is looked for, seconds.
const ALONE_S: &str = "5";
const SHARED_S: &str = "1";
/// How long a thread runs beside something that keeps the tick, seconds.
const KEPT_S: &str = "2";
/// What keeps the tick of a CPU with one thread, by `hog --keep-tick`, and the kernel's name of that dependency.
const KEEPERS: [(&str, &str); 2] = [("cpu-timer", "POSIX_TIMER"), ("perf-event", "PERF_EVENTS")];
/// The kernels' own rate (CONFIG_HZ).
const NOMINAL_TICKS_PER_S: f64 = 250.0;
/// A difference between two counts of this share means nothing.
const INEXACT: f64 = 0.02;
/// The mask of CPU 3.
const CPU_3: &str = "8";
/// Sessions of the storm, and moments at which one is killed.
const SESSIONS: u32 = 20;
const MOMENTS: u32 = 24;

/// How long everything may take to be restored: an emulated CPU that shares its host's needs many seconds.
const PATIENCE: Duration = Duration::from_secs(30);

fn not_restored(before: &MachineState) -> Vec<String> {
    not_restored_within(before, PATIENCE)
}

/// Runs a job. Returns whether there is one with this name.
pub fn run(job: &str) -> bool {
    match job {
        "one" => {
            programs(&[("one CPU", &["--cpus", "3"], "isolated")]);
        }
        "two" => {
            programs(&[
                ("shared CPUs", &["--cpus", "2-3"], "root"),
                ("isolated CPUs", &["--cpus", "2-3", "--isolated"], "isolated"),
            ]);
        }
        "tick" => tick(),
        "sessions" => sessions(),
        "apply" => apply(),
        "kill" => killed(),
        "kills" => kills(),
        "storm" => storm(),
        _ => return false,
    }
    true
}

/// Runs programs with these options of cox; their partitions must be of these kinds.
fn programs(all: &[(&str, &[&str], &str)]) {
    let mut machine = Machine::new();
    let before = MachineState::read();
    for (name, options, partition) in all {
        let ended = match Session::begin(options) {
            Ok(session) => {
                is_fine(&format!("{name} quiet"), &session.wrong(options[1], partition));
                // It inherits the CPUs that its parent has now.
                machine.start("wait", "", None);
                session.end()
            }
            Err(ended) => ended,
        };
        fact(&format!("{name} exit"), &ended.code.to_string(), &[ended.printed]);
        let mut wrong = not_restored(&before);
        wrong.extend(machine.strays(&before));
        is_fine(&format!("{name} restored"), &wrong);
    }
    let mut workers = before.differences(&MachineState::read());
    workers.retain(|line| is_of_worker(line));
    is_fine("unbound workers restored", &workers);
}

fn tick() {
    let program = own(&["spin", ALONE_S, SHARED_S]);
    let words = ["quiet", "--cpus", "3", "--level", "tickless", "--"].map(OsStr::new);
    let words: Vec<&OsStr> = words.into_iter().chain([program.get_program()]).chain(program.get_args()).collect();
    let output = cox(&words);
    let reason = [text(&output)];
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let figures: Vec<f64> = printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [alone, alone_s, shared, shared_s] = figures[..] else { return fact("alone", "none", &reason) };
    for (name, rate) in [("alone", alone / alone_s), ("shared", shared / shared_s)] {
        let value = match rate {
            rate if rate <= TICKLESS_PER_S => "off",
            rate if rate >= TICKS_PER_S => "on",
            _ => "between",
        };
        fact(name, value, &[format!("{rate:.1} timer interrupts a second")]);
    }
    // The report counts from before the program's first instruction to after its last one, and rounds.
    let agrees = reported(&reason[0]).is_some_and(|(per_s, length_s)| {
        let (least, most) = ((per_s - 0.05) * length_s, (per_s + 0.15) * length_s);
        // Before its first and after its last instruction. The kernel's rate is no exact one, and an emulated CPU gets late interrupts at once.
        let highest = NOMINAL_TICKS_PER_S.max(shared / shared_s);
        let elsewhere = highest * (length_s - alone_s - shared_s) + INEXACT * (alone + shared);
        least <= alone + shared + elsewhere && alone + shared <= most
    });
    fact("report", if agrees { "agrees" } else { "differs" }, &reason);
    for (keeper, name) in KEEPERS {
        let program = ["hog", "--seconds", KEPT_S, "--keep-tick", keeper];
        let said = text(&cox(&[&["quiet", "--cpus", "3", "--level", "tickless", "--"][..], &program].concat()));
        // What kept a tick is in the report as `meaning (NAME, 500 times)`.
        let is_named = said.contains("the tick of CPU 3,") && said.contains(&format!("({name}, "));
        fact(&format!("{keeper} named"), if is_named { "yes" } else { "no" }, &[said]);
    }
}

/// Returns how many timer interrupts a second the report has, and how long the CPUs were quiet, seconds. A small rate is not shown.
fn reported(report: &str) -> Option<(f64, f64)> {
    let words: Vec<&str> = report.split_whitespace().collect();
    let before = |word: &str| {
        let at = words.iter().position(|one| *one == word)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    let length = words.windows(3).find(|part| part[..2] == ["quiet", "for"]).and_then(|part| part[2].parse().ok())?;
    report.contains("per second:").then(|| (before("LOC").unwrap_or(0.0), length))
}

fn sessions() {
    let _machine = Machine::new();
    let before = MachineState::read();
    let wrong = match both_orders() {
        Ok([first, last]) => {
            is_fine("first ends first", &first);
            is_fine("last ends first", &last);
            Vec::new()
        }
        Err(ended) => vec![format!("exit code {}: {}", ended.code, ended.printed)],
    };
    is_fine("all end well", &wrong);
    is_fine("restored", &not_restored(&before));
}

/// Begins a session, another one that stays, ends the first, and begins and ends it again. Returns what is wrong each time.
fn both_orders() -> Result<[Vec<String>; 2], Ended> {
    let first = Session::begin(&["--cpus", "2"])?;
    let stays = Session::begin(&["--cpus", "3"])?;
    let mut wrong = [first.wrong("2", "isolated"), stays.wrong("3", "isolated")].concat();
    first.end().well()?;
    wrong.extend(stays.wrong("3", "isolated"));
    let last = Session::begin(&["--cpus", "2"])?;
    let mut wrong_then = last.wrong("2", "isolated");
    last.end().well()?;
    wrong_then.extend(stays.wrong("3", "isolated"));
    stays.end().well()?;
    Ok([wrong, wrong_then])
}

fn apply() {
    let _machine = Machine::new().with_cpusets();
    let before = MachineState::read();
    let code = |name: &str, output: &Output| {
        fact(name, &output.status.code().unwrap_or(-1).to_string(), &[text(output)]);
    };
    code("apply", &cox(&["quiet", "apply", "--level", "tickless", "--cpus", "2-3"]));
    code("status", &cox(&["quiet", "status"]));
    // The first interrupt that lets itself be moved to a quiet CPU again.
    let now = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let was_moved = |path: &&PathBuf| path.ends_with("smp_affinity") && before.settings[*path] != now(path).trim();
    let mut moved = before.settings.keys().filter(was_moved).map(|path| (path, now(path)));
    let moved = moved.find(|(path, _)| fs::write(path, CPU_3).is_ok());
    let drifted = text(&cox(&["quiet", "status"]));
    let is_named =
        drifted.starts_with("exit code 1") && drifted.contains("interrupt") && drifted.contains("now CPUs 3,");
    is_fine("drift named", &if is_named { Vec::new() } else { vec![format!("{moved:?}"), drifted] });
    if let Some((path, now)) = moved {
        fs::write(path, now).unwrap();
    }
    code("undo", &cox(&["quiet", "undo"]));
    is_fine("restored", &not_restored(&before));
}

fn killed() {
    let _machine = Machine::new();
    for (name, with_guardian) in [("cox", false), ("cox and guardian", true)] {
        let before = MachineState::read();
        let session = match Session::begin(&["--cpus", "3"]) {
            Ok(session) => session,
            Err(ended) => {
                fact(&format!("{name} restored"), "not begun", &[ended.printed]);
                continue;
            }
        };
        let mut wrong = session.wrong("3", "isolated");
        if with_guardian {
            guardians::all().into_iter().for_each(kill);
        }
        kill(session.pid());
        if with_guardian {
            if before.differences(&MachineState::read()).is_empty() {
                wrong.push("somebody has restored everything before cox changes undo".to_owned());
            }
            let undone = cox(&["changes", "undo"]);
            if undone.status.code() != Some(0) {
                wrong.push(text(&undone));
            }
        }
        wrong.extend(not_restored(&before));
        session.end();
        is_fine(&format!("{name} restored"), &wrong);
    }
}

fn kills() {
    let _machine = Machine::new();
    let before = MachineState::read();
    let begin = Instant::now();
    let length = match Session::begin(&["--cpus", "3"]) {
        Ok(session) => {
            let length = begin.elapsed();
            session.end();
            length
        }
        Err(ended) => return fact("restored", "not begun", &[ended.printed]),
    };
    let mut wrong = Vec::new();
    for moment in 0..MOMENTS {
        let (mut child, _lines, _) = start(&["--cpus", "3"]);
        thread::sleep(length * 5 / 4 * moment / MOMENTS);
        let with_guardian = moment % 2 == 1;
        if with_guardian {
            guardians::all().into_iter().for_each(kill);
        }
        child.kill().unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        if with_guardian {
            // One that was started meanwhile.
            guardians::all().into_iter().for_each(kill);
            let undone = cox(&["changes", "undo"]);
            if undone.status.code() != Some(0) {
                wrong.push(text(&undone));
            }
        }
        let differences = not_restored(&before);
        wrong.extend(differences.iter().map(|line| format!("{moment} of {MOMENTS}: {line}")));
        if !differences.is_empty() {
            break;
        }
    }
    is_fine("restored", &wrong);
}

fn storm() {
    let mut machine = Machine::new();
    for (program, cgroup) in [("fork", ""), ("fork", "system.slice/a.service"), ("write", ""), ("write", "user.slice")]
    {
        machine.start(program, cgroup, None);
    }
    let before = MachineState::read();
    let mut wrong = Vec::new();
    for number in 0..SESSIONS {
        let cpus = if number % 2 == 0 { "3" } else { "2-3" };
        match Session::begin(&["--cpus", cpus]) {
            Ok(session) => {
                thread::sleep(Duration::from_millis(50) * (number % 5));
                wrong.extend(Some(session.end()).filter(|ended| ended.code != 0).map(|ended| ended.printed));
            }
            Err(ended) => wrong.push(ended.printed),
        }
        wrong.extend(machine.strays(&before));
        wrong.extend(not_restored(&before));
        if !wrong.is_empty() {
            wrong.push(format!("after session {} of {SESSIONS}", number + 1));
            break;
        }
        // If the time limit ends the job, this says how far it came.
        println!("session {} of {SESSIONS} ended well", number + 1);
    }
    is_fine("restored", &wrong);
}
