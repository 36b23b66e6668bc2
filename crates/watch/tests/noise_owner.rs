//! Noise events of one user's threads: threads of other users are neither followed nor named, and a thread that becomes another user's is no longer
//! followed. Needs root.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common_owner;

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use common_owner::{Running, USER, gated, give_another_user, may};
use testkit::skip::{Need, skip};
use watch::noise::{Faults, Interruption, Interruptions, NoiseEvents, Settings};
use wire::layout::{ANOTHER_USERS, ANOTHER_USERS_NAME, comm_text};
use wire::noise::{edge, kind};

fn interruptions() -> Interruptions {
    let settings = Settings { children: true, ring_bytes: 8 << 20, without: Vec::new() };
    Interruptions::new(&settings, Some(USER), Faults::OneIn(11)).unwrap()
}

fn ticks_of(events: &[Interruption], tid: u32) -> Vec<u64> {
    let is_tick =
        |event: &wire::noise::Event| event.tid == tid && event.kind == kind::VECTOR && event.edge == edge::BEGIN;
    events.iter().filter(|(event, _)| is_tick(event)).map(|(event, _)| event.t_ns).collect()
}

#[test]
fn other_users_threads_are_not_named_as_causes() {
    if !may("other_users_threads_are_not_named_as_causes") {
        return;
    }
    // Root's processes on two CPUs wake each other, and so send interrupts to the CPU of the user's loop.
    let script =
        "taskset -c 1 sh -c 'while :; do echo; sleep 0.002; done' | taskset -c 0 sh -c 'while read x; do :; done'";
    let root = Running(Command::new("setsid").args(["sh", "-c", script]).stdin(Stdio::null()).spawn().unwrap());
    let mut own = gated("exec taskset -c 0 sh -c 'while :; do :; done'");
    let mut noise = interruptions();
    noise.follow(root.0.id()).unwrap();
    noise.follow(own.0.id()).unwrap();
    own.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let events = noise.drain().unwrap();
    let _ = Command::new("kill").args(["-9", "--", &format!("-{}", root.0.id())]).status();
    assert!(ticks_of(&events, own.0.id()).len() > 20, "{} events", events.len());
    let (mut senders, mut preemptors) = (0, 0);
    for (event, named) in &events {
        let is_context = named.is_none() && event.tid != 0;
        assert!(!is_context || event.tid == own.0.id(), "only the user's thread is followed: {event:?}");
        let Some(named) = named.filter(|_| event.tid == ANOTHER_USERS) else { continue };
        assert_eq!((comm_text(&named.comm).as_str(), named.tgid), (ANOTHER_USERS_NAME, ANOTHER_USERS));
        if event.kind == kind::SWITCH {
            preemptors += 1;
        } else {
            senders += 1;
            assert_eq!((event.a, named.call), (0, -1), "what it does in the kernel is hidden: {event:?}");
        }
    }
    println!("{senders} interrupts sent by others, {preemptors} switches to others");
    assert!(senders > 0 && preemptors > 0, "{senders} {preemptors}");
}

/// setuid(2) without an exec, as in `owner.rs`.
#[test]
fn a_thread_that_calls_setuid_is_followed_no_longer() {
    let test = "a_thread_that_calls_setuid_is_followed_no_longer";
    if !may(test) {
        return;
    }
    let program = "import ctypes, os, time\n\
        assert ctypes.CDLL(None).unshare(0x10000000) == 0\n\
        end = time.monotonic() + 0.3\n\
        while not open('/proc/self/uid_map').read() or time.monotonic() < end: pass\n\
        os.setresuid(1, 1, 1)\n\
        time.sleep(0.01)\n\
        end = time.monotonic() + 1.5\n\
        while time.monotonic() < end: pass\n";
    let mut child = gated(&format!("exec python3 -c \"{program}\""));
    let mut noise = interruptions();
    noise.follow(child.0.id()).unwrap();
    child.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    if !give_another_user(&mut child, Duration::from_millis(300)) {
        return skip(test, Need::Namespaces, "users may not make user namespaces, or there is no python3");
    }
    let (pid, deadline) = (child.0.id(), std::time::Instant::now() + Duration::from_secs(20));
    let is_other = || fs::read_to_string(format!("/proc/{pid}/status")).unwrap().contains("\nUid:\t54321\t");
    while !is_other() {
        assert!(std::time::Instant::now() < deadline && child.0.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    // It sleeps, and so leaves its CPU, some milliseconds after the call.
    let changed_ns = arch::monotonic_ns() + 300_000_000;
    child.0.wait().unwrap();
    // A thread of another user has no id of its own.
    let events = noise.drain().unwrap();
    let ticks: Vec<u64> = [child.0.id(), ANOTHER_USERS].iter().flat_map(|tid| ticks_of(&events, *tid)).collect();
    let (before, after): (Vec<u64>, Vec<u64>) = ticks.into_iter().partition(|t_ns| *t_ns < changed_ns);
    assert!(before.len() > 10 && after.is_empty(), "{} before, {} after", before.len(), after.len());
}

/// A program with more rights than its user is not followed from its exec on, and neither is what it starts.
#[test]
fn a_thread_that_gains_rights_by_exec_is_followed_no_longer() {
    if !may("a_thread_that_gains_rights_by_exec_is_followed_no_longer") {
        return;
    }
    let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir_in("/var/tmp").unwrap();
    let copy = |name: &str, mode: u32| {
        let to = folder.path().join(name);
        fs::copy("/bin/sh", &to).unwrap();
        fs::set_permissions(&to, Permissions::from_mode(mode)).unwrap();
        to.to_str().unwrap().to_owned()
    };
    // The second one keeps its user ids, and gets a capability.
    let (set_uid, capable) = (copy("set-uid", 0o4755), copy("capable", 0o755));
    assert!(Command::new("setcap").args(["cap_net_raw+ep", &capable]).status().unwrap().success());
    let busy = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done";
    let ticks = |program: &str| {
        let mut child = gated(&format!("exec {program} -c '{busy}; sh -c \"{busy}\"; true'"));
        let mut noise = interruptions();
        noise.follow(child.0.id()).unwrap();
        child.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
        assert!(child.0.wait().unwrap().success());
        let is_tick = |event: &wire::noise::Event| event.kind == kind::VECTOR && event.edge == edge::BEGIN;
        noise.drain().unwrap().iter().filter(|(event, _)| is_tick(event)).count()
    };
    let (plain, with_rights) = (ticks("sh"), [ticks(&format!("{set_uid} -p")), ticks(&capable)]);
    assert!(
        plain > 50 && with_rights.iter().all(|ticks| *ticks < 5),
        "{plain} ticks, with more rights {with_rights:?}"
    );
}

/// The kernel names its functions although this test reads no addresses.
#[test]
fn the_kernel_names_its_functions() {
    if !may("the_kernel_names_its_functions") {
        return;
    }
    let mut noise = interruptions();
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    let of = |name: &str| {
        let line = symbols.lines().find(|line| line.split(' ').nth(2) == Some(name)).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    for name in ["hrtimer_wakeup", "schedule", "vmstat_update"] {
        assert_eq!(noise.function(of(name)).as_deref(), Some(name));
        assert_eq!(noise.function(of(name) + 1).as_deref(), Some(name), "a place in it");
    }
    for nowhere in [1, 0xffff_8880_0000_1000, u64::MAX] {
        assert_eq!(noise.function(nowhere), None, "{nowhere:#x}");
    }
}
