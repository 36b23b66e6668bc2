//! cox of an ordinary user: without eBPF, cox still makes an account, and the report says what is missing.
//!
//! The tests set kernel.perf_event_paranoid and restore it. At 2, the kernel's default, users may have perf records of their own threads. At 3,
//! kernels with Debian's patch refuse them; other kernels treat 3 like 2.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use machine::CpuSet;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testkit::run::{
    Account, COX, NOBODY, Ran, as_user, children, end_of, is_root, open_folder, path, preload_library,
    root_with_two_cpus, run, send, shell_code, turn, wait_for, workload,
};

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// An unprivileged user's place on a machine with a given kernel.perf_event_paranoid, which is put
/// back afterwards.
struct User {
    folder: TempDir,
    paranoid_before: String,
    _turn: File,
}

impl User {
    fn at(test: &str, paranoid: u32) -> Option<User> {
        if !is_root(test) {
            return None;
        }
        let turn = turn();
        let folder = open_folder();
        // Copies: others may not be able to enter the folders where these were built.
        for file in [COX, &workload("storm")] {
            give(&folder, file.as_ref());
        }
        let own = folder.path().join("own");
        fs::create_dir(&own).unwrap();
        std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
        let paranoid_before = fs::read_to_string(PARANOID).unwrap();
        fs::write(PARANOID, paranoid.to_string()).unwrap();
        Some(User { folder, paranoid_before, _turn: turn })
    }

    /// A command of that user, in a folder of his.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.arg("--no-new-privs").args(as_user(NOBODY)).args(words);
        command.current_dir(self.folder.path().join("own")).stdin(Stdio::null());
        command
    }

    /// A program with and without cox: same output and exit code. Returns what cox said and counted.
    fn both_ways(&self, backend: &str, program: &[&str]) -> (Ran, Account) {
        let plain = run(&mut self.command(program));
        let cox = path(&self.folder, "cox");
        let options = [&cox, "run", "--backend", backend, "--json", "cox.json", "--"];
        let observed = run(&mut self.command(&[&options, program].concat()));
        assert_eq!((observed.code, observed.text()), (plain.code, plain.text()), "{}", observed.stderr);
        let report = observed.stderr.strip_prefix(&plain.stderr).expect("the program's own errors come first");
        assert!(report.starts_with("cox: "), "{report}");
        let account = Account::read(self.folder.path().join("own/cox.json"));
        account.assert_sums();
        (observed, account)
    }

    /// `storm` with so many threads and sleepers.
    fn storm(&self, backend: &str, threads: &str) -> (Ran, Account) {
        let storm = path(&self.folder, "storm");
        self.both_ways(backend, &[&storm, "--threads", threads, "--sleepers", "20", "--seconds", "0.3"])
    }
}

/// Three threads that meet every 10 ms.
const REGIONS: [&str; 9] =
    ["--threads", "3", "--factor", "1", "--work-us", "10000", "--iterations-per-us", "500", "--seconds"];

impl User {
    /// `cox pack` of that user, with its report in a file of his.
    fn packs(&self, options: &[&str]) -> Command {
        let cox = path(&self.folder, "cox");
        let mut command = self.command(&[&[cox.as_str(), "pack", "--json", "cox.json"], options].concat());
        command.env("COX_CHANGES", self.folder.path().join("own/changes"));
        command
    }

    fn report(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.folder.path().join("own/cox.json")).unwrap()).unwrap()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        fs::write(PARANOID, self.paranoid_before.trim()).unwrap();
    }
}

#[test]
fn auto_falls_back_and_says_what_is_missing() {
    for paranoid in [2, 3] {
        let Some(user) = User::at("auto_falls_back_and_says_what_is_missing", paranoid) else { return };
        let (ran, account) = user.storm("auto", "100");
        assert!(["perf", "proc"].contains(&account.backend.as_str()), "{}", account.backend);
        assert!(paranoid > 2 || account.backend == "perf", "at 2 perf records are allowed: {}", ran.stderr);
        // Why not better.
        assert!(ran.stderr.contains("eBPF not used: ") && ran.stderr.contains("CAP_BPF"), "{}", ran.stderr);
        // What it cannot see is not made up.
        let causes: u64 = account.threads().flat_map(|thread| thread.blocked_by.values()).sum();
        let blocked: u64 = account.threads().map(|thread| thread.blocked_ns).sum();
        let unspecified: u64 = account.threads().filter_map(|thread| thread.blocked_by.get("unspecified")).sum();
        assert!(blocked > 0 && causes == unspecified, "{account:?}");
    }
}

#[test]
fn perf_follows_every_thread_and_process() {
    let Some(user) = User::at("perf_follows_every_thread_and_process", 2) else { return };
    let (_, account) = user.storm("perf", "500");
    assert_eq!(account.backend, "perf");
    assert_eq!(account.threads_counted(), 521, "{:?}", account.lost);
    let storm = path(&user.folder, "storm");
    let (_, account) = user.both_ways("perf", &[&storm, "--processes", "300"]);
    assert_eq!(account.threads_counted(), 301, "{:?}", account.lost);
}

#[test]
fn proc_follows_threads_that_live() {
    for paranoid in [2, 3] {
        let Some(user) = User::at("proc_follows_threads_that_live", paranoid) else { return };
        let (_, account) = user.storm("proc", "50");
        assert_eq!(account.backend, "proc");
        // Those that slept for 300 ms, and the main thread.
        let seen = account.threads().filter(|thread| thread.wall_ns > 200_000_000).count();
        assert_eq!(seen, 21, "{account:?}");
        // A busy thread's run time is the kernel's own.
        let (_, account) = user.both_ways("proc", &["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
        let thread = account.threads().max_by_key(|thread| thread.run_ns).unwrap();
        assert!(thread.run_ns + thread.preempt_wait_ns > thread.blocked_ns, "{thread:?}");
    }
}

#[test]
fn ends_are_the_programs_under_every_backend() {
    let Some(user) = User::at("ends_are_the_programs_under_every_backend", 2) else { return };
    for backend in ["perf", "proc"] {
        for (script, code) in [("echo out; echo err >&2; exit 3", 3), ("kill -9 $$", 137), ("exec sleep 0.05", 0)] {
            let (ran, _) = user.both_ways(backend, &["sh", "-c", script]);
            assert_eq!(ran.code, code);
        }
        let exec_thread = path(&user.folder, "storm");
        assert_eq!(user.both_ways(backend, &[&exec_thread, "--exec-thread"]).0.code, 7);
        let cox = path(&user.folder, "cox");
        let ran = run(user
            .command(&[&cox, "run", "--backend", backend, "--", "no-such-program"])
            .env("PATH", "/usr/bin:/bin"));
        assert_eq!((ran.code, ran.stderr.lines().count()), (127, 1), "{}", ran.stderr);
    }
}

#[test]
fn a_backend_that_is_not_allowed_starts_nothing() {
    let Some(user) = User::at("a_backend_that_is_not_allowed_starts_nothing", 2) else { return };
    let cox = path(&user.folder, "cox");
    let ran = run(&mut user.command(&[&cox, "run", "--backend", "bpf", "--", "touch", "started"]));
    assert_eq!(ran.code, 125);
    assert!(ran.stderr.starts_with("cox: ") && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("CAP_BPF"), "{}", ran.stderr);
    assert!(!user.folder.path().join("own/started").exists());
}

#[test]
fn running_processes_of_the_user_can_be_watched() {
    let Some(user) = User::at("running_processes_of_the_user_can_be_watched", 2) else { return };
    let storm = path(&user.folder, "storm");
    let mut program =
        user.command(&[&storm, "--sleepers", "10", "--seconds", "60"]).stdout(Stdio::null()).spawn().unwrap();
    let pid = program.id();
    wait_for("all threads", || (fs::read_dir(format!("/proc/{pid}/task")).ok()?.count() == 11).then_some(()));
    let cox = path(&user.folder, "cox");
    for backend in ["perf", "proc"] {
        let options = ["run", "-q", "--backend", backend, "--json", "cox.json", "--for", "300ms", "--pid"];
        let ran = run(&mut user.command(&[&[cox.as_str()], &options[..], &[&pid.to_string()]].concat()));
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{backend}");
        let account = Account::read(user.folder.path().join("own/cox.json"));
        account.assert_sums();
        assert_eq!(account.threads_counted(), 11, "{backend}");
    }
    send(pid, Signal::KILL);
    assert_eq!(shell_code(end_of(&mut program)), 137);
}

#[test]
fn cox_killed_leaves_the_program_alone_under_every_backend() {
    let Some(user) = User::at("cox_killed_leaves_the_program_alone_under_every_backend", 2) else { return };
    let cox = path(&user.folder, "cox");
    for backend in ["perf", "proc"] {
        let script =
            "echo started > mark; i=0; while [ $i -lt 30 ]; do sleep 0.01; i=$((i+1)); done; echo ended > mark";
        let mark = user.folder.path().join("own/mark");
        let mut child = user.command(&[&cox, "run", "--backend", backend, "--", "sh", "-c", script]).spawn().unwrap();
        wait_for("the program", || fs::read_to_string(&mark).ok().filter(|text| text == "started\n"));
        // setpriv has become cox.
        assert_eq!(children(child.id()).len(), 1);
        child.kill().unwrap();
        end_of(&mut child);
        wait_for("the program's end", || fs::read_to_string(&mark).ok().filter(|text| text == "ended\n"));
    }
}

/// Puts a copy there that everybody may use.
fn give(folder: &TempDir, file: &Path) -> String {
    let place = folder.path().join(file.file_name().unwrap());
    fs::copy(file, &place).unwrap();
    fs::set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
    place.into_os_string().into_string().unwrap()
}

/// A user without perf records, who packs an OpenMP program of his on two CPUs; the library is beside his cox.
struct Packs {
    user: User,
    /// Two of them, and the first one.
    cpus: String,
    first: String,
    program: String,
    library: String,
}

impl Packs {
    fn at(test: &str) -> Option<Packs> {
        let (cpus, library) = (root_with_two_cpus(test)?, preload_library(test)?);
        let user = User::at(test, 3)?;
        let (two, first) = (cpus.iter().take(2).collect::<CpuSet>().to_string(), cpus.first().unwrap().to_string());
        let program = give(&user.folder, workload("imbalance").as_ref());
        let library = give(&user.folder, &library);
        Some(Packs { user, cpus: two, first, program, library })
    }

    /// The program on both CPUs, which it counts, with the library and so many threads.
    fn start(&self, count: usize, words: &[&str]) -> Child {
        let pinned = ["taskset", "-c", &self.cpus, &self.program];
        let mut program = self.user.command(&[&pinned, words].concat());
        let program = program.env("LD_PRELOAD", &self.library).stdout(Stdio::null()).spawn().unwrap();
        wait_for("its threads", || (threads(program.id()) == count).then_some(()));
        program
    }
}

/// What the report says of a program of three threads that a user has packed.
fn assert_packed_through_proc(report: &Value) {
    let figure = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report}"));
    assert_eq!(report["backend"], "proc");
    assert_eq!((figure("threads"), figure("restored"), figure("preloaded")), (3, 3, 1), "{report}");
    assert!(figure("rotating_ns") > figure("wall_ns") / 2 && figure("moves") > 20, "{report}");
    // Three threads that work for longer than they wait, on CPUs that others may want too: what each ran is seen.
    let (run_ns, wall_ns) = (figure("run_ns"), figure("wall_ns"));
    assert!(run_ns > wall_ns / 2 && run_ns <= 2 * wall_ns, "{report}");
}

#[test]
fn a_user_packs_a_program_of_his() {
    let test = "a_user_packs_a_program_of_his";
    let Some(Packs { user, cpus, program, .. }) = Packs::at(test) else { return };
    let always = ["--always", "--cpus", &cpus, "--", &program];
    let ran = run(&mut user.packs(&[&always[..], &REGIONS, &["2"]].concat()));
    assert_eq!(ran.code, 0, "its work was checked: {}", ran.stderr);
    assert!(ran.stderr.contains("Observed through /proc") && ran.stderr.contains("eBPF not used: "), "{}", ran.stderr);
    let report = user.report();
    assert!(report["passed_over"].as_str().unwrap().contains("CAP_BPF"), "{report}");
    assert_packed_through_proc(&report);
    let refused = run(&mut user.packs(&["--backend", "bpf", "--cpus", &cpus, "--", "/bin/true"]));
    assert_eq!((refused.code, refused.stderr.lines().count()), (125, 1), "{}", refused.stderr);
    assert!(refused.stderr.contains("CAP_BPF"), "{}", refused.stderr);
}

#[test]
fn a_user_packs_a_program_of_his_that_runs() {
    let test = "a_user_packs_a_program_of_his_that_runs";
    let Some(packs) = Packs::at(test) else { return };
    let mut program = packs.start(3, &[&REGIONS[..], &["4"]].concat());
    let (Packs { user, cpus, .. }, pid) = (&packs, program.id().to_string());
    let ran = run(&mut user.packs(&["--always", "--cpus", cpus, "--pid", &pid, "--for", "2s"]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_packed_through_proc(&user.report());
    assert_eq!(shell_code(end_of(&mut program)), 0, "its work was checked");
}

/// A program that may not have a descriptor of that number: packed all the same, and what is not seen is said.
#[test]
fn a_library_that_cannot_be_read_is_named() {
    let test = "a_library_that_cannot_be_read_is_named";
    let Some(Packs { user, cpus, program, .. }) = Packs::at(test) else { return };
    let limited = ["--cpus", &cpus, "--", "prlimit", "--nofile=900", "--", &program];
    let ran = run(&mut user.packs(&[&limited[..], &REGIONS, &["2"]].concat()));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let report = user.report();
    assert_eq!((report["preloaded"].as_u64(), report["restored"].as_u64()), (Some(0), Some(3)), "{report}");
    assert!(report["unread"][0].as_str().is_some_and(|why| why.contains("memory")), "{report}");
    assert!(
        report["diagnostics"].as_array().unwrap().is_empty()
            && ran.stderr.contains("cannot tell which threads wait at barriers"),
        "{}",
        ran.stderr
    );
}

/// Packed onto fewer CPUs than it has counted, a program's libgomp is given threads that sleep: no work of its own.
#[test]
fn what_keeps_a_users_libgomp_from_spinning_is_not_packed() {
    let test = "what_keeps_a_users_libgomp_from_spinning_is_not_packed";
    let Some(packs) = Packs::at(test) else { return };
    let regions = ["--threads", "2", "--factor", "1", "--work-us", "200", "--iterations-per-us", "500"];
    let mut program = packs.start(2, &[&regions[..], &["--seconds", "5"]].concat());
    let (Packs { user, first, .. }, pid) = (&packs, program.id().to_string());
    let ran = run(&mut user.packs(&["--always", "--cpus", first, "--pid", &pid, "--for", "2s"]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let report = user.report();
    assert_eq!((&report["spin_throttled"], &report["threads"]), (&1.into(), &2.into()), "{report}");
    assert_eq!(shell_code(end_of(&mut program)), 0, "its work was checked");
}

fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// The kernel takes perf's events from a program that its user may execute and not read.
#[test]
fn programs_that_may_not_be_read_are_seen_by_proc_or_said_to_be_unseen() {
    let test = "programs_that_may_not_be_read_are_seen_by_proc_or_said_to_be_unseen";
    let Some(user) = User::at(test, 2) else { return };
    let storm = path(&user.folder, "storm");
    fs::set_permissions(&storm, fs::Permissions::from_mode(0o711)).unwrap();
    let program = [storm.as_str(), "--threads", "20", "--sleepers", "3", "--seconds", "0.4"];

    // By itself cox takes what sees it, and says why.
    let (ran, account) = user.both_ways("auto", &program);
    assert_eq!(account.backend, "proc");
    assert!(ran.stderr.contains("may execute it but not read it"), "{}", ran.stderr);
    assert!(account.threads().any(|thread| thread.run_ns > 1_000_000), "{account:?}");

    // perf by name is refused before anything starts.
    let cox = path(&user.folder, "cox");
    let refused = run(&mut user.command(&[&[cox.as_str(), "run", "--backend", "perf", "--"][..], &program].concat()));
    assert_eq!((refused.code, refused.text().as_str()), (125, ""));
    assert!(refused.stderr.contains("may execute it but not read it"), "{}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);

    // Where another program executes it, that is known only then: the thread counts as one that could not be followed.
    let (ran, account) = user.both_ways("perf", &["sh", "-c", &format!("{}; true", program.join(" "))]);
    assert_eq!(account.lost.members, 1, "{account:?}");
    assert!(ran.stderr.contains("1 thread could not be tracked"), "{}", ran.stderr);
    // A program that is over at once is none of these.
    let (_, account) = user.both_ways("perf", &["sh", "-c", "true; /bin/true; true"]);
    assert_eq!(account.lost.members, 0, "{account:?}");
}
