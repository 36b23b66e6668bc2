//! The jobs. Each prints its facts.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use testkit::machine_state::MachineState;

use crate::machine::{CGROUPS, Machine, own};
use crate::session::{Session, cox, guardians, kill, not_restored, start, text};
use crate::{fact, is_fine};

/// At most so many timer interrupts come to a CPU without a tick each second.
const TICKLESS_PER_S: f64 = 2.0;
/// At least so many come to one with a tick. The kernels have 250, but an emulated CPU gets them only when it is its turn.
const TICKS_PER_S: f64 = 20.0;
/// How long a tick is looked for, seconds.
const ALONE_S: &str = "5";
const SHARED_S: &str = "2";
/// Sessions of the storm, and moments at which one is killed.
const SESSIONS: u32 = 20;
const MOMENTS: u32 = 24;

/// Runs a job. Returns whether there is one with this name.
pub fn run(job: &str) -> bool {
    match job {
        "run" => programs(),
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

fn programs() {
    let mut machine = Machine::new();
    for (name, cpus, options, partition) in [
        ("one CPU", "3", &[][..], "isolated"),
        ("two CPUs", "2-3", &[], "root"),
        ("two isolated CPUs", "2-3", &["--isolated"], "isolated"),
    ] {
        let before = MachineState::read();
        let ended = match Session::begin(&[&["--cpus", cpus], options].concat()) {
            Ok(session) => {
                is_fine(&format!("{name} quiet"), &session.wrong(cpus, partition));
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
}

fn tick() {
    for (name, seconds, threads) in [("alone", ALONE_S, "1"), ("shared", SHARED_S, "2")] {
        let program = own(&["spin", seconds, threads]);
        let program = [vec![program.get_program()], program.get_args().collect()].concat();
        let mut words: Vec<&str> = "quiet --cpus 3 --level tickless --".split(' ').collect();
        words.extend(program.iter().filter_map(|word| word.to_str()));
        let output = cox(&words);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let figures: Vec<f64> = printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [count, time] = figures[..] else {
            fact(name, "none", &[text(&output)]);
            continue;
        };
        let rate = count / time;
        let reason = [format!("{rate:.1} timer interrupts a second"), text(&output)];
        let value = if rate <= TICKLESS_PER_S {
            "off"
        } else if rate >= TICKS_PER_S {
            "on"
        } else {
            "between"
        };
        fact(name, value, &reason);
        let agrees = reported(&reason[1]).is_some_and(|(per_s, length)| {
            // The report counts from before the program's first instruction to after its last one, and rounds.
            let (least, most) = (per_s - 0.05, per_s + 0.15);
            least * length <= count + 250.0 * (length - time) + 1.0 && most * length >= count
        });
        fact(&format!("{name} reported"), if agrees { "yes" } else { "no" }, &reason);
    }
}

/// Returns how many timer interrupts a second the report has, and how long the CPUs were quiet, seconds. A small rate is not shown.
fn reported(report: &str) -> Option<(f64, f64)> {
    let words: Vec<&str> = report.split_whitespace().collect();
    let before = |word: &str| {
        words.iter().position(|one| *one == word).and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok())
    };
    let length = words.windows(3).find(|part| part[..2] == ["quiet", "for"]).and_then(|part| part[2].parse().ok())?;
    report.contains("per second:").then(|| (before("LOC").unwrap_or(0.0), length))
}

fn sessions() {
    let _machine = Machine::new();
    for (name, first_ends_first) in [("first ends first", true), ("last ends first", false)] {
        let before = MachineState::read();
        let mut wrong = Vec::new();
        match (Session::begin(&["--cpus", "2"]), Session::begin(&["--cpus", "3"])) {
            (Ok(one), Ok(other)) => {
                wrong.extend(one.wrong("2", "isolated"));
                wrong.extend(other.wrong("3", "isolated"));
                let (ends, stays, cpus) = if first_ends_first { (one, other, "3") } else { (other, one, "2") };
                let ended = ends.end();
                if ended.code != 0 {
                    wrong.push(ended.printed);
                }
                wrong.extend(stays.wrong(cpus, "isolated"));
                let ended = stays.end();
                if ended.code != 0 {
                    wrong.push(ended.printed);
                }
            }
            (one, other) => {
                for ended in [one, other].into_iter().map(|session| session.map_or_else(|ended| ended, Session::end)) {
                    wrong.push(format!("exit code {}: {}", ended.code, ended.printed));
                }
            }
        }
        is_fine(name, &wrong);
        is_fine(&format!("{name} restored"), &not_restored(&before));
    }
}

fn apply() {
    let _machine = Machine::new();
    let before = MachineState::read();
    let applied = cox(&["quiet", "apply", "--cpus", "2-3"]);
    fact("apply", &applied.status.code().unwrap_or(-1).to_string(), &[text(&applied)]);
    let status = || cox(&["quiet", "status"]);
    fact("status", &status().status.code().unwrap_or(-1).to_string(), &[text(&status())]);
    // The first interrupt that lets itself be moved to a quiet CPU.
    let moved = before.settings.keys().filter(|path| path.starts_with("/proc/irq") && path.ends_with("smp_affinity"));
    let moved = moved.filter_map(|path| Some((path, fs::read_to_string(path).ok()?)));
    let moved = moved.filter(|(path, now)| before.settings[*path] != now.trim() && fs::write(path, "8").is_ok()).next();
    let drifted = status();
    let (path, now) = moved.expect("an interrupt was moved");
    let said = text(&drifted);
    let is_named = drifted.status.code() == Some(1)
        && said.lines().any(|line| line.contains("interrupt") && line.contains("now CPUs 3"));
    is_fine("drift named", &if is_named { Vec::new() } else { vec![path.display().to_string(), said] });
    fs::write(path, now).unwrap();
    let undone = cox(&["quiet", "undo"]);
    fact("undo", &undone.status.code().unwrap_or(-1).to_string(), &[text(&undone)]);
    is_fine("restored", &not_restored(&before));
}

fn killed() {
    let _machine = Machine::new();
    for (name, with_guardian) in [("cox", false), ("cox and guardian", true)] {
        let before = MachineState::read();
        let session = match Session::begin(&["--cpus", "3"]) {
            Ok(session) => session,
            Err(ended) => {
                fact(name, "not begun", &[ended.printed]);
                continue;
            }
        };
        let mut wrong = Vec::new();
        if with_guardian {
            guardians().into_iter().for_each(kill);
        }
        kill(session.pid());
        if with_guardian {
            // Otherwise the check could not fail.
            if before.differences(&MachineState::read()).is_empty() {
                wrong.push("nothing was changed".to_owned());
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
            guardians().into_iter().for_each(kill);
        }
        child.kill().unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        if with_guardian {
            // One that was started meanwhile.
            guardians().into_iter().for_each(kill);
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
    }
    is_fine("restored", &wrong);
    assert!(fs::read_dir(CGROUPS).is_ok());
}
