//! Attaching to running programs: `--pid` and `--cgroup` do not disturb them, and know from the start why their sleeping threads are blocked.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use testkit::run::{
    Account, COX, Ran, children, command, end_of, innermost, is_root, open_folder, path, run, send, shell_code, state,
    wait_for, workload,
};

/// A running program that is ended with the test.
struct Watched(Child);

impl Watched {
    fn start(program: &[&str]) -> Watched {
        Watched(command(None, program).stdout(Stdio::null()).spawn().unwrap())
    }

    fn threads(&self) -> usize {
        threads_of(self.0.id())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn threads_of(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// `cox run -q --json` with these options and no program.
fn watch(options: &[&str]) -> (Ran, Account) {
    let folder = open_folder();
    let json = path(&folder, "cox.json");
    let ran = run(Command::new(COX).args(["run", "-q", "--json", &json]).args(options).stdin(Stdio::null()));
    assert_eq!((ran.code, ran.text().as_str(), ran.stderr.as_str()), (0, "", ""));
    (ran, Account::read(json))
}

#[test]
fn sleeping_threads_are_known_from_the_start() {
    if !is_root("sleeping_threads_are_known_from_the_start") {
        return;
    }
    sleeping_threads_are_known(&[]);
}

#[test]
fn threads_in_a_container_are_known_outside() {
    let test = "threads_in_a_container_are_known_outside";
    if is_root(test) && testkit::container::can_have_containers(test) {
        sleeping_threads_are_known(&testkit::container::CONTAINER);
    }
}

/// Of a program that is started inside of what another command makes.
fn sleeping_threads_are_known(inside: &[&str]) {
    let program = [&workload("storm"), "--sleepers", "60", "--seconds", "3"];
    let mut started = Watched::start(&[inside, &program].concat());
    let pid = innermost(started.0.id(), inside);
    wait_for("all threads", || (threads_of(pid) == 61).then_some(()));
    let (_, account) = watch(&["--pid", &pid.to_string(), "--for", "500ms"]);
    account.assert_sums();
    assert_eq!(account.threads_counted(), 61);
    for thread in account.threads() {
        let cause = if thread.tid == pid { "futex" } else { "sleep" };
        let known_ns = thread.blocked_by.get(cause).copied().unwrap_or(0);
        assert!(thread.alive && known_ns as f64 > 0.95 * thread.wall_ns as f64, "{cause}: {thread:?}");
    }
    assert_eq!(shell_code(end_of(&mut started.0)), 0, "the program went on as before");
}

#[test]
fn threads_that_switch_are_soon_known() {
    if !is_root("threads_that_switch_are_soon_known") {
        return;
    }
    let barriers = Watched::start(&[&workload("barriers"), "--threads", "3", "--seconds", "60"]);
    wait_for("all threads", || (barriers.threads() == 3).then_some(()));
    let (_, account) = watch(&["--pid", &barriers.0.id().to_string(), "--for", "500ms"]);
    account.assert_sums();
    assert_eq!(account.threads_counted(), 3);
    let (unknown_ns, wall_ns) =
        account.threads().fold((0, 0), |(unknown, wall), t| (unknown + t.unknown_ns, wall + t.wall_ns));
    assert!(unknown_ns as f64 <= 0.2 * wall_ns as f64, "{account:?}");
    assert!(account.threads().all(|thread| thread.run_ns > 0 && thread.blocked_by.contains_key("futex")));
    assert!(state(barriers.0.id()).is_some());
}

#[test]
fn a_watch_ends_with_what_it_watches() {
    if !is_root("a_watch_ends_with_what_it_watches") {
        return;
    }
    // Nobody waits for it before the watch has ended: it stays a zombie.
    let sleep = Watched::start(&["sleep", "0.8"]);
    let (_, account) = watch(&["--pid", &sleep.0.id().to_string()]);
    account.assert_sums();
    let thread = account.threads().next().unwrap();
    assert!(!thread.alive && thread.blocked_by.contains_key("sleep"), "{thread:?}");
}

#[test]
fn a_watch_under_nohup_outlives_its_terminal() {
    let watched = Watched::start(&["sleep", "60"]);
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    let pid = watched.0.id().to_string();
    let cox = ["-c", script, COX, "run", "--pid", &pid, "--for", "700ms", "--json", "-", "-q"];
    let watch = Command::new("sh").args(cox).stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(350));
    send(watch.id(), Signal::HUP);
    let output = watch.wait_with_output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let window_ns = document["window_ns"].as_u64().unwrap();
    assert!(output.status.success() && window_ns >= 700_000_000, "{window_ns} ns");
}

#[test]
fn several_processes_and_their_children() {
    if !is_root("several_processes_and_their_children") {
        return;
    }
    let forking = ["sh", "-c", "while :; do sleep 0.02; done"];
    let (one, two) = (Watched::start(&forking), Watched::start(&["sleep", "60"]));
    let pids = [one.0.id().to_string(), two.0.id().to_string()];
    let options = ["--pid", &pids[0], "--pid", &pids[1], "--for", "400ms"];
    wait_for("its first child", || (!children(one.0.id()).is_empty()).then_some(()));
    let (_, account) = watch(&options);
    account.assert_sums();
    let processes = &account.programs[0].processes;
    for pid in [one.0.id(), two.0.id()] {
        assert!(processes.iter().any(|process| process.pid == pid), "{account:?}");
    }
    assert!(processes.len() > 2, "children born during the watch: {account:?}");
    let (_, account) = watch(&[&options[..], &["--no-children"]].concat());
    account.assert_sums();
    assert_eq!(account.programs[0].processes.len(), 2, "{account:?}");
}

/// A control group that is removed when its processes have left it.
struct Group {
    folder: PathBuf,
    name: String,
}

impl Group {
    /// Below the first hierarchy where one can be made: version 2, or any of version 1.
    fn make(test: &str) -> Option<Group> {
        let name = format!("cox-{test}-{}", std::process::id());
        let places = ["freezer", "cpu", "unified", "pids", ""];
        let made = places.iter().map(|place| Path::new("/sys/fs/cgroup").join(place)).find_map(|hierarchy| {
            let folder = hierarchy.join(&name);
            // In a version 1 layout the topmost folder is no hierarchy but a plain tmpfs.
            let real = hierarchy.join("cgroup.procs").exists();
            (real && fs::create_dir(&folder).is_ok()).then_some(folder)
        });
        if made.is_none() {
            testkit::skip::skip(test, testkit::skip::Need::Cgroup, "needs a writable control group");
        }
        made.map(|folder| Group { folder, name: format!("/{name}") })
    }

    fn add(&self, pid: u32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        wait_for("the control group is empty", || fs::remove_dir(&self.folder).ok());
    }
}

#[test]
fn a_control_group_with_those_who_come_later() {
    let test = "a_control_group_with_those_who_come_later";
    if !is_root(test) {
        return;
    }
    let Some(group) = Group::make("later") else { return };
    let threads = Watched::start(&[&workload("storm"), "--sleepers", "5", "--seconds", "60"]);
    wait_for("all threads", || (threads.threads() == 6).then_some(()));
    group.add(threads.0.id());
    let stranger = Watched::start(&["sleep", "60"]);

    let folder = open_folder();
    let json = path(&folder, "cox.json");
    let mut cox = Command::new(COX);
    cox.args(["run", "-q", "--json", &json, "--for", "2s", "--cgroup"]).arg(&group.folder);
    let mut cox = cox.stdin(Stdio::null()).spawn().unwrap();
    wait_for("cox", || testkit::run::BpfIds::held_by(cox.id()).has_links().then_some(()));
    // This one enters late; its children belong from their birth.
    let late = Watched::start(&["sh", "-c", "while :; do sleep 0.05; done"]);
    group.add(late.0.id());
    assert_eq!(shell_code(end_of(&mut cox)), 0);

    let account = Account::read(json);
    account.assert_sums();
    let processes = &account.programs[0].processes;
    let find = |pid: u32| processes.iter().find(|process| process.pid == pid);
    assert_eq!(find(threads.0.id()).unwrap().threads.len(), 6);
    assert!(find(late.0.id()).is_some() && processes.len() > 2, "{account:?}");
    assert!(find(stranger.0.id()).is_none());
    // Whoever is in the group must leave it before it can go.
    send(late.0.id(), Signal::KILL);
}

#[test]
fn a_control_group_by_its_name() {
    let test = "a_control_group_by_its_name";
    if !is_root(test) {
        return;
    }
    let Some(group) = Group::make("name") else { return };
    let sleep = Watched::start(&["sleep", "60"]);
    group.add(sleep.0.id());
    let (_, account) = watch(&["--cgroup", &group.name, "--for", "300ms"]);
    account.assert_sums();
    assert_eq!(account.threads_counted(), 1);
    assert_eq!(account.threads().next().unwrap().tid, sleep.0.id());
}

#[test]
fn a_program_without_its_children() {
    if !is_root("a_program_without_its_children") {
        return;
    }
    let folder = open_folder();
    let json = path(&folder, "cox.json");
    let program = [&workload("storm"), "--processes", "50", "--threads", "20"];
    let ran = run(&mut command(Some(&["-q", "--no-children", "--json", &json]), &program));
    assert_eq!(ran.code, 0);
    let account = Account::read(json);
    account.assert_sums();
    assert_eq!(account.threads_counted(), 21);
}

#[test]
fn the_same_inside_containers() {
    let tests = [
        "several_processes_and_their_children",
        "sleeping_threads_are_known_from_the_start",
        "threads_that_switch_are_soon_known",
        "a_watch_ends_with_what_it_watches",
        "a_program_without_its_children",
    ];
    testkit::container::again_in_containers("the_same_inside_containers", &tests);
}
