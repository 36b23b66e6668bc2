//! cox of an ordinary user with `cox-observe`, the helper that may load eBPF programs: it sees all of the user's threads and nothing of other users.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "privileges/doorbells.rs"]
mod doorbells;
#[path = "privileges/noise.rs"]
mod noise;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use testkit::installed::{Installed, USER};
// Where the helper looks for it.
use machine::CpuSet;
use rustix::process::Signal;
use serde_json::Value;
use testkit::run::{
    children, end_of, on_one_line, root_with_two_cpus, run, send, shell_code, turn, wait_for, workload,
};

/// A process that is killed whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends all processes in a folder, whatever happens: of a program that goes on without its cox.
struct Ended(std::path::PathBuf);

impl Drop for Ended {
    fn drop(&mut self) {
        for pid in machine::Root::live().list_numbers("/proc").unwrap_or_default() {
            if fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == self.0) {
                let _ = rustix::process::Pid::from_raw(pid as i32)
                    .map(|pid| rustix::process::kill_process(pid, Signal::KILL));
            }
        }
    }
}

fn start(command: &mut Command) -> Running {
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn json(installed: &Installed, name: &str) -> Value {
    serde_json::from_slice(&installed.read(name)).unwrap()
}

/// Names of all threads in a report, by how often they come, and whether each left.
fn threads(report: &Value) -> BTreeMap<(String, bool), usize> {
    let mut names = BTreeMap::new();
    for thread in all_threads(report) {
        let name = thread["comm"].as_str().unwrap().to_owned();
        *names.entry((name, thread["changed_user"] == true)).or_insert(0) += 1;
    }
    names
}

fn all_threads(report: &Value) -> impl Iterator<Item = &Value> {
    report["programs"].as_array().unwrap().iter().flat_map(|program| {
        program["processes"].as_array().unwrap().iter().flat_map(|process| process["threads"].as_array().unwrap())
    })
}

/// Whether bytes contain others.
fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn the_programs_environment_is_the_callers() {
    let test = "the_programs_environment_is_the_callers";
    let Some(installed) = Installed::new(test) else { return };
    let environment = |command: &mut Command| {
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LD_LIBRARY_PATH", "/opt/modules/lib");
        command.env("LD_PRELOAD", "libc.so.6").env("TMPDIR", "/var/tmp").env("GCONV_PATH", "/usr/lib/gconv");
        command.env("MALLOC_ARENA_MAX", "3").env("EMPTY", "");
        run(command)
    };
    let plain = environment(&mut installed.command(&["env", "-0"]));
    let cox = installed.cox();
    let words = [cox.as_str(), "run", "-q", "--backend", "bpf", "--json", "cox.json", "--", "env", "-0"];
    let observed = environment(&mut installed.command(&words));
    assert_eq!((observed.code, observed.stderr.as_str()), (0, plain.stderr.as_str()));
    assert!(contains(&plain.stdout, b"LD_LIBRARY_PATH=/opt/modules/lib\0"), "{}", plain.text());
    assert_eq!(observed.stdout, plain.stdout, "{}", observed.text());
    assert_eq!(json(&installed, "cox.json")["backend"], "bpf");
}

#[test]
fn other_users_threads_are_not_seen() {
    let test = "other_users_threads_are_not_seen";
    let Some(installed) = Installed::new(test) else { return };
    let _turn = turn();
    let secret = installed.give("/bin/sh".as_ref(), "secret-of-root");
    // On a machine that has just started, process numbers are so small that reports have them as other numbers, too. Those from here on have five digits.
    let raised = fs::write("/proc/sys/kernel/ns_last_pid", "20000");
    let seen = [beside_others(&installed, &secret), beside_others(&installed, &secret)];
    assert!(seen.contains(&None), "numbers of processes of others: {seen:?}; raised: {raised:?}");
}

/// Runs cox beside processes of root and of a second user, which it must not name. Returns the first of their numbers that is in a file, and where.
fn beside_others(installed: &Installed, secret: &str) -> Option<String> {
    // On the CPU of the program, and waking it.
    let busy = ["taskset", "-c", "0", secret, "-c", "while :; do :; done"];
    let root = start(Command::new(busy[0]).args(&busy[1..]));
    let other = start(Command::new("setpriv").args(testkit::installed::as_user(USER + 1)).args(busy));
    let cox = installed.cox();
    let program = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 0.02; sleep 0.02";
    let files =
        ["--json", "cox.json", "--trace", "trace", "--paraver", "par", "--html", "page.html", "--output", "text"];
    let words = [
        &[cox.as_str(), "run", "--backend", "bpf", "--threads"],
        &files[..],
        &["--", "taskset", "-c", "0", "sh", "-c", program],
    ]
    .concat();
    let ran = run(&mut installed.command(&words));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let report = json(installed, "cox.json");
    assert_eq!(report["backend"], "bpf");
    let preemptor =
        report["preemptors"].as_array().unwrap().iter().find(|preemptor| preemptor["comm"] == "another user's");
    let preemptor = preemptor.unwrap_or_else(|| panic!("{report}"));
    assert!(preemptor["wait_ns"].as_u64().unwrap() > 10_000_000 && preemptor["tid"] == 0, "{preemptor}");
    let pids = [root.0.id(), other.0.id()].map(|pid| pid.to_string());
    let (mut files, mut seen) = (0, None);
    for file in fs::read_dir(installed.own()).unwrap().map(|entry| entry.unwrap().path()) {
        let bytes = fs::read(&file).unwrap();
        files += 1;
        // The kernel cuts names to 15 bytes.
        assert!(!contains(&bytes, b"secret-of"), "{}", file.display());
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
            let number = words.find(|word| pids.iter().any(|pid| pid == word));
            seen = seen.or(number.map(|number| format!("{number} in {}", file.display())));
        }
    }
    assert!(files >= 6, "{files} files");
    seen
}

#[test]
fn processes_of_others_are_refused_but_to_members_of_the_group() {
    let test = "processes_of_others_are_refused_but_to_members_of_the_group";
    let Some(installed) = Installed::new(test) else { return };
    let victim = start(Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]));
    let (cox, pid) = (installed.cox(), victim.0.id().to_string());
    let words = [&cox, "run", "--backend", "bpf", "--json", "cox.json", "--for", "300ms", "--pid", &pid];
    let refused = run(&mut installed.command(&words));
    assert_eq!((refused.code, refused.stderr.lines().count()), (125, 1), "{}", refused.stderr);
    assert!(refused.stderr.contains("another user") && refused.stderr.contains("coxswain-all"), "{}", refused.stderr);

    // One of their own that they may not read, and so not trace.
    let hidden = installed.give("/bin/sleep".as_ref(), "hidden");
    fs::set_permissions(&hidden, Permissions::from_mode(0o711)).unwrap();
    let hidden = start(&mut installed.command(&["sh", "-c", "$0 60; true", &hidden]));
    let is_hidden = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "hidden\n");
    let child = wait_for("its child", || children(hidden.0.id()).into_iter().find(is_hidden)).to_string();
    let words_for = |pid| [&cox, "run", "--backend", "bpf", "--json", "cox.json", "--for", "300ms", "--pid", pid];
    let refused = run(&mut installed.command(&words_for(&child)));
    rustix::process::kill_process(rustix::process::Pid::from_raw(child.parse().unwrap()).unwrap(), Signal::KILL)
        .unwrap();
    assert_eq!((refused.code, refused.stderr.lines().count()), (125, 1), "{}", refused.stderr);
    assert!(refused.stderr.contains("its program file is not readable"), "{}", refused.stderr);

    // The group is in a file of this test's, seen by this command only.
    let groups = installed.path("group");
    let text = fs::read_to_string("/etc/group").unwrap();
    let without: Vec<&str> = text.lines().filter(|line| !line.starts_with("coxswain-all:")).collect();
    fs::write(&groups, format!("{}\ncoxswain-all:x:54321:\n", without.join("\n"))).unwrap();
    let user = USER.to_string();
    let member = |group: &str| {
        let script = "mount --bind \"$0\" /etc/group && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "sh", "-c", script]).arg(&groups);
        command.args(["setpriv", "--reuid", &user, "--regid", &user, "--groups", group, "--"]).args(words);
        run(command.current_dir(installed.own()).stdin(Stdio::null()))
    };
    if Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        let ran = member("54321");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let report = json(&installed, "cox.json");
        assert!(threads(&report).contains_key(&("sh".to_owned(), false)), "{report}");
        assert_eq!(member("54322").code, 125, "a member of another group");
    }
}

#[test]
fn a_child_that_becomes_another_user_is_named_and_not_observed() {
    let test = "a_child_that_becomes_another_user_is_named_and_not_observed";
    let Some(installed) = Installed::new(test) else { return };
    let set_uid = installed.give("/bin/sh".as_ref(), "becomes-root");
    fs::set_permissions(&set_uid, Permissions::from_mode(0o4755)).unwrap();
    let capable = installed.give("/bin/sh".as_ref(), "gets-caps");
    assert!(Command::new("setcap").args(["cap_net_raw+ep", &capable]).status().unwrap().success());
    let cox = installed.cox();
    let script = format!("{set_uid} -p -c 'sleep 0.05; exec sleep 0.05'; {capable} -c 'sleep 0.05; true'; sleep 0.05");
    let words = [cox.as_str(), "run", "--backend", "bpf", "--json", "cox.json", "--", "sh", "-c", &script];
    let ran = run(&mut installed.command(&words));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let wanted = [("becomes-root", true), ("gets-caps", true), ("sh", false), ("sleep", false)];
    let wanted: BTreeMap<(String, bool), usize> =
        wanted.iter().map(|(name, left)| (((*name).to_owned(), *left), 1)).collect();
    assert_eq!(threads(&json(&installed, "cox.json")), wanted);
    for name in ["becomes-root", "gets-caps"] {
        assert!(ran.stderr.contains("no longer observed") && ran.stderr.contains(name), "{}", ran.stderr);
    }
}

#[test]
fn a_user_packs_by_ebpf() {
    let test = "a_user_packs_by_ebpf";
    let (Some(cpus), Some(installed)) = (root_with_two_cpus(test), Installed::new(test)) else { return };
    let _turn = turn();
    let cpus = cpus.iter().take(2).collect::<CpuSet>().to_string();
    let program = installed.give(workload("imbalance").as_ref(), "imbalance");
    let cox = installed.cox();
    let regions =
        ["--threads", "3", "--factor", "1", "--work-us", "10000", "--iterations-per-us", "500", "--seconds", "2"];
    let options =
        [cox.as_str(), "pack", "--backend", "bpf", "--always", "--json", "cox.json", "--cpus", &cpus, "--", &program];
    let mut command = installed.command(&[&options[..], &regions].concat());
    let ran = run(command.env("COX_CHANGES", installed.own().join("changes")));
    assert_eq!(ran.code, 0, "its work was checked: {}", ran.stderr);
    let report = json(&installed, "cox.json");
    let figure = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report}"));
    assert_eq!((report["backend"].as_str(), figure("threads"), figure("restored")), (Some("bpf"), 3, 3), "{report}");
    assert!(figure("rotating_ns") > figure("wall_ns") / 2 && figure("moves") > 20, "{report}");
    // Threads of another user's process get no snapshots.
    let victim = start(Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]));
    let pid = victim.0.id().to_string();
    let refused =
        run(&mut installed.command(&[&cox, "pack", "--backend", "bpf", "--cpus", &cpus, "--for", "1s", "--pid", &pid]));
    assert_eq!((refused.code, refused.stderr.lines().count()), (125, 1), "{}", refused.stderr);
}

#[test]
fn doctor_says_what_the_helper_gives() {
    let Some(installed) = Installed::new("doctor_says_what_the_helper_gives") else { return };
    let doctor = || run(&mut installed.command(&[&installed.cox(), "doctor"]));
    let ran = doctor();
    assert!(ran.code == 0 && ran.text().contains("by cox-observe for this user's threads"), "{}", ran.text());
    assert!(Command::new("setcap").arg("-r").arg(installed.helper()).status().unwrap().success());
    let ran = doctor();
    assert!(
        ran.code == 1 && ran.text().contains("cox-observe cannot load them: cox-observe lacks CAP_BPF"),
        "{}",
        ran.text()
    );
    fs::remove_file(installed.helper()).unwrap();
    let ran = doctor();
    assert!(
        ran.code == 1 && ran.text().contains("needs CAP_BPF and CAP_PERFMON (running as uid 12345)"),
        "{}",
        ran.text()
    );
    assert!(ran.text().contains("make install"), "{}", ran.text());
}

/// Each start is a session of the user's and takes some of their memory: both kinds of programs are tried in one process, and in one session.
#[test]
fn doctor_starts_the_helper_once() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;
    const OTHERS: usize = 15;
    let Some(installed) = Installed::new("doctor_starts_the_helper_once") else { return };
    // Nobody else's sessions count for this user.
    let user = 100_000 + std::process::id();
    let own = installed.own();
    chown(&own, Some(user), Some(user)).unwrap();
    let (real, starts) = (installed.path("libexec/coxswain/real"), own.join("starts"));
    fs::rename(installed.helper(), &real).unwrap();
    let wrapper = format!("#!/bin/sh\necho started >> {}\nexec {}\n", starts.display(), real.display());
    fs::write(installed.path("wrapper"), wrapper).unwrap();
    installed.give(&installed.path("wrapper"), "libexec/coxswain/cox-observe");
    // With these the user has room for one more session.
    let as_the_user = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(user)).unwrap();
        let name = |number| SocketAddr::from_abstract_name(format!("coxswain-observe/0/{user}.{number}")).unwrap();
        (0..OTHERS).map(|number| UnixDatagram::bind_addr(&name(number)).unwrap()).collect::<Vec<_>>()
    });
    let others = as_the_user.join().unwrap();
    let mut command = Command::new("setpriv");
    let words = [installed.cox().as_str(), "doctor"].map(str::to_owned);
    let ran = run(command.args(testkit::installed::as_user(user)).args(words).current_dir(own).stdin(Stdio::null()));
    drop(others);
    let text = on_one_line(&ran.text());
    assert!(ran.code == 0 && text.contains("by cox-observe for this user's threads"), "{text}");
    assert!(text.contains("can also wake standby threads for --overlap=bpf"), "{text}");
    assert_eq!(fs::read_to_string(starts).unwrap(), "started\n");
}

/// All of them run at once: each waits for a file that is made when all have begun.
#[test]
fn fifty_sessions_at_once_hold_the_limit() {
    const SESSIONS: usize = 50;
    let test = "fifty_sessions_at_once_hold_the_limit";
    let Some(installed) = Installed::new(test) else { return };
    let _turn = turn();
    // Another user's names count for nobody else.
    let squatted: Vec<UnixDatagram> = (0..100)
        .map(|n| {
            use std::os::linux::net::SocketAddrExt;
            let name = format!("coxswain-observe/512/{n}.{n}");
            UnixDatagram::bind_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap()).unwrap()
        })
        .collect();
    let cox = installed.cox();
    let mut sessions: Vec<Child> = Vec::new();
    for number in 0..SESSIONS {
        let json = format!("{number}.json");
        let script = format!("echo > began.{number}; while [ ! -e go ]; do sleep 0.2; done");
        let words =
            [cox.as_str(), "run", "--json", &json, "--output", &format!("{number}.txt"), "--", "sh", "-c", &script];
        sessions.push(installed.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }
    let own = installed.own();
    wait_for("all programs", || (0..SESSIONS).all(|number| own.join(format!("began.{number}")).exists()).then_some(()));
    fs::write(own.join("go"), "").unwrap();
    for session in &mut sessions {
        assert_eq!(shell_code(end_of(session)), 0);
    }
    drop(squatted);
    let mut by_ebpf = 0;
    for number in 0..SESSIONS {
        if json(&installed, &format!("{number}.json"))["backend"] == "bpf" {
            by_ebpf += 1;
            continue;
        }
        let text = String::from_utf8(installed.read(&format!("{number}.txt"))).unwrap();
        let said = on_one_line(&text);
        assert!(said.contains("eBPF not used: ") && said.contains("16 sessions"), "{text}");
    }
    println!("{by_ebpf} of {SESSIONS} by eBPF");
    assert!((8..=16).contains(&by_ebpf), "{by_ebpf} sessions by eBPF");
    // All are free again.
    let words = [cox.as_str(), "run", "-q", "--backend", "bpf", "--", "true"];
    assert_eq!(run(&mut installed.command(&words)).code, 0);
}

/// The helper of a cox that runs a program; cox is what setpriv has become.
fn helper_of(cox: u32) -> u32 {
    let is_helper =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "cox-observe\n");
    wait_for("the helper", || children(cox).into_iter().find(is_helper))
}

fn status_kib(pid: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn the_helper_ends_with_cox_and_does_not_grow_while_cox_is_stopped() {
    let test = "the_helper_ends_with_cox_and_does_not_grow_while_cox_is_stopped";
    let Some(installed) = Installed::new(test) else { return };
    let _turn = turn();
    let cox = installed.cox();
    let _ended = Ended(installed.own());
    // It does nothing but switch: its trace grows as fast as one can.
    let program = "mkfifo ff gg; cat ff > gg & (while :; do echo; done > ff) & cat gg > /dev/null";
    let words = [cox.as_str(), "run", "-q", "--backend", "bpf", "--trace", "trace", "--", "sh", "-c", program];
    let mut session = installed.command(&words);
    let mut session = start(&mut session);
    let helper = helper_of(session.0.id());
    wait_for("the program", || installed.own().join("gg").exists().then_some(()));
    let is_confined = fs::read_to_string(format!("/proc/{helper}/status")).unwrap();
    assert!(is_confined.contains("NoNewPrivs:\t1"), "{is_confined}");
    assert!(is_confined.contains("CapPrm:\t000000c000000000"), "{is_confined}");
    assert_eq!(fs::read(format!("/proc/{helper}/environ")).unwrap().iter().filter(|byte| **byte != 0).count(), 0);
    sleep(Duration::from_millis(300));
    let before = status_kib(helper, "VmRSS:");
    send(session.0.id(), Signal::STOP);
    sleep(Duration::from_millis(700));
    let (after, most) = (status_kib(helper, "VmRSS:"), status_kib(helper, "VmHWM:"));
    assert!(after < before + 80_000 && most < 200_000, "{before} KiB, then {after}, at most {most}");
    send(session.0.id(), Signal::KILL);
    end_of(&mut session.0);
    wait_for("its end", || testkit::run::state(helper).is_none().then_some(()));
}

/// What somebody may do who starts it by hand.
#[test]
fn the_helper_by_hand_does_nothing() {
    let test = "the_helper_by_hand_does_nothing";
    let Some(installed) = Installed::new(test) else { return };
    let helper = installed.helper().into_os_string().into_string().unwrap();
    for redirection in ["", "<&-", "<&- >&- 2>/dev/null", "</dev/zero", "| cat"] {
        let script = format!("{helper} {redirection}; true");
        let ran = run(&mut installed.command(&["sh", "-c", &script]));
        assert_eq!((ran.code, ran.text().as_str()), (0, ""), "{redirection}");
    }
    let by_hand = run(&mut installed.command(&[&helper]));
    assert_eq!((by_hand.code, by_hand.stderr.lines().count()), (2, 1), "{}", by_hand.stderr);
    assert_eq!(run(&mut installed.command(&[&helper, "--file", "/etc/shadow"])).code, 2);
    assert!(run(&mut installed.command(&[&helper, "--version"])).text().starts_with("cox-observe "));
    // A copy has no capabilities, and says what is missing.
    let copy = installed.give(&installed.helper(), "copy/libexec/coxswain/cox-observe");
    installed.give(installed.cox().as_ref(), "copy/bin/cox");
    let words = [
        installed.path("copy/bin/cox").into_os_string().into_string().unwrap(),
        "run".into(),
        "--backend".into(),
        "bpf".into(),
        "--".into(),
        "true".into(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let refused = run(&mut installed.command(&words));
    assert_eq!((refused.code, refused.stderr.lines().count()), (125, 1), "{}", refused.stderr);
    assert!(refused.stderr.contains("lacks CAP_BPF and CAP_PERFMON"), "{}", refused.stderr);
    // Who may not execute it is told so.
    fs::set_permissions(&copy, Permissions::from_mode(0o750)).unwrap();
    chown(&copy, Some(0), Some(0)).unwrap();
    let refused = run(&mut installed.command(&words));
    assert_eq!((refused.code, refused.stderr.lines().count()), (125, 1), "{}", refused.stderr);
    assert!(refused.stderr.contains("may not execute"), "{}", refused.stderr);
}

/// One that is sent what no cox sends ends, and the machine is as before.
#[test]
fn the_helper_ends_at_a_damaged_message() {
    let test = "the_helper_ends_at_a_damaged_message";
    let Some(installed) = Installed::new(test) else { return };
    let hello =
        broker::protocol::Request::Hello { version: broker::protocol::VERSION, layout: broker::protocol::LAYOUT };
    for number in 0..testkit::times(300).min(3000) {
        let mut random = testkit::Random::new(number);
        let (ours, its) = pair();
        let mut helper = start(installed.command(&[installed.helper().to_str().unwrap()]).stdin(Stdio::from(its)));
        let mut message = hello.encode();
        if random.one_in(2) {
            rustix::net::send(&ours, &message, rustix::net::SendFlags::NOSIGNAL).unwrap();
        }
        testkit::bytes::change(&mut message, &mut random);
        if random.one_in(10) {
            message = vec![0x55; 100_000];
        }
        let _ = rustix::net::send(&ours, &message, rustix::net::SendFlags::NOSIGNAL);
        // A greeting that arrived whole may stay: then the end of the conversation ends it.
        drop(ours);
        let code = shell_code(end_of(&mut helper.0));
        assert!(code == 0, "message {number}: exit code {code}");
    }
}

fn pair() -> (OwnedFd, OwnedFd) {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}
