//! A staged situation under `cox run`, measured when nobody else uses the machine.
//!
//! On a machine that others use as well another verdict is right: they take the CPUs, or the hypervisor
//! does. So the program and cox run ahead of everybody else, and a run that others were busy beside is
//! measured again when the machine has become quiet.

mod group;
mod judged;
mod situation;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

pub use group::Group;
pub use judged::Judged;
pub use situation::Situation;

use crate::built::{COX, TARGET};
use crate::measured::{Bench, bench};
use crate::skip::{Need, skip};
use situation::QUIET;

/// Runs of one situation.
const RUNS: usize = 5;

/// What all situations together may wait for the machine to become quiet.
static PATIENCE: Mutex<Duration> = Mutex::new(Duration::from_secs(25));

/// The machine is looked at for this long to see whether it is quiet.
const LOOK: Duration = Duration::from_millis(200);

/// Starts a command line in a session of its own, ahead of all others: the kernel shares CPUs among
/// sessions first (autogroups) and only then among the threads of one. `$0`: the list of a control
/// group's tasks to join, or nothing.
const AHEAD: &str = "test -z \"$0\" || echo $$ > \"$0\" || exit 125
    { echo -15 > /proc/self/autogroup; } 2>/dev/null
    exec nice -n -15 \"$@\"";

/// The machine to itself, for one test; `None`, and a line that says why, where the test cannot be run.
pub struct Stage {
    bench: Bench,
    test: String,
    /// CPUs of the machine, all of which the test may use.
    pub cpus: usize,
}

impl Stage {
    /// Waits for its turn.
    pub fn set(test: &str) -> Option<Stage> {
        let allowed = rustix::thread::sched_getaffinity(None).expect("sched_getaffinity").count() as usize;
        let online = cpus_online();
        if allowed < 2 || allowed < online {
            skip(
                test,
                Need::Cpus,
                format_args!("needs all CPUs of a machine with two or more, may use {allowed} of {online}"),
            );
            return None;
        }
        Some(Stage { bench: bench(test)?, test: test.to_owned(), cpus: allowed })
    }

    /// A folder that goes away.
    pub fn folder(&self) -> &Path {
        self.bench.folder()
    }

    /// A part of the test does not run.
    pub fn skip(&self, need: Need, reason: &str) {
        skip(&self.test, need, reason);
    }

    /// What cox says about a situation in which `right` would be the headline. A verdict that is right in
    /// spite of a busy machine stands; a wrong one counts only when the machine was quiet. `None` when it
    /// never was.
    pub fn judge(&self, situation: &Situation, right: &[&str]) -> Option<Judged> {
        let mut disturbed = Vec::new();
        for _ in 0..RUNS {
            let judged = self.run(situation);
            let disturbance = judged.disturbance(situation);
            let headline = judged.headline();
            let by = disturbance.as_deref().unwrap_or("nobody");
            println!("{}: {}, disturbed by: {by}\n{}", self.test, situation.program.join(" "), judged.summary());
            if right.contains(&headline.as_str()) {
                return Some(judged);
            }
            let Some(disturbance) = disturbance else { return Some(judged) };
            disturbed.push(format!("{headline} beside {disturbance}"));
            if !wait_for_quiet() {
                break;
            }
        }
        self.skip(Need::Quiet, &format!("the machine was never quiet: {}", disturbed.join(", ")));
        None
    }

    fn run(&self, situation: &Situation) -> Judged {
        let _hogs = situation.hogs.then(|| Hogs::start(self.cpus));
        let json = self.folder().join("cox.json");
        let mut words = situation.outside.clone();
        words.extend([COX, "run", "-q", "--backend", "bpf", "--json"].map(String::from));
        words.extend([json.display().to_string(), "--".to_owned()]);
        words.extend(situation.program.iter().map(|word| workload(word)));
        let mut command = ahead(situation.group.as_ref(), &words);
        command.envs(situation.environment.iter().copied()).current_dir(self.folder());
        let output = command.output().expect("start cox");
        assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        Judged::read(&fs::read_to_string(&json).expect("read the account"))
    }
}

/// The path of a workload of this name, else the word itself.
fn workload(word: &str) -> String {
    let path = Path::new(TARGET).join("workloads").join(word);
    if word.contains('/') || !path.is_file() { word.to_owned() } else { path.display().to_string() }
}

/// A command that runs ahead of everybody else.
fn ahead(group: Option<&Group>, words: &[String]) -> Command {
    let mut command = Command::new("setsid");
    let tasks = group.map_or(String::new(), |group| group.tasks().display().to_string());
    command.args(["--wait", "timeout", "60", "sh", "-c", AHEAD]).arg(tasks).args(words);
    for variable in advise::Facts::VARIABLES.iter().chain(&["MAKEFLAGS", "MFLAGS"]) {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

/// A thread on each CPU, with the same right to it as the program.
struct Hogs(Child);

impl Hogs {
    fn start(cpus: usize) -> Hogs {
        let last = (cpus - 1).to_string();
        let words = ["hog", "--threads", &cpus.to_string(), "--cpu", &format!("0-{last}"), "--seconds", "30"];
        let words = words.map(workload);
        Hogs(ahead(None, &words).stdout(Stdio::null()).spawn().expect("start hog"))
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        // The session's leader is timeout, which hands the signal down.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        self.0.wait().expect("wait for hog");
    }
}

fn cpus_online() -> usize {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").expect("read the CPUs that are online");
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        last.parse::<usize>().expect("a CPU") - first.parse::<usize>().expect("a CPU") + 1
    };
    list.trim().split(',').map(range).sum()
}

/// Waits until the machine is quiet; false when patience has run out.
fn wait_for_quiet() -> bool {
    let mut patience = PATIENCE.lock().expect("a test that waits does not panic");
    let begin = Instant::now();
    while begin.elapsed() < *patience {
        let before = busy_and_all();
        thread::sleep(LOOK);
        let after = busy_and_all();
        if (after.0 - before.0) as f64 <= QUIET * (after.1 - before.1) as f64 {
            *patience = patience.saturating_sub(begin.elapsed());
            return true;
        }
    }
    *patience = Duration::ZERO;
    false
}

/// Clock ticks that the CPUs were busy, and that they had.
fn busy_and_all() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/stat").expect("read /proc/stat");
    let ticks: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .take(8)
        .map_while(|n| n.parse().ok())
        .collect();
    let all = ticks.iter().sum();
    // user nice system idle iowait …: proc(5).
    (all - ticks[3] - ticks[4], all)
}
