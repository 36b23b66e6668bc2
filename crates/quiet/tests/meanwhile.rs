//! What happens while CPUs are quiet: threads are born, end and get ids of others, and somebody changes settings.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod machine;

use changes::recorder::RecordedThread;
use changes::{Knob, KnobIo, Value};
use quiet::{Applied, Level, Plan};

use machine::{IRQBALANCE, KTHREADD, Machine, OWNER, PROGRAM, SCENES, Scene, busy_v1, busy_v2, cpus, is_clean};

/// Makes a machine's CPUs quiet, does something then, and ends the session, or kills it and settles what it left.
fn during(scene: &Scene, is_killed: bool, then: impl FnOnce(&Machine, &Plan, &mut Applied<'_>)) -> Machine {
    let machine = (scene.machine)();
    let plan = machine.plan(scene.cpus, Level::Full);
    let machine = machine.launch(&plan);
    let mut applied = machine.apply(&plan);
    then(&machine, &plan, &mut applied);
    let undone = if is_killed {
        machine.kill(applied, OWNER);
        machine.settle().remove(0)
    } else {
        applied.end()
    };
    assert!(undone.left.iter().all(|left| left.is_theirs) && undone.troubles.is_empty(), "{undone:?}");
    machine
}

fn each(mut test: impl FnMut(&Scene, bool)) {
    for scene in SCENES {
        test(&scene, false);
        test(&scene, true);
    }
}

/// In version 2, the child has a mask that the session has set: the kernel would not restore it.
#[test]
fn a_child_of_a_thread_that_was_moved_goes_where_that_came_from() {
    each(|scene, is_killed| {
        let before = (scene.machine)().snapshot();
        let machine = during(scene, is_killed, |machine, plan, applied| {
            machine.io.bear(60, 5);
            machine.io.bear(61, 60);
            machine.io.bear(62, 5);
            machine.io.ask(62, &cpus("0"));
            assert!(machine.io.threads()[&61].mask.intersection(&plan.chosen.cpus).is_empty());
            if is_killed {
                applied.sweep().unwrap();
            }
        });
        for tid in [60, 61, 62] {
            assert_eq!(machine.cgroup_of(tid), machine.cgroup(""), "{}", scene.name);
            let own = if tid == 62 { "0" } else { &before.1[&5].0 };
            assert_eq!(machine.mask(tid), own, "{}, {tid}, killed: {is_killed}", scene.name);
        }
    });
}

#[test]
fn a_child_whose_creator_has_ended_leaves_the_systems_cpuset() {
    for is_killed in [false, true] {
        let machine = during(&SCENES[0], is_killed, |machine, _, _| {
            machine.io.bear(60, 5);
            machine.io.bear(61, 60);
            machine.io.end(60);
        });
        assert_eq!((machine.mask(61), machine.cgroup_of(61)), ("0-1".into(), machine.cgroup("")));
    }
}

#[test]
fn a_daemon_that_the_program_leaves_behind_gets_what_cox_had() {
    each(|scene, is_killed| {
        let before = (scene.machine)().snapshot();
        let machine = during(scene, is_killed, |machine, plan, _| {
            machine.io.bear(60, PROGRAM);
            machine.io.bear(61, 60);
            machine.io.end(PROGRAM);
            assert_eq!(machine.io.threads()[&61].mask, plan.chosen.cpus);
        });
        let home = &before.1[&OWNER].1;
        for tid in [60, 61] {
            assert_eq!(machine.cgroup_of(tid), *home, "{}, {tid}", scene.name);
        }
        let quiet = (scene.machine)().cgroup("cox-quiet-");
        assert!(machine.files().keys().all(|path| !path.starts_with(&quiet)));
    });
}

#[test]
fn a_new_thread_of_the_kernel_is_kept_away_by_the_next_sweep() {
    each(|scene, is_killed| {
        let mut all = String::new();
        let machine = during(scene, is_killed, |machine, plan, applied| {
            machine.bear_of_kernel(60);
            all = machine.mask(60);
            applied.sweep().unwrap();
            assert!(machine.io.threads()[&60].mask.intersection(&plan.chosen.cpus).is_empty(), "{}", scene.name);
            // Another one that is born and not seen any more.
            machine.bear_of_kernel(61);
        });
        for tid in [60, 61] {
            assert_eq!(machine.cgroup_of(tid), machine.cgroup(""), "{}, {tid}", scene.name);
        }
        let possible = machine.io.possible_cpus(machine.thread(60)).unwrap();
        assert_eq!(machine.io.threads()[&60].mask, cpus(&all).intersection(&possible), "{}", scene.name);
    });
}

/// The new thread has asked for just the mask that the session has given the one that has ended.
#[test]
fn a_thread_that_ends_is_not_missed_and_its_id_is_somebody_elses() {
    each(|scene, is_killed| {
        let mut mask = String::new();
        let machine = during(scene, is_killed, |machine, _, applied| {
            mask = machine.mask(5);
            machine.io.end(4);
            machine.io.end(5);
            let other = machine.io.threads()[&OWNER].clone();
            let asked = Some(cpus(&mask));
            machine.io.add(5, RecordedThread { start_ns: 99, mask: cpus(&mask), asked, ..other });
            applied.sweep().unwrap();
        });
        assert!(!machine.io.threads().contains_key(&4));
        assert_eq!((machine.mask(5), machine.thread(5).start_ns), (mask, 99), "{}", scene.name);
        assert_eq!(machine.cgroup_of(5), machine.cgroup_of(OWNER), "{}", scene.name);
    });
}

#[test]
fn an_id_that_comes_back_to_the_root_cpuset_with_another_thread_is_looked_at_again() {
    for machine in [busy_v1(), busy_v2()] {
        let plan = machine.plan("1", Level::Full);
        let mut applied = machine.apply(&plan);
        machine.bear_of_kernel(60);
        applied.sweep().unwrap();
        machine.io.end(60);
        machine.bear_of_kernel(61);
        applied.sweep().unwrap();
        machine.bear_of_kernel(60);
        applied.sweep().unwrap();
        for tid in [60, 61] {
            assert!(!machine.io.threads()[&tid].mask.contains(1), "{tid}");
        }
        is_clean(&applied.end());
    }
}

#[test]
fn a_thread_that_another_program_puts_into_the_root_cpuset_is_moved_away_again() {
    let machine = busy_v1();
    let before = machine.snapshot();
    let plan = machine.plan("1", Level::Cgroup);
    let mut applied = machine.apply(&plan);
    machine.move_to(6, "");
    applied.sweep().unwrap();
    assert_eq!((machine.mask(6), machine.cgroup_of(6)), ("0".into(), machine.cgroup("cox-system")));
    is_clean(&applied.end());
    assert_eq!((machine.mask(6), machine.cgroup_of(6)), ("0-1".into(), machine.cgroup("")));
    machine.move_to(6, "job");
    machine.same(&before, "moved back");
}

#[test]
fn what_somebody_else_has_set_meanwhile_stays_and_is_named() {
    for is_killed in [false, true] {
        let machine = busy_v2();
        let plan = machine.plan("2", Level::Full);
        let applied = machine.apply(&plan);
        machine.write("/proc/irq/121/smp_affinity_list", "5\n");
        machine.write("/sys/kernel/mm/ksm/run", "2\n");
        machine.io.ask(10, &cpus("4"));
        machine.io.ask(5, &cpus("0"));
        machine.move_to(6, "user.slice");
        machine.io.write(&Knob::Running(machine.thread(IRQBALANCE)), &Value::Text("running".into())).unwrap();
        let undone = if is_killed {
            machine.kill(applied, OWNER);
            machine.settle().remove(0)
        } else {
            applied.end()
        };
        assert!(undone.failures().next().is_none(), "{undone:?}");
        let left: Vec<String> = undone.left.iter().map(ToString::to_string).collect();
        let named = ["interrupt eth0-rx-0", "ksm/run", "affinity of thread 10 ", "affinity of thread 5 "];
        for part in named {
            assert!(left.iter().any(|left| left.contains(part)), "{part}: {left:#?}");
        }
        assert_eq!(machine.read("/proc/irq/121/smp_affinity_list"), "5");
        assert_eq!(machine.read("/sys/kernel/mm/ksm/run"), "2");
        assert_eq!((machine.mask(10), machine.mask(5)), ("4".into(), "0".into()));
        assert_eq!(machine.cgroup_of(6), machine.cgroup("user.slice"));
        // Everything else is back.
        assert_eq!(machine.read("/proc/irq/9/smp_affinity_list"), "0-7");
        assert!(!machine.is_stopped(IRQBALANCE));
        assert_eq!(machine.mask(11), "2");
    }
}

#[test]
fn a_controller_that_another_program_needs_now_stays_on_and_is_named() {
    let machine = machine::plain_v2();
    let before = machine.snapshot();
    let plan = machine.plan("1-3", Level::Full);
    let applied = machine.apply(&plan);
    machine.write("/sys/fs/cgroup/system.slice/cgroup.subtree_control", "cpuset\n");
    let failures: Vec<String> = applied.end().failures().collect();
    assert!(failures.len() == 1 && failures[0].contains("controller cpuset"), "{failures:?}");
    machine.write("/sys/fs/cgroup/system.slice/cgroup.subtree_control", "");
    std::fs::remove_file(machine.root().path("/sys/fs/cgroup/system.slice/cgroup.subtree_control")).unwrap();
    let controller = Knob::Controller { cgroup: machine.cgroup(""), name: "cpuset".into() };
    machine.io.write(&controller, &Value::Present(false)).unwrap();
    machine.same(&before, "turned off by hand");
    assert!(machine.io.started_ns(KTHREADD).is_some());
}

/// As systemd does for a service with AllowedCPUs=: without the controller, the kernel would forget the value.
#[test]
fn a_cpuset_that_another_program_has_set_meanwhile_keeps_its_cpus_and_the_controller_stays_on() {
    for is_killed in [false, true] {
        let machine = machine::plain_v2();
        let plan = machine.plan("1-3", Level::Full);
        let applied = machine.apply(&plan);
        let of_service = Knob::CpuList(machine.cgroup("system.slice").join("cpuset.cpus"));
        machine.io.write(&of_service, &Value::Cpus(cpus("4-5"))).unwrap();
        let undone = if is_killed {
            machine.kill(applied, OWNER);
            machine.settle().remove(0)
        } else {
            applied.end()
        };
        assert!(undone.failures().next().is_none(), "{undone:?}");
        let left: Vec<String> = undone.left.iter().map(ToString::to_string).collect();
        assert!(
            left.iter().any(|left| left.contains("controller cpuset") && left.contains("system.slice")),
            "{left:?}"
        );
        assert_eq!(machine.io.read(&of_service).unwrap(), Value::Cpus(cpus("4-5")));
        assert!(!machine.root().path("/sys/fs/cgroup/cox-quiet-1").exists());
    }
}
