//! Stages a situation under `cox run`, and measures it when the machine is otherwise idle.
//!
//! If other programs use the machine, another verdict is right, because they or the hypervisor take the CPUs. So the program and cox run at a higher
//! priority than all others, and a run that was disturbed is repeated when the machine is quiet.

mod judged;
mod situation;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

pub use crate::group::Group;
pub use judged::Judged;
pub use situation::Situation;

use crate::built::{COX, TARGET};
use crate::measured::{Bench, bench};
use crate::skip::{Need, skip};
use situation::QUIET;

/// Maximum number of runs of one situation.
const RUNS: usize = 5;

/// Total time that all situations together may wait for the machine to become quiet.
static PATIENCE: Mutex<Duration> = Mutex::new(Duration::from_secs(25));

/// Time for which the machine is observed to find out whether it is quiet.
const LOOK: Duration = Duration::from_millis(200);

/// Starts a command line in a new session and with a higher priority than all others. The session has its own autogroup: the kernel first shares the
/// CPUs among autogroups, then among the threads of each. `$0` is a control group's file of tasks to join, or empty.
const AHEAD: &str = "test -z \"$0\" || echo $$ > \"$0\" || exit 125
    { echo -15 > /proc/self/autogroup; } 2>/dev/null
    exec nice -n -15 \"$@\"";

/// The measuring lock for a test that stages situations.
pub struct Stage {
    bench: Bench,
    test: String,
    /// Number of CPUs of the machine; the test may use all of them.
    pub cpus: usize,
}

impl Stage {
    /// Waits for the lock. If the machine cannot run the test, skips it and returns `None`.
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

    /// Returns the temporary folder.
    pub fn folder(&self) -> &Path {
        self.bench.folder()
    }

    /// Prints that a part of the test is skipped.
    pub fn skip(&self, need: Need, reason: &str) {
        skip(&self.test, need, reason);
    }

    /// Runs a situation for which the headline should be one of `right`, and returns cox's output. A right verdict counts even if the machine was
    /// busy; a wrong one counts only if the machine was quiet. Returns `None` if the machine never became quiet.
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

/// Returns the path of the workload with this name, or the word itself if there is none.
fn workload(word: &str) -> String {
    let path = Path::new(TARGET).join("workloads").join(word);
    if word.contains('/') || !path.is_file() { word.to_owned() } else { path.display().to_string() }
}

/// Returns a command with a higher priority than all others.
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

/// One thread per CPU, with the same priority as the program.
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
        // The session's leader is timeout, which forwards the signal.
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

/// Waits until the machine is quiet. Returns false if the waiting time is used up.
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

/// Returns the busy ticks and the total ticks of all CPUs.
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
