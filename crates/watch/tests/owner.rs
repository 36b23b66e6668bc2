//! An observation of one user's threads: threads of other users are neither tracked nor named, and a thread that becomes another user's is no longer
//! tracked. Needs root.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common_owner;

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common_owner::{Running, USER, gated, give_another_user, may};
use testkit::skip::{Need, skip};
use watch::{BpfObserver, Intake, Observer, Settings};
use wire::layout::{ANOTHER_USERS, ANOTHER_USERS_NAME, LEFT};
use wire::{Record, TraceEvent, What};

fn settings() -> Settings {
    let cpus = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last: u32 = cpus.trim().rsplit(['-', ',']).next().unwrap().parse().unwrap();
    Settings { trace_bytes: Some(8 << 20), ..Settings::new(last + 1, last + 1) }
}

fn observe(script: &str) -> (Record, Vec<TraceEvent>) {
    let mut child = gated(script);
    let mut observer = BpfObserver::new(&settings(), Some(USER)).unwrap();
    observer.enrol(child.0.id()).unwrap();
    child.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut intake = Intake::default();
    while child.0.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
        observer.tick(&mut intake).unwrap();
    }
    let record = observer.finish(&mut intake).unwrap();
    assert_eq!(record.losses, wire::Losses::default());
    (record, intake.trace_events)
}

fn copy(folder: &Path, program: &str, name: &str) -> String {
    let to = folder.join(name);
    fs::copy(program, &to).unwrap();
    fs::set_permissions(&to, Permissions::from_mode(0o755)).unwrap();
    to.to_str().unwrap().to_owned()
}

#[test]
fn a_thread_that_becomes_another_user_leaves() {
    if !may("a_thread_that_becomes_another_user_leaves") {
        return;
    }
    let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir_in("/var/tmp").unwrap();
    let set_uid = copy(folder.path(), "/bin/sh", "other-user");
    chown(&set_uid, Some(USER + 1), None).unwrap();
    fs::set_permissions(&set_uid, Permissions::from_mode(0o4755)).unwrap();
    let capable = copy(folder.path(), "/bin/sh", "capable");
    assert!(Command::new("setcap").args(["cap_net_raw+ep", &capable]).status().unwrap().success());
    for program in [&set_uid, &capable] {
        // What it starts is not observed either; what the shell starts after it is. (dash gives up a foreign uid unless told -p.)
        let script = format!("{program} -p -c 'sleep 0.1; exec sleep 0.1'; sleep 0.1");
        let (record, _) = observe(&script);
        let left: Vec<String> = record.clocks.iter().filter(|c| c.flags & LEFT != 0).map(wire::Clock::comm).collect();
        let name = Path::new(program).file_name().unwrap().to_str().unwrap();
        assert_eq!(left, [name], "{:?}", record.clocks);
        let slept = record.clocks.iter().filter(|c| c.comm() == "sleep").count();
        assert_eq!((slept, record.tracked.alive), (1, 0), "{:?}", record.clocks);
        for clock in &record.clocks {
            assert!(clock.is_whole() && clock.tid != ANOTHER_USERS, "{clock:?}");
        }
    }
}

/// setuid(2) without an exec: in a user namespace with a subordinate user id, as container engines without root use them.
#[test]
fn a_thread_that_calls_setuid_leaves_at_the_end_of_its_stint() {
    let test = "a_thread_that_calls_setuid_leaves_at_the_end_of_its_stint";
    if !may(test) {
        return;
    }
    let program = "import ctypes, os, time\n\
        assert ctypes.CDLL(None).unshare(0x10000000) == 0\n\
        while not open('/proc/self/uid_map').read(): time.sleep(0.001)\n\
        os.setresuid(1, 1, 1)\n\
        for i in range(50): time.sleep(0.004)\n";
    let mut child = gated(&format!("exec python3 -c \"{program}\""));
    let mut observer = BpfObserver::new(&settings(), Some(USER)).unwrap();
    observer.enrol(child.0.id()).unwrap();
    child.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    if !give_another_user(&mut child, Duration::ZERO) {
        return skip(test, Need::Namespaces, "users may not make user namespaces, or there is no python3");
    }
    let mut intake = Intake::default();
    while child.0.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
        observer.tick(&mut intake).unwrap();
    }
    let record = observer.finish(&mut intake).unwrap();
    let clock = record.clocks.iter().find(|clock| clock.tid == child.0.id()).unwrap();
    assert!(clock.flags & LEFT != 0 && clock.is_whole(), "{clock:?}");
    // Its fifty sleeps after that are not in the account.
    assert!(clock.blocked_ns[wire::Cause::Sleep as usize] < 150_000_000, "{clock:?}");
    assert_eq!(record.tracked.alive, 0);
}

#[test]
fn other_users_threads_have_no_name() {
    if !may("other_users_threads_have_no_name") {
        return;
    }
    let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir_in("/var/tmp").unwrap();
    let secret = copy(folder.path(), "/bin/sh", "secret-of-root");
    let words = ["-c", "0", &secret, "-c", "while :; do :; done"];
    let busy = Running(Command::new("taskset").args(words).spawn().unwrap());
    let (record, trace_events) =
        observe("taskset -pc 0 $$ >/dev/null; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 0.01");
    let hidden = record.preemptors.iter().find(|(tid, _)| *tid == ANOTHER_USERS).expect("root's loop held the CPU");
    assert_eq!(wire::layout::comm_text(&hidden.1.comm), ANOTHER_USERS_NAME);
    for (tid, preemptor) in &record.preemptors {
        let name = wire::layout::comm_text(&preemptor.comm);
        assert!(*tid != busy.0.id() && !name.contains("secret"), "{tid} {name}");
    }
    for trace_event in &trace_events {
        if let Some(What::Switch { out, into, .. }) = trace_event.what() {
            assert!(out != busy.0.id() && into != busy.0.id(), "{trace_event:?}");
        }
    }
    assert!(trace_events.iter().any(|m| matches!(m.what(), Some(What::Switch { into: ANOTHER_USERS, .. }))));
    // Root's process cannot be made a member.
    let mut observer = BpfObserver::new(&settings(), Some(USER)).unwrap();
    assert!(observer.enrol(busy.0.id()).is_err());
}
