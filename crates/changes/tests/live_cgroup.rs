//! A cgroup of this machine's version-1 cpuset hierarchy: made, a thread of the test moved into it, and all undone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};

use changes::{ChangeRequest, Claim, Error, JournalFolder, Knob, KnobIo, LiveKnobIo, Session, Thread, Value, probe};
use machine::cgroup::{Hierarchies, Version};
use machine::interrupts::interrupts;
use machine::{CpuSet, Root};
use tempfile::TempDir;
use testkit::skip::is_root;

/// A shell that sleeps, and starts a further sleeper for each line that it reads.
struct Shell(Child);

impl Shell {
    fn new() -> Shell {
        let script = "while read -r line; do sleep 60 & echo $!; done";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Shell(command.spawn().unwrap())
    }

    /// Starts a sleeper; its id.
    fn bear(&mut self) -> u32 {
        io::Write::write_all(self.0.stdin.as_mut().unwrap(), b"\n").unwrap();
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // They may have ended by themselves.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Sleeper(u32);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.0 as i32).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn request(knob: Knob, claim: Claim) -> ChangeRequest {
    ChangeRequest { engine: "quiet".into(), knob, claim, heir_of: Vec::new() }
}

/// The mount point of version 1's cpusets, if this user may make a cgroup there.
fn cpusets(test: &str) -> Option<PathBuf> {
    if !is_root(test) {
        return None;
    }
    let mounted = Hierarchies::read(&Root::live()).unwrap();
    let found = mounted.of_controller("cpuset").find(|hierarchy| hierarchy.version == Version::V1);
    let Some(found) = found else {
        println!("skipped: {test}: no version-1 cpusets");
        return None;
    };
    Some(found.mount_point.clone())
}

fn affinity(knob_io: &LiveKnobIo, thread: Thread) -> CpuSet {
    let Value::Cpus(cpus) = knob_io.read(&Knob::Affinity(thread)).unwrap() else { panic!("no mask") };
    cpus
}

#[test]
fn a_thread_its_child_and_their_masks_come_back_from_a_cgroup_of_ours() {
    let Some(mount) = cpusets("a_thread_its_child_and_their_masks_come_back_from_a_cgroup_of_ours") else { return };
    let (knob_io, journals) = (LiveKnobIo::new(Root::live()), TempDir::new().unwrap());
    for is_killed in [false, true] {
        let mut shell = Shell::new();
        let thread = knob_io.thread(shell.0.id()).unwrap();
        let all = affinity(&knob_io, thread);
        let (first, last) = (all.first().unwrap(), all.last().unwrap());
        // A mask that the cgroup does not have, if there are two CPUs.
        knob_io.write(&Knob::Affinity(thread), &Value::Cpus([last].into_iter().collect())).unwrap();
        let before = affinity(&knob_io, thread);
        let membership = Knob::Membership { thread, hierarchy: mount.clone() };
        let Value::Cgroup(home) = knob_io.read(&membership).unwrap() else { panic!("no cgroup") };
        let ours = home.join(format!("cox-test-{}", process::id()));
        let file = |name: &str| ours.join(name);
        let mems = fs::read_to_string(home.join("cpuset.effective_mems")).unwrap().trim().to_owned();
        let plan = vec![
            request(Knob::Affinity(thread), Claim::Confined),
            request(Knob::Directory(ours.clone()), Claim::Exactly(Value::Present(true))),
            request(Knob::CpuList(file("cpuset.cpus")), Claim::Exactly(Value::Cpus([first].into_iter().collect()))),
            request(Knob::File(file("cpuset.mems")), Claim::Exactly(Value::Text(mems))),
            request(membership.clone(), Claim::Exactly(Value::Cgroup(ours.clone()))),
        ];
        let pid = if is_killed { u32::MAX } else { process::id() };
        let folder = JournalFolder::at(journals.path());
        let mut session = Session::begin(&knob_io, folder.clone(), pid, "test", |_| Ok(None)).unwrap();
        session.take(plan).unwrap();
        assert_eq!(knob_io.read(&membership).unwrap(), Value::Cgroup(ours.clone()));
        assert_eq!(affinity(&knob_io, thread), [first].into_iter().collect());
        let child = Sleeper(shell.bear());
        let child_thread = knob_io.thread(child.0).unwrap();
        let undone = if is_killed {
            std::mem::forget(session);
            let lock = folder.lock().unwrap();
            folder.settle_dead(&lock, &knob_io).unwrap().remove(0).1
        } else {
            session.end()
        };
        assert_eq!((undone.failures().collect::<Vec<_>>(), undone.born), (Vec::<String>::new(), 1));
        assert!(undone.left.is_empty() && !ours.exists(), "{undone:?}");
        for thread in [thread, child_thread] {
            let membership = membership.of(thread).unwrap();
            assert_eq!(knob_io.read(&membership).unwrap(), Value::Cgroup(home.clone()));
            assert_eq!(affinity(&knob_io, thread), before, "killed: {is_killed}");
        }
    }
}

#[test]
fn a_thread_of_a_cpu_cannot_leave_its_cgroup() {
    let Some(mount) = cpusets("a_thread_of_a_cpu_cannot_leave_its_cgroup") else { return };
    let knob_io = LiveKnobIo::new(Root::live());
    let is_ksoftirqd = |tid: &u32| {
        fs::read_to_string(Path::new("/proc").join(tid.to_string()).join("comm"))
            .is_ok_and(|comm| comm.starts_with("ksoftirqd/"))
    };
    let Some(tid) = Root::live().list_numbers("/proc").unwrap().into_iter().find(is_ksoftirqd) else {
        println!("skipped: a_thread_of_a_cpu_cannot_leave_its_cgroup: no ksoftirqd here");
        return;
    };
    let knob = Knob::Membership { thread: knob_io.thread(tid).unwrap(), hierarchy: mount };
    assert!(matches!(probe(&knob_io, &knob), Err(Error::Unmovable { .. })));
}

/// The disk's queue of a virtual machine is such an interrupt.
#[test]
fn each_interrupt_takes_its_own_affinity_or_is_unmovable() {
    if !is_root("each_interrupt_takes_its_own_affinity_or_is_unmovable") {
        return;
    }
    let knob_io = LiveKnobIo::new(Root::live());
    let (mut movable, mut unmovable) = (0, 0);
    for row in interrupts(&Root::live()).unwrap().iter().filter(|row| !row.devices().is_empty()) {
        match probe(&knob_io, &Knob::Interrupt { name: row.devices().join(", "), ordinal: 0 }) {
            Ok(Value::Cpus(_)) => movable += 1,
            Err(Error::Unmovable { .. }) => unmovable += 1,
            other => panic!("{row:?}: {other:?}"),
        }
    }
    println!("{movable} interrupts can be moved, {unmovable} cannot");
    assert!(movable + unmovable > 0);
}
