//! Sessions that are killed, at any access: whoever settles them restores everything. And changes that are kept.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod machine;

use std::fs;

use changes::recorder::Access;
use changes::{ChangeRequest, Error};
use quiet::Level;

use machine::{IRQBALANCE, Machine, OWNER, PROGRAM, SCENES, Scene, is_clean};

/// What each test does until no access is left: it is told before which one the process is killed, and returns whether
/// it was.
fn at_each_access(scene: &Scene, mut killed_at: impl FnMut(&Machine, usize) -> bool) {
    let machine = (scene.machine)();
    let plan = machine.plan(scene.cpus, Level::Full);
    let machine = machine.launch(&plan);
    let (threads, before) = (machine.io.threads(), machine.snapshot());
    for number in 0.. {
        let was_killed = killed_at(&machine, number);
        let what = format!("{}, killed before access {number}", scene.name);
        machine.same(&before, &what);
        assert!(machine.entries().is_empty(), "{what}");
        machine.again(&threads);
        if !was_killed {
            assert!(number > 40, "{number}");
            break;
        }
    }
}

fn settle(machine: &Machine, number: usize) {
    let undone = machine.settle();
    assert_eq!(undone.len(), 1, "access {number}");
    is_clean(&undone[0]);
}

#[test]
fn killed_before_any_access_all_comes_back() {
    let kept = machine::folder();
    for scene in SCENES.iter().filter(|scene| scene.is_brief()) {
        at_each_access(scene, |machine, number| {
            let plan = machine.plan(scene.cpus, Level::Full);
            let session = machine.begin(OWNER);
            let path = machine.entries().remove(0).path;
            // A process that is killed does not get to remove its journal.
            let kept = kept.path().join("journal");
            let _ = fs::remove_file(&kept);
            fs::hard_link(&path, &kept).unwrap();
            machine.io.stop_before(number);
            let result = machine.try_apply(session, &plan, PROGRAM);
            let was_killed = machine.io.refuse_nothing();
            if !path.exists() {
                fs::rename(&kept, &path).unwrap();
            }
            match result {
                Ok(applied) => machine.kill(applied, OWNER),
                Err(_) => machine.revive(OWNER),
            }
            settle(machine, number);
            was_killed
        });
    }
}

/// The journal has all lines of a batch before the first of its writes. With a batch for each knob, each line has been
/// written when the next one is announced.
#[test]
fn killed_with_the_journal_line_by_line_all_comes_back() {
    for scene in SCENES.iter().filter(|scene| scene.is_brief()) {
        let requests = requests(scene);
        at_each_access(scene, |machine, number| {
            let mut session = machine.begin(OWNER);
            machine.io.stop_before(number);
            let _ = requests.iter().try_for_each(|request| session.take([request.clone()]));
            let was_killed = machine.io.refuse_nothing();
            machine.kill(session, OWNER);
            settle(machine, number);
            was_killed
        });
    }
}

/// The changes of a session that applies a plan, in the order of its journal.
fn requests(scene: &Scene) -> Vec<ChangeRequest> {
    let machine = (scene.machine)();
    let plan = machine.plan(scene.cpus, Level::Full);
    let machine = machine.launch(&plan);
    let applied = machine.apply(&plan);
    let entry = machine.entries().remove(0);
    applied.end();
    let changes = entry.changes().iter().cloned();
    changes
        .map(|change| ChangeRequest {
            engine: change.engine,
            knob: change.knob,
            claim: change.claim,
            heir_of: Vec::new(),
        })
        .collect()
}

#[test]
fn undoing_that_is_killed_at_any_access_is_done_again() {
    for scene in SCENES.iter().filter(|scene| scene.is_brief()) {
        at_each_access(scene, |machine, number| {
            let plan = machine.plan(scene.cpus, Level::Full);
            let mut applied = machine.apply(&plan);
            machine.bear_unconfined(60, 5);
            applied.sweep().unwrap();
            // The session does not meet this one.
            machine.io.bear(61, 60);
            machine.kill(applied, OWNER);
            let path = machine.entries().remove(0).path;
            let journal = fs::read(&path).unwrap();
            machine.io.stop_before(number);
            machine.settle();
            let was_killed = machine.io.refuse_nothing();
            // A process that is killed does not get to remove its journal.
            fs::write(path, journal).unwrap();
            settle(machine, number);
            // A third time there is nothing to restore.
            let _ = machine.io.take_log();
            assert!(machine.settle().is_empty());
            assert!(!machine.io.take_log().iter().any(|access| matches!(access, Access::Write(..))));
            for tid in [60, 61] {
                assert_eq!(
                    (machine.mask(tid), machine.cgroup_of(tid)),
                    (machine.mask(5), machine.cgroup("")),
                    "{number}"
                );
                machine.io.end(tid);
            }
            was_killed
        });
    }
}

#[test]
fn changes_that_are_kept_stay_until_they_are_undone_by_name() {
    for Scene { machine, cpus, .. } in SCENES {
        let machine = machine();
        let before = machine.snapshot();
        let plan = machine.plan(cpus, Level::Full);
        // Nobody waits for a program.
        let mut applied = machine.apply_by(OWNER, &plan, 0);
        machine.bear_unconfined(60, 5);
        applied.sweep().unwrap();
        let name = applied.keep().unwrap().to_string();
        // Nobody looks for new threads then.
        machine.io.bear(61, 60);
        let quiet = machine.snapshot();
        machine.revive(OWNER);
        assert!(machine.settle().is_empty());
        machine.same(&quiet, "its process has ended");
        let entry = machine.entries().remove(0);
        assert_eq!((entry.name(), entry.lasts()), (name.clone(), true));
        assert_eq!(quiet::quiet_cpus(entry.changes()), plan.chosen.cpus);
        let (journals, lock) = (machine.journals(), machine.journals().lock().unwrap());
        is_clean(&journals.settle_named(&lock, &machine.io, &name).unwrap().unwrap());
        for tid in [60, 61] {
            assert_eq!((machine.mask(tid), machine.cgroup_of(tid)), (machine.mask(5), machine.cgroup("")));
            machine.io.end(tid);
        }
        // The id of the owner belongs to another process now.
        machine.same(&before, "undone by its name");
        assert_eq!(journals.settle_named(&lock, &machine.io, &name).unwrap(), None);
    }
}

#[test]
fn a_session_that_runs_cannot_be_undone_by_its_name() {
    let machine = machine::busy_v2();
    let plan = machine.plan("2", Level::Cgroup);
    let applied = machine.apply(&plan);
    let quiet = machine.snapshot();
    let name = machine.entries()[0].name();
    let (journals, lock) = (machine.journals(), machine.journals().lock().unwrap());
    let refused = journals.settle_named(&lock, &machine.io, &name).unwrap_err();
    assert!(matches!(refused, Error::Running { pid: OWNER, .. }), "{refused}");
    machine.same(&quiet, "refused");
    drop(lock);
    is_clean(&applied.end());
}

#[test]
fn a_journal_of_another_boot_changes_nothing() {
    for is_kept in [false, true] {
        let machine = machine::busy_v1();
        let plan = machine.plan("1", Level::Full);
        let applied = machine.apply(&plan);
        if is_kept {
            applied.keep().unwrap();
        } else {
            machine.kill(applied, OWNER);
        }
        machine.write("/proc/sys/kernel/random/boot_id", "another\n");
        let now = machine.snapshot();
        let _ = machine.io.take_log();
        assert_eq!(machine.settle().len(), 1);
        assert!(machine.io.take_log().is_empty());
        machine.same(&now, "another boot");
        assert!(machine.entries().is_empty());
    }
}

#[test]
fn who_was_killed_while_irqbalance_was_stopped_is_settled_by_the_next_session() {
    let machine = machine::busy_v2();
    let before = machine.snapshot();
    let plan = machine.plan("2", Level::Irq);
    machine.kill(machine.apply(&plan), OWNER);
    assert!(machine.is_stopped(IRQBALANCE) && machine.cgroup_of(PROGRAM) != machine.cgroup("system.slice"));
    let next = machine.begin(OWNER);
    assert!(next.inherited().is_empty());
    machine.same(&before, "the next session begins");
    next.end();
}
