//! What happens while CPUs are quiet: threads are born, end and get ids of others, and somebody changes settings.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod machine;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use changes::recorder::{RecordedThread, Refusal};
use changes::{ChangeRequest, Claim, Knob, KnobIo, Value};
use quiet::{Applied, Level, Plan};

use machine::{
    IRQBALANCE, KTHREADD, Machine, OTHER_OWNER, OWNER, PROGRAM, SCENES, Scene, busy_v1, busy_v2, cpus, is_clean,
};

/// Makes a machine's CPUs quiet, does something then, and ends the session, or kills it and settles what it left.
fn during(scene: &Scene, is_killed: bool, then: impl FnOnce(&Machine, &Plan, &mut Applied<'_>)) -> Machine {
    let machine = (scene.machine)();
    let plan = machine.plan(scene.cpus, Level::Full);
    let machine = machine.launch(&plan);
    let mut applied = machine.apply(&plan);
    then(&machine, &plan, &mut applied);
    let undone = machine.end(applied, OWNER, is_killed);
    assert!(undone.left.iter().all(|left| left.is_theirs) && undone.troubles.is_empty(), "{undone:?}");
    machine
}

fn each(mut test: impl FnMut(&Scene, bool)) {
    for scene in SCENES {
        test(&scene, false);
        test(&scene, true);
    }
}

#[test]
fn a_child_of_a_thread_that_was_moved_goes_where_that_came_from() {
    each(|scene, is_killed| {
        let before = (scene.machine)().snapshot();
        let machine = during(scene, is_killed, |machine, plan, _| {
            machine.io.bear(60, 5);
            machine.io.bear(61, 60);
            machine.io.bear(62, 5);
            machine.io.ask(62, &cpus("0"));
            assert!(machine.io.threads()[&61].mask.intersection(&plan.chosen.cpus).is_empty());
        });
        for tid in [60, 61, 62] {
            assert_eq!(machine.cgroup_of(tid), machine.cgroup(""), "{}", scene.name);
            let own = if tid == 62 { "0" } else { &before.1[&5].0 };
            assert_eq!(machine.mask(tid), own, "{}, {tid}, killed: {is_killed}", scene.name);
        }
    });
}

/// In version 2, the session has set the mask of their creator itself: the kernel does not restore what they inherit.
#[test]
fn children_that_no_sweep_has_met_get_the_mask_of_their_creator() {
    for (scene, is_killed) in SCENES[2..].iter().flat_map(|scene| [(scene, false), (scene, true)]) {
        let machine = during(scene, is_killed, |machine, plan, applied| {
            machine.bear_unconfined(60, 5);
            applied.sweep().unwrap();
            machine.io.bear(61, 60);
            machine.io.bear(62, 61);
            machine.io.bear(63, 60);
            machine.io.ask(63, &cpus("0"));
            assert!(machine.io.threads()[&62].mask.intersection(&plan.chosen.cpus).is_empty());
        });
        let possible = machine.io.possible_cpus(machine.thread(60)).unwrap().to_string();
        let masks = [60, 61, 62, 63].map(|tid| machine.mask(tid));
        assert_eq!(masks, [&possible, &possible, &possible, "0"], "{}, killed: {is_killed}", scene.name);
    }
}

/// Its creator is in another cgroup, where no session sets masks. By chance it has asked for what a session would set.
#[test]
fn a_new_thread_of_the_root_cgroup_keeps_a_mask_that_no_session_has_set() {
    for is_killed in [false, true] {
        let machine = during(&SCENES[2], is_killed, |machine, plan, applied| {
            machine.bear_unconfined(60, 5);
            applied.sweep().unwrap();
            machine.io.bear(61, 10);
            machine.move_to(61, "");
            machine.io.ask(61, &machine.facts().topology.online.difference(&plan.chosen.cpus));
        });
        assert_eq!((machine.mask(60), machine.mask(61)), ("0-6".into(), "0-1,3-6".into()), "killed: {is_killed}");
    }
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

/// Of three new threads, the kernel refuses one access of one of them.
#[test]
fn a_thread_that_cannot_be_kept_away_does_not_hold_up_the_others() {
    for new in [busy_v1, busy_v2] {
        let mut failed = 0;
        for number in 0.. {
            let machine = new();
            let plan = machine.plan("1", Level::Full);
            let mut applied = machine.apply(&plan);
            let may_use = |tid: u32| machine.io.threads()[&tid].mask.contains(1);
            [60, 61, 62].into_iter().for_each(|tid| machine.bear_of_kernel(tid));
            machine.io.refuse(number, Refusal::Errno(libc::EIO));
            let swept = applied.sweep();
            let was_refused = machine.io.refuse_nothing();
            let staying = [60, 61, 62].into_iter().filter(|tid| may_use(*tid)).count();
            assert!(swept.is_err() == was_refused && staying <= usize::from(was_refused), "{number}: {swept:?}");
            failed += usize::from(was_refused);
            machine.bear_of_kernel(63);
            applied.sweep().unwrap();
            assert!(!may_use(63), "{number}");
            is_clean(&applied.end());
            assert!([60, 61, 62, 63].into_iter().all(may_use), "{number}");
            if !was_refused {
                break;
            }
        }
        assert!(failed > 5, "{failed}");
    }
}

/// Another session holds the mask of one of them for as long as it runs.
#[test]
fn the_first_refusal_of_a_sweep_is_kept_and_sweeps_go_on() {
    let machine = busy_v2();
    let plan = machine.plan("1", Level::Full);
    let mut applied = machine.apply(&plan);
    let mut other = machine.begin(OTHER_OWNER);
    for (tid, next) in [(60, 61), (70, 71)] {
        machine.bear_of_kernel(tid);
        let packed = ChangeRequest {
            engine: "pack".into(),
            knob: Knob::Affinity(machine.thread(tid)),
            claim: Claim::Within(cpus("0-1")),
            heir_of: Vec::new(),
        };
        other.take([packed]).unwrap();
        // The kernel has not applied the partition to this mask.
        let thread = machine.io.threads()[&tid].clone();
        machine.io.add(tid, RecordedThread { mask: cpus("0-1"), ..thread });
        machine.bear_of_kernel(next);
        applied.tick();
        assert_eq!(machine.mask(tid), "0-1");
        assert!(!machine.io.threads()[&next].mask.contains(1));
    }
    let why = applied.take_refused().unwrap().to_string();
    assert!(why.contains("affinity of thread 60 is held by process 2000"), "{why}");
    other.end();
    is_clean(&applied.end());
}

/// Nothing may be changed then, so all of them wait.
#[test]
fn threads_that_come_while_the_journal_cannot_be_written_are_kept_away_later() {
    let machine = busy_v2();
    let plan = machine.plan("1", Level::Full);
    let mut applied = machine.apply(&plan);
    [60, 61].into_iter().for_each(|tid| machine.bear_of_kernel(tid));
    // cox refuses a folder that others may write to.
    let allow = |mode| fs::set_permissions(machine.journals().folder(), fs::Permissions::from_mode(mode)).unwrap();
    allow(0o777);
    assert!(applied.sweep().is_err());
    assert_eq!([60, 61].map(|tid| machine.mask(tid)), ["0-7", "0-7"]);
    allow(0o700);
    applied.sweep().unwrap();
    assert_eq!([60, 61].map(|tid| machine.mask(tid)), ["0,2-6", "0,2-6"]);
    is_clean(&applied.end());
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
        let undone = machine.end(applied, OWNER, is_killed);
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
        let undone = machine.end(applied, OWNER, is_killed);
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
