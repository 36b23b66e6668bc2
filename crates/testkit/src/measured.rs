//! Runs a program under `cox run`, for tests that compare its account with other measurements.
//!
//! Measuring tests run one after the other, also across test programs: each holds a lock while it runs.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ledger::account::Thread;
use report::Document;
use serde_json::Value;
use tempfile::TempDir;

use crate::built::{COX, TARGET, temporary, turn, without_make, workload};
use crate::skip::{Need, is_root, skip};

/// Environment variable of a test program that runs again for another user: that user's folder, which contains the workloads.
pub const FOLDER: &str = "COX_TEST_FOLDER";
/// Environment variable of such a test program: the words of the command that starts that user's cox, one per line.
pub const COMMAND: &str = "COX_TEST_COMMAND";

/// The number of CPUs on which the kernel's run delay has the same meaning as cox's time waiting for a CPU. On more CPUs they differ:
///
/// - A thread that is woken on another, idle CPU is put on that CPU's run queue only when the CPU has left idle and handled the interrupt. This takes
///   20 to 60 us in a virtual machine; cox counts it as waiting, the kernel does not.
/// - Since Linux 6.12 a blocked thread may stay on its run queue for a while (delayed dequeue). If the load balancer then moves the thread, the
///   kernel counts the rest of its sleep as run delay.
pub const ONE_CPU: usize = 1;

/// A measuring test's lock and its temporary folder.
pub struct Bench {
    folder: TempDir,
    _turn: File,
}

/// The output of `cox run` for a program that exited with 0.
pub struct Seen {
    /// The JSON, unparsed.
    pub json: Value,
    /// The JSON, parsed.
    pub document: Document,
    /// The report on stderr.
    pub report: String,
    /// The program's own output.
    pub stdout: String,
}

/// Waits for the lock. If the machine cannot run the test, skips it and returns `None`.
pub fn bench(test: &str) -> Option<Bench> {
    if !is_root(test) {
        return None;
    }
    let turn = turn();
    // Builds all workloads.
    let _ = workload("");
    let folder = match std::env::var_os(FOLDER) {
        None => TempDir::new_in(temporary()),
        Some(place) => tempfile::Builder::new().permissions(Permissions::from_mode(0o777)).tempdir_in(place),
    };
    let folder = folder.expect("create a folder");
    if std::env::var_os(FOLDER).is_some() {
        // Set the permissions again, because the umask has restricted them.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("chmod");
    }
    Some(Bench { folder, _turn: turn })
}

impl Bench {
    /// The test's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a program under cox. `within` is a command line that starts cox, to put cox and the program into some environment; it may be empty.
    pub fn watch<S: AsRef<OsStr>>(&self, within: &[String], program: &[S]) -> Seen {
        self.watch_by("bpf", within, program)
    }

    /// Same as [`Bench::watch`], with this backend.
    pub fn watch_by<S: AsRef<OsStr>>(&self, backend: &str, within: &[String], program: &[S]) -> Seen {
        let json = self.folder().join("cox.json");
        let cox = std::env::var(COMMAND).unwrap_or_else(|_| COX.to_owned());
        // A time limit makes a hanging test fail; cox forwards the signal to the program.
        let mut command = Command::new("timeout");
        command.args(["--foreground", "120"]).args(within).args(cox.split('\n'));
        command.args(["run", "--backend", backend, "--json"]).arg(&json).arg("--").args(program);
        command.current_dir(self.folder());
        let output = without_make(&mut command).output().expect("start cox");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
        let report = stderr.find("cox: ").map(|at| stderr[at..].to_owned()).expect("a report on stderr");
        let text = fs::read_to_string(&json).expect("read the account");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let document = serde_json::from_str(&text).expect("a document");
        Seen { json, document, report, stdout }
    }

    /// Runs a workload under cox. Also returns the truth that the workload wrote.
    pub fn watch_workload(&self, within: &[String], name: &str, arguments: &[&str]) -> (Seen, Value) {
        self.watch_workload_in(within, &[], name, arguments)
    }

    /// Same as [`Bench::watch_workload`], but cox starts the command `inside`, which starts the workload.
    pub fn watch_workload_in(
        &self,
        within: &[String],
        inside: &[&str],
        name: &str,
        arguments: &[&str],
    ) -> (Seen, Value) {
        let truth = self.folder().join("truth.json");
        let mut program: Vec<OsString> = inside.iter().map(OsString::from).collect();
        let workloads = std::env::var_os(FOLDER).unwrap_or_else(|| format!("{TARGET}/workloads").into());
        program.push(Path::new(&workloads).join(name).into_os_string());
        program.extend(arguments.iter().map(OsString::from));
        program.extend(["--truth".into(), truth.clone().into_os_string()]);
        let seen = self.watch(within, &program);
        (seen, serde_json::from_slice(&fs::read(&truth).expect("read the truth")).expect("JSON"))
    }
}

/// Returns a command line that starts another one on the first `count` CPUs, or nothing if there are no more CPUs than that.
pub fn on_cpus(count: usize) -> Vec<String> {
    let allowed = rustix::thread::sched_getaffinity(None).expect("sched_getaffinity");
    let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let cpus: Vec<String> = cpus.take(count + 1).map(|cpu| cpu.to_string()).collect();
    if cpus.len() <= count { Vec::new() } else { vec!["taskset".into(), "-c".into(), cpus[..count].join(",")] }
}

impl Seen {
    /// Returns all threads of all processes.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.document.account.programs.iter().flat_map(|p| &p.processes).flat_map(|p| &p.threads)
    }

    /// Returns the thread with this thread ID, as the thread itself sees it.
    pub fn thread(&self, tid: u64) -> &Thread {
        let own = |thread: &&Thread| u64::from(thread.inner_tid.unwrap_or(thread.tid)) == tid;
        self.threads().find(own).unwrap_or_else(|| panic!("no thread {tid}"))
    }

    /// Returns violations of the invariants of every run: no events were lost, and no thread's time is unknown. Since every thread started under cox,
    /// at most 0.1 % of its wall time may be unknown.
    pub fn faults(&self) -> Vec<String> {
        let account = &self.document.account;
        let mut faults = Vec::new();
        if self.document.lost_events > 0 {
            faults.push(format!("lost: {:?}", account.lost));
        }
        for thread in self.threads() {
            if thread.unknown_ns * 1000 > thread.wall_ns {
                let Thread { tid, comm, unknown_ns, wall_ns, .. } = thread;
                faults.push(format!("{tid} {comm}: {unknown_ns} ns of {wall_ns} ns unknown"));
            }
            if thread.impossible > 0 {
                faults.push(format!("{} {}: {} impossible events", thread.tid, thread.comm, thread.impossible));
            }
        }
        faults
    }

    /// Checks the times by number of CPUs that were busy with the only program. They sum to its wall time, and multiplied by the numbers to the run time of
    /// its threads. A child's last switch may come some µs after the end of the process that waited for it, and thus of the program.
    pub fn busy_faults(&self) -> Vec<String> {
        let program = &self.document.account.programs[0];
        let Some(times) = &program.busy_cpus_ns else { return vec!["no busy_cpus_ns".to_owned()] };
        let all_ns: u64 = times.iter().sum();
        let busy_ns: u64 = (0..).zip(times).map(|(cpus, ns): (u64, _)| cpus * ns).sum();
        let run_ns: u64 = self.threads().chain(&program.unlisted).map(|thread| thread.run_ns).sum();
        let wall_ns = program.wall_ns + all_ns.saturating_sub(program.wall_ns).min(50_000);
        let sums = [("wall time", all_ns, wall_ns), ("run time", busy_ns, run_ns)];
        let differ = sums.into_iter().filter(|(_, ours_ns, whole_ns)| ours_ns != whole_ns);
        differ
            .map(|(what, ours_ns, whole_ns)| format!("{times:?} have {ours_ns} ns, {what} is {whole_ns} ns"))
            .collect()
    }
}

/// Returns a number from a workload's truth.
pub fn number(truth: &Value, key: &str) -> u64 {
    truth[key].as_u64().unwrap_or_else(|| panic!("no {key} in {truth}"))
}

/// Returns the threads from a workload's truth.
pub fn threads_of(truth: &Value) -> &[Value] {
    truth["threads"].as_array().expect("threads in the truth")
}

/// Fails if `attempt` finds faults. If the hypervisor took a CPU meanwhile (steal), clocks that are read one after the other disagree: then the
/// attempt is repeated after a pause, up to eight times. Without steal, the first attempt counts.
pub fn assert_undisturbed(mut attempt: impl FnMut() -> Vec<String>) {
    for _ in 0..8 {
        let before = stolen_ticks();
        let faults = attempt();
        let stolen = stolen_ticks() - before;
        if faults.is_empty() || stolen == 0 {
            return assert_none(&faults);
        }
        println!("again: the hypervisor took {stolen} ticks: {}", faults.join("\n"));
        sleep(Duration::from_secs(1));
    }
    assert_none(&attempt());
}

/// Fails if `attempt` finds faults although other programs and the hypervisor left it the CPUs. If they used more than 5 % of the CPUs meanwhile, the
/// attempt is repeated after a pause, up to eight times; then the test is skipped, because it needs a quiet machine. For what cox promises only while CPUs are idle.
pub fn assert_on_idle_cpus(test: &str, mut attempt: impl FnMut() -> Vec<String>) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let by_others = || (all_cpu_time() + stolen()).saturating_sub(own_cpu_time());
    for _ in 0..8 {
        let (before, begun) = (by_others(), Instant::now());
        let faults = attempt();
        let others = by_others().saturating_sub(before);
        let share = others.as_secs_f64() / (begun.elapsed().as_secs_f64() * cpus);
        if faults.is_empty() || share < 0.05 {
            return assert_none(&faults);
        }
        println!("again: others used {:.0} % of the CPUs: {}", share * 100.0, faults.join("\n"));
        sleep(Duration::from_millis(200));
    }
    skip(test, Need::Quiet, "other programs or the hypervisor use the CPUs");
}

/// Returns the CPU time that all programs of the machine have used.
fn all_cpu_time() -> Duration {
    let busy_ns = machine::busy::busy_ns(&machine::Root::live()).expect("read /proc/stat");
    Duration::from_nanos(busy_ns.values().sum())
}

/// Returns the CPU time that this process and its ended children have used.
fn own_cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("read /proc/self/stat");
    // The name is in parentheses, and may contain spaces. Behind it, utime is the twelfth field; stime, cutime and cstime follow.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(11).take(4);
    of_ticks(fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum())
}

/// Returns the ticks of hypervisor steal over all CPUs: the eighth number in /proc/stat.
fn stolen_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("read /proc/stat");
    let ticks = stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok());
    ticks.expect("a number in /proc/stat")
}

/// Returns the hypervisor steal over all CPUs.
pub fn stolen() -> Duration {
    of_ticks(stolen_ticks())
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32
}

/// Fails if there are faults, and prints all of them.
pub fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
