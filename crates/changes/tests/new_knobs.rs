//! Controllers of version 2, and processes that are stopped: on a machine in a folder, and a process of this machine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod quieted;

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use changes::knob::{RUNNING, STOPPED};
use changes::recorder::{RecordedThread, Recorder, Refusal};
use changes::{Error, JournalFolder, Knob, KnobIo, LiveKnobIo, Session, Thread, Value};
use machine::Root;
use quieted::{Machine, cpus, exactly, text};
use tempfile::TempDir;

const CGROUPS: &str = "/sys/fs/cgroup";

/// A version-2 hierarchy with the cgroups `job` and `job/inner`, and no controller on.
fn v2() -> (TempDir, Recorder) {
    let folder = TempDir::new().unwrap();
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("proc/self/mountinfo", &format!("1 2 0:3 / {CGROUPS} rw - cgroup2 cgroup2 rw\n"));
    put("proc/sys/kernel/random/boot_id", "this\n");
    put("sys/devices/system/cpu/online", "0-3\n");
    for cgroup in ["", "job/", "job/inner/"] {
        for (file, text) in [("cgroup.threads", ""), ("cgroup.procs", ""), ("cgroup.subtree_control", "cpu\n")] {
            put(&format!("{}/{cgroup}{file}", &CGROUPS[1..]), text);
        }
    }
    let io = Recorder::at(folder.path()).unwrap();
    let cgroups = [(CGROUPS.into(), CGROUPS.into())].into();
    let (mask, asked, creator) = (cpus("0-3"), None, None);
    io.add(1, RecordedThread { start_ns: 7, mask, asked, creator, cgroups, is_fixed: false, is_stopped: false });
    (folder, io)
}

fn controller(cgroup: &str) -> Knob {
    let root = Path::new(CGROUPS);
    let cgroup = if cgroup.is_empty() { root.to_owned() } else { root.join(cgroup) };
    Knob::Controller { cgroup, name: "cpuset".into() }
}

fn begin<'k>(io: &'k dyn KnobIo, journals: &TempDir) -> Session<'k> {
    Session::begin(io, JournalFolder::at(journals.path()), 1, "cox quiet", |_| Ok(None)).unwrap()
}

fn is_on(io: &dyn KnobIo, cgroup: &str) -> bool {
    io.read(&controller(cgroup)).unwrap() == Value::Present(true)
}

#[test]
fn the_files_of_a_controller_come_with_it_and_go_with_it() {
    let ((folder, io), journals) = (v2(), TempDir::new().unwrap());
    let of_job = Path::new(CGROUPS).join("job/cpuset.cpus");
    let file = folder.path().join(of_job.strip_prefix("/").unwrap());
    let mut session = begin(&io, &journals);
    let some = exactly(Knob::CpuList(of_job), Value::Cpus(cpus("0-1")));
    assert!(!is_on(&io, "") && !file.exists());
    let on = |cgroup| exactly(controller(cgroup), Value::Present(true));
    session.take([on(""), on("job"), some]).unwrap();
    assert!(is_on(&io, "") && is_on(&io, "job"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "0-1\n");
    let undone = session.end();
    assert!(undone.left.is_empty(), "{undone:?}");
    assert!(!is_on(&io, "") && !is_on(&io, "job") && !file.exists());
    let control = fs::read_to_string(folder.path().join("sys/fs/cgroup/cgroup.subtree_control")).unwrap();
    assert_eq!(control, "cpu\n", "other controllers stay");
}

#[test]
fn a_controller_that_was_on_stays_on() {
    let ((_folder, io), journals) = (v2(), TempDir::new().unwrap());
    io.write(&controller(""), &Value::Present(true)).unwrap();
    let mut session = begin(&io, &journals);
    session.take([exactly(controller(""), Value::Present(true))]).unwrap();
    session.end();
    assert!(is_on(&io, ""));
}

#[test]
fn a_controller_that_is_used_below_stays_on_and_is_named() {
    let ((_folder, io), journals) = (v2(), TempDir::new().unwrap());
    let mut session = begin(&io, &journals);
    session.take([exactly(controller(""), Value::Present(true))]).unwrap();
    // Another program turns it on further below.
    io.write(&controller("job"), &Value::Present(true)).unwrap();
    let failures: Vec<String> = session.end().failures().collect();
    let command = "echo -cpuset > /sys/fs/cgroup/cgroup.subtree_control";
    assert!(failures.len() == 1 && failures[0].ends_with(command), "{failures:?}");
    assert!(is_on(&io, ""));
}

#[test]
fn a_controller_that_another_session_needs_stays_on_until_that_ends() {
    for is_first_first in [true, false] {
        let ((_folder, io), journals) = (v2(), TempDir::new().unwrap());
        let (mut one, mut two) = (begin(&io, &journals), begin(&io, &journals));
        for session in [&mut one, &mut two] {
            session.take([exactly(controller(""), Value::Present(true))]).unwrap();
        }
        let (first, last) = if is_first_first { (one, two) } else { (two, one) };
        assert_eq!(first.end().inherited, 1);
        assert!(is_on(&io, ""));
        last.end();
        assert!(!is_on(&io, ""));
    }
}

#[test]
fn a_process_stops_and_runs_again_also_if_the_session_is_killed_at_any_access() {
    let running = |machine: &Machine| machine.io.read(&Knob::Running(machine.thread(5))).unwrap();
    for number in 0.. {
        let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
        let mut session = machine.begin(&journals);
        machine.io.stop_before(number);
        let _ = session.take([exactly(Knob::Running(machine.thread(5)), text(STOPPED))]);
        let was_killed = machine.io.refuse_nothing();
        if !was_killed {
            assert_eq!(running(&machine), text(STOPPED));
        }
        machine.kill(session);
        assert_eq!(machine.settle(&journals), [Vec::<String>::new()], "access {number}");
        assert_eq!(running(&machine), text(RUNNING), "access {number}");
        if !was_killed {
            assert!(number >= 3);
            break;
        }
    }
}

#[test]
fn a_process_that_somebody_else_has_continued_is_left_alone_and_one_that_was_stopped_stays_so() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let knob = |tid| Knob::Running(machine.thread(tid));
    machine.io.write(&knob(1), &text(STOPPED)).unwrap();
    let mut session = machine.begin(&journals);
    session.take([1, 2].map(|tid| exactly(knob(tid), text(STOPPED)))).unwrap();
    machine.io.write(&knob(2), &text(RUNNING)).unwrap();
    let _ = machine.io.take_log();
    assert!(session.end().left.is_empty());
    assert_eq!(machine.io.read(&knob(1)).unwrap(), text(STOPPED));
    assert_eq!(machine.io.read(&knob(2)).unwrap(), text(RUNNING));
}

#[test]
fn a_process_that_ends_while_it_is_stopped_is_gone() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let mut session = machine.begin(&journals);
    session.take([exactly(Knob::Running(machine.thread(5)), text(STOPPED))]).unwrap();
    let stopped = machine.io.threads()[&5].clone();
    machine.io.end(5);
    // Its id belongs to another process, which somebody has stopped.
    machine.io.add(5, RecordedThread { start_ns: 99, ..stopped });
    let undone = session.end();
    assert!(undone.gone == 1 && undone.left.is_empty(), "{undone:?}");
    assert!(machine.io.threads()[&5].is_stopped);
}

/// A process that sleeps until the test ends.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn thread(&self, io: &LiveKnobIo) -> Thread {
        io.thread(self.0.id()).unwrap()
    }

    fn kill(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The state in /proc: T if it is stopped.
fn state(thread: Thread) -> char {
    machine::process::Task::process(&Root::live(), thread.tid).stat().unwrap().state
}

#[test]
fn a_process_of_this_machine_stops_and_runs_again() {
    let (io, journals, sleeper) = (LiveKnobIo::new(Root::live()), TempDir::new().unwrap(), Sleeper::new());
    let thread = sleeper.thread(&io);
    let knob = Knob::Running(thread);
    let mut session = begin(&io, &journals);
    session.take([exactly(knob.clone(), text(STOPPED))]).unwrap();
    assert_eq!((io.read(&knob).unwrap(), state(thread)), (text(STOPPED), 'T'));
    let undone = session.end();
    assert!(undone.restored == 1 && undone.left.is_empty(), "{undone:?}");
    // A signal is delivered when it is sent, so the state needs no time.
    assert_eq!(io.read(&knob).unwrap(), text(RUNNING));
    let earlier = Knob::Running(Thread { start_ns: thread.start_ns - 1, ..thread });
    assert!(matches!(io.write(&earlier, &text(STOPPED)), Err(Error::Gone(_))));
}

#[test]
fn a_process_of_this_machine_that_was_stopped_before_is_not_continued() {
    let (io, journals, sleeper) = (LiveKnobIo::new(Root::live()), TempDir::new().unwrap(), Sleeper::new());
    let knob = Knob::Running(sleeper.thread(&io));
    io.write(&knob, &text(STOPPED)).unwrap();
    let mut session = begin(&io, &journals);
    session.take([exactly(knob.clone(), text(STOPPED))]).unwrap();
    session.end();
    assert_eq!(io.read(&knob).unwrap(), text(STOPPED));
}

#[test]
fn a_process_of_this_machine_that_is_killed_while_it_is_stopped_is_gone() {
    let (io, journals, mut sleeper) = (LiveKnobIo::new(Root::live()), TempDir::new().unwrap(), Sleeper::new());
    let knob = Knob::Running(sleeper.thread(&io));
    let mut session = begin(&io, &journals);
    session.take([exactly(knob, text(STOPPED))]).unwrap();
    sleeper.kill();
    let undone = session.end();
    assert!(undone.gone == 1 && undone.left.is_empty() && undone.troubles.is_empty(), "{undone:?}");
}

/// It may have been started again.
#[test]
fn a_process_that_has_ended_cannot_be_stopped_and_that_is_a_failure() {
    for refused_at in [None, Some(0), Some(1)] {
        let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
        let knob = Knob::Running(machine.thread(5));
        let mut session = machine.begin(&journals);
        match refused_at {
            None => machine.io.end(5),
            Some(number) => machine.io.refuse(number, Refusal::Gone),
        }
        let refused = session.take([exactly(knob.clone(), text(STOPPED))]).unwrap_err();
        assert!(matches!(&refused, Error::Gone(gone) if **gone == knob), "{refused_at:?}: {refused}");
        machine.io.refuse_nothing();
        assert!(session.end().failures().next().is_none());
    }
}

#[test]
fn a_controller_stays_on_while_a_cgroup_of_somebody_else_would_lose_its_values() {
    for (file, own) in [
        ("cpuset.cpus", "0-1"),
        ("cpuset.mems", "0"),
        ("cpuset.cpus.exclusive", "1"),
        ("cpuset.cpus.partition", "root invalid (x)"),
    ] {
        let ((folder, io), journals) = (v2(), TempDir::new().unwrap());
        let mut session = begin(&io, &journals);
        session.take([exactly(controller(""), Value::Present(true))]).unwrap();
        let path = folder.path().join("sys/fs/cgroup/job").join(file);
        fs::write(&path, format!("{own}\n")).unwrap();
        let undone = session.end();
        let left: Vec<String> = undone.left.iter().map(ToString::to_string).collect();
        assert!(undone.left.len() == 1 && undone.left[0].is_theirs, "{file}: {undone:?}");
        assert!(left[0].contains("/sys/fs/cgroup/job below it has CPUs"), "{left:?}");
        assert!(is_on(&io, "") && fs::read_to_string(&path).unwrap() == format!("{own}\n"), "{file}");
    }
}
