//! Cpusets of version 1 that are made while CPUs are quiet, as by `docker run`; and, before Linux 6.2, threads that are created
//! meanwhile.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod machine;

use changes::{Knob, KnobIo, Value};
use quiet::{Applied, Level};

use machine::{Machine, OTHER_OWNER, OTHER_PROGRAM, OWNER, PROGRAM, cpus, is_clean, wide_v1};

/// Four CPUs, and containers in a cpuset of their own.
fn with_docker() -> Machine {
    let machine = wide_v1();
    machine.make_cpuset("docker", "0-3");
    machine.make_cpuset("docker/old", "0-3");
    machine.make_cpuset("docker/same", "0-2");
    machine
}

fn apply<'m>(machine: &'m Machine, list: &str) -> Applied<'m> {
    let plan = machine.plan(list, Level::Full);
    machine.io.ask(PROGRAM, &plan.chosen.cpus);
    machine.apply(&plan)
}

#[test]
fn a_cpuset_that_is_made_meanwhile_loses_the_quiet_cpus_until_the_end() {
    for is_killed in [false, true] {
        let machine = wide_v1();
        let mut applied = apply(&machine, "3");
        machine.make_cpuset("docker", "0-3");
        machine.make_cpuset("docker/one", "0-3");
        machine.io.bear(70, 1);
        machine.move_to(70, "docker/one");
        assert_eq!(machine.mask(70), "0-3");
        applied.sweep().unwrap();
        assert_eq!((machine.cpus_of("docker"), machine.cpus_of("docker/one")), ("0-2".into(), "0-2".into()));
        assert_eq!(machine.mask(70), "0-2");
        // It is gone before the end.
        machine.make_cpuset("brief", "0-3");
        applied.sweep().unwrap();
        assert_eq!(machine.cpus_of("brief"), "0-2");
        machine.io.write(&Knob::Directory(machine.cgroup("brief")), &Value::Present(false)).unwrap();
        assert!(applied.unshrunk_cpusets().is_empty());
        let undone = machine.end(applied, OWNER, is_killed);
        is_clean(&undone);
        assert_eq!((machine.cpus_of("docker"), machine.cpus_of("docker/one")), ("0-3".into(), "0-3".into()));
        assert_eq!(machine.mask(70), "0-3", "killed: {is_killed}");
    }
}

#[test]
fn a_cpuset_with_nothing_but_quiet_cpus_keeps_them_and_is_named() {
    let machine = wide_v1();
    let mut applied = apply(&machine, "2-3");
    machine.make_cpuset("docker", "0-3");
    machine.make_cpuset("docker/only", "3");
    applied.sweep().unwrap();
    assert_eq!((machine.cpus_of("docker"), machine.cpus_of("docker/only")), ("0-1,3".into(), "3".into()));
    let named = applied.unshrunk_cpusets();
    assert!(named.len() == 1 && named[0].contains("docker/only") && named[0].contains("no CPU but 3"), "{named:?}");
    is_clean(&applied.end());
    assert_eq!((machine.cpus_of("docker"), machine.cpus_of("docker/only")), ("0-3".into(), "3".into()));
}

/// What somebody gives it later is not taken again.
#[test]
fn a_cpuset_that_gets_its_cpus_after_it_was_made_is_seen_then() {
    let machine = wide_v1();
    let mut applied = apply(&machine, "3");
    machine.make_cpuset("late", "");
    applied.sweep().unwrap();
    machine.make_cpuset("late", "1-3");
    applied.sweep().unwrap();
    assert_eq!(machine.cpus_of("late"), "1-2");
    machine.make_cpuset("late", "3");
    applied.sweep().unwrap();
    assert_eq!(machine.cpus_of("late"), "3");
    let undone = applied.end();
    assert!(undone.left.iter().all(|left| left.is_theirs) && undone.left.len() == 1, "{undone:?}");
}

#[test]
fn a_copy_of_what_was_left_to_a_cpuset_gets_what_that_gets_back() {
    for is_killed in [false, true] {
        let machine = with_docker();
        let applied = apply(&machine, "3");
        for (name, list) in [("docker/new", "0-2"), ("docker/new/inner", "0-2"), ("docker/chosen", "1")] {
            machine.make_cpuset(name, list);
        }
        machine.io.bear(70, 1);
        machine.move_to(70, "docker/new/inner");
        let undone = machine.end(applied, OWNER, is_killed);
        is_clean(&undone);
        let names = ["docker", "docker/old", "docker/same", "docker/new", "docker/new/inner", "docker/chosen"];
        assert_eq!(names.map(|name| machine.cpus_of(name)), ["0-3", "0-3", "0-2", "0-3", "0-3", "1"]);
        assert_eq!(machine.mask(70), "0-3");
    }
}

/// The one who restores is killed after the cpuset, and before its copy.
#[test]
fn a_copy_is_restored_also_if_the_cpuset_around_it_has_been_before() {
    let machine = with_docker();
    machine.kill(apply(&machine, "3"), OWNER);
    machine.make_cpuset("docker/new", "0-2");
    machine.make_cpuset("docker", "0-3");
    is_clean(&machine.settle().remove(0));
    assert_eq!(machine.cpus_of("docker/new"), "0-3");
}

#[test]
fn a_copy_in_a_cpuset_that_somebody_has_changed_stays_and_is_named() {
    let machine = with_docker();
    machine.make_cpuset("pair", "0,3");
    let applied = apply(&machine, "3");
    machine.make_cpuset("pair/new", "0");
    machine.make_cpuset("pair", "0-1");
    let undone = applied.end();
    let left: Vec<String> = undone.left.iter().map(ToString::to_string).collect();
    assert!(left.iter().any(|left| left.contains("pair/new/cpuset.cpus was not restored")), "{left:?}");
    assert!(undone.left.iter().all(|left| left.is_theirs), "{undone:?}");
    assert_eq!((machine.cpus_of("pair"), machine.cpus_of("pair/new")), ("0-1".into(), "0".into()));
}

#[test]
fn a_copy_that_was_made_during_two_sessions_gets_its_cpus_as_they_end() {
    for is_first_first in [true, false] {
        let machine = with_docker();
        let first = apply(&machine, "3");
        machine.io.bear(OTHER_PROGRAM, OTHER_OWNER);
        let plan = machine.plan("1", Level::Full);
        machine.io.ask(OTHER_PROGRAM, &cpus("1"));
        let second = machine.apply_by(OTHER_OWNER, &plan, OTHER_PROGRAM);
        machine.make_cpuset("docker/new", "0,2");
        let (one, other, half) = if is_first_first { (first, second, "0,2-3") } else { (second, first, "0-2") };
        is_clean(&one.end());
        assert_eq!((machine.cpus_of("docker"), machine.cpus_of("docker/new")), (half.into(), half.into()));
        is_clean(&other.end());
        assert_eq!(machine.cpus_of("docker/new"), "0-3");
    }
}

/// The kernel gives all threads of a cpuset that changes all its CPUs.
#[test]
fn before_linux_6_2_a_thread_that_is_created_meanwhile_gets_the_mask_of_its_creator() {
    for is_killed in [false, true] {
        let machine = wide_v1().with("/proc/sys/kernel/osrelease", "5.15.0-91-generic\n");
        let before = machine.mask(7);
        assert_eq!(before, "1", "its program has asked for it");
        let applied = apply(&machine, "3");
        assert_eq!(machine.mask(7), "0-2", "the kernel has forgotten it");
        machine.io.bear(70, 7);
        machine.io.bear(71, 70);
        machine.io.bear(72, 7);
        machine.io.ask(72, &cpus("2"));
        machine.io.bear(73, 6);
        let undone = machine.end(applied, OWNER, is_killed);
        is_clean(&undone);
        let masks = [7, 70, 71, 72, 73].map(|tid| machine.mask(tid));
        assert_eq!(masks, ["1", "1", "1", "2", "0-3"], "killed: {is_killed}");
    }
}
