//! Plans that are applied to machines in folders: what has changed then, what is refused, and that all comes back.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod machine;

use std::collections::BTreeSet;
use std::path::PathBuf;

use ::machine::CpuSet;
use changes::recorder::{Access, Refusal};
use changes::{Claim, Knob, KnobIo, Value};
use quiet::{Level, Plan, Step, What, quiet_cpus, quiet_folders};

use machine::{IRQBALANCE, KTHREADD, Machine, OWNER, PROGRAM, SCENES, Scene, busy_v1, busy_v2, is_clean};

fn settings(step: &Step) -> &[(Knob, Claim)] {
    if let What::Settings(settings) = &step.what { settings } else { &[] }
}

fn text(value: &Value) -> String {
    match value {
        Value::Cpus(cpus) => cpus.to_string(),
        Value::Present(true) => "on".into(),
        Value::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

fn has_all_settings(machine: &Machine, plan: &Plan) {
    for step in &plan.steps {
        for (at, (knob, claim)) in settings(step).iter().enumerate() {
            let value = machine.io.read(knob).unwrap();
            assert!(claim.covers(&value), "{knob} is {value} and not {claim}");
            // The last knob of a step is the one that the plan shows.
            let is_last = at + 1 == settings(step).len();
            assert!(!is_last || text(&value) == step.wanted, "{knob}: {value} and not {}", step.wanted);
        }
    }
}

/// Threads of the kernel leave with the others in version 1. In version 2, the partition keeps them away. kthreadd is
/// moved by its mask alone.
fn are_away(machine: &Machine, plan: &Plan, level: Level) {
    let is_v1 = plan.cpusets.as_ref().is_some_and(|own| own.system.is_some());
    for (tid, thread) in machine.io.threads().into_iter().filter(|(tid, _)| *tid != PROGRAM) {
        let from = match tid {
            KTHREADD if is_v1 => Level::Work,
            KTHREADD | 3 | 4 if !is_v1 => Level::NoBalance,
            _ => Level::Cgroup,
        };
        let is_away = thread.mask.intersection(&plan.chosen.cpus).is_empty();
        assert!(is_away || level < from, "{level}: thread {tid} may use {}", thread.mask);
    }
}

#[test]
fn each_level_has_its_settings_and_its_cpus_and_gives_all_back() {
    for Scene { name, machine, cpus } in SCENES {
        for level in [Level::Pin, Level::Cgroup, Level::NoBalance, Level::Irq, Level::Work, Level::Full] {
            let machine = machine();
            let plan = machine.plan(cpus, level);
            let machine = machine.launch(&plan);
            let before = machine.snapshot();
            let applied = machine.apply(&plan);
            has_all_settings(&machine, &plan);
            if let Some(own) = &plan.cpusets {
                are_away(&machine, &plan, level);
                assert_eq!(machine.cgroup_of(PROGRAM), own.quiet, "{name}");
            } else {
                assert_eq!((level, machine.snapshot()), (Level::Pin, before.clone()));
            }
            assert_eq!(machine.mask(PROGRAM), cpus);
            is_clean(&applied.end());
            machine.same(&before, &format!("{name}, {level}"));
            assert!(machine.entries().is_empty());
        }
    }
}

#[test]
fn a_refusal_at_any_access_is_one_line_and_changes_nothing() {
    let errnos = [libc::EIO, libc::EPERM, libc::EBUSY, libc::ENOSPC, libc::EINVAL].map(Refusal::Errno);
    for refusal in errnos.into_iter().chain([Refusal::Gone]) {
        for Scene { name, machine, cpus } in SCENES.iter().filter(|scene| scene.is_brief()) {
            let mut failed = 0;
            let machine = machine();
            let plan = machine.plan(cpus, Level::Full);
            let machine = machine.launch(&plan);
            let (threads, before) = (machine.io.threads(), machine.snapshot());
            for number in 0.. {
                let session = machine.begin(OWNER);
                machine.io.refuse(number, refusal);
                let result = machine.try_apply(session, &plan, PROGRAM);
                let was_refused = machine.io.refuse_nothing();
                let refused = machine.io.take_log().into_iter().nth(number);
                let what = format!("{name}, access {number} {refused:?}, {refusal:?}");
                let undone = match result {
                    Err(refused) => {
                        let (error, undone) = *refused;
                        failed += 1;
                        let line = error.to_string();
                        assert!(!line.is_empty() && !line.contains('\n'), "{what}: {line}");
                        undone
                    }
                    Ok(applied) => {
                        assert!(refused.is_none_or(|access| is_overcome(&access, refusal)), "{what}");
                        applied.end()
                    }
                };
                assert!(undone.failures().next().is_none(), "{what}: {undone:?}");
                // A thread that is gone has ended. All others are compared.
                let living = machine.io.threads();
                machine.again(threads.iter().filter(|(tid, _)| !living.contains_key(tid)));
                machine.same(&before, &what);
                machine.again(&threads);
                if !was_refused {
                    break;
                }
            }
            assert!(failed > 30, "{name}, {refusal:?}: {failed}");
        }
    }
}

/// Whether a refusal does not matter: the thread has ended, or the kernel decides where a thread or an interrupt is.
fn is_overcome(access: &Access, refusal: Refusal) -> bool {
    match (access, refusal) {
        (Access::Read(knob) | Access::Write(knob, _), Refusal::Gone) => knob.thread().is_some(),
        (Access::Write(Knob::Interrupt { .. }, _), Refusal::Errno(errno)) => [libc::EIO, libc::EPERM].contains(&errno),
        (Access::Write(Knob::Membership { .. }, _), Refusal::Errno(errno)) => errno == libc::EINVAL,
        _ => false,
    }
}

#[test]
fn nothing_is_written_that_is_not_in_the_plan() {
    for Scene { machine, cpus, .. } in SCENES {
        let machine = machine();
        let plan = machine.plan(cpus, Level::Full);
        let machine = machine.launch(&plan);
        let planned: BTreeSet<&Knob> = plan.steps.iter().flat_map(settings).map(|(knob, _)| knob).collect();
        let mut applied = machine.apply(&plan);
        machine.bear_of_kernel(50);
        applied.sweep().unwrap();
        applied.end();
        let log = machine.io.take_log();
        assert!(log.len() > 100);
        for access in log {
            let Access::Write(knob, _) = access else { continue };
            let is_of_thread = matches!(knob, Knob::Affinity(_) | Knob::Membership { .. });
            assert!(is_of_thread || planned.contains(&knob), "{knob}");
        }
    }
}

#[test]
fn irqbalance_is_stopped_and_runs_again() {
    let machine = busy_v2();
    let plan = machine.plan("2", Level::Irq);
    let applied = machine.apply(&plan);
    assert!(machine.is_stopped(IRQBALANCE));
    is_clean(&applied.end());
    assert!(!machine.is_stopped(IRQBALANCE));
    // One that has ended is not started again.
    let applied = machine.apply(&plan);
    machine.io.end(IRQBALANCE);
    let undone = applied.end();
    assert!(undone.left.is_empty() && undone.gone > 0, "{undone:?}");
}

#[test]
fn an_interrupt_that_turns_out_to_be_managed_stays_and_is_named() {
    let machine = busy_v1();
    let before = machine.snapshot();
    machine.io.manage("virtio3-tx");
    let plan = machine.plan("1", Level::Full);
    let applied = machine.apply(&plan);
    let unmoved: Vec<String> = applied.unmoved_interrupts().map(ToString::to_string).collect();
    assert_eq!(unmoved, ["affinity of interrupt virtio3-tx"]);
    let changed: Vec<&str> = applied.changed().map(|step| step.name.as_str()).collect();
    assert!(changed.contains(&"interrupt 24 (ACPI:Ged)"), "{changed:?}");
    assert!(!changed.contains(&"interrupt 42 (virtio3-tx)"), "what has not moved is not changed: {changed:?}");
    assert_eq!(machine.read("/proc/irq/42/smp_affinity_list"), "0-1");
    assert_eq!(machine.read("/proc/irq/24/smp_affinity_list"), "0");
    is_clean(&applied.end());
    machine.same(&before, "");
}

#[test]
fn the_journal_names_the_quiet_cpus_and_their_cpuset_on_each_level() {
    for Scene { name, machine, cpus } in SCENES {
        for level in [Level::Cgroup, Level::NoBalance, Level::Full] {
            let machine = machine();
            let plan = machine.plan(cpus, level);
            let applied = machine.apply(&plan);
            let entry = machine.entries().remove(0);
            assert_eq!(quiet_cpus(entry.changes()), plan.chosen.cpus, "{name}, {level}");
            assert_eq!(quiet_folders(entry.changes()), [plan.cpusets.unwrap().quiet], "{name}, {level}");
            is_clean(&applied.end());
        }
    }
}

#[test]
fn only_threads_that_the_kernel_has_moved_count() {
    for Scene { name, machine, cpus } in SCENES {
        let machine = machine();
        let plan = machine.plan(cpus, Level::Full);
        let machine = machine.launch(&plan);
        let before = machine.io.threads();
        let applied = machine.apply(&plan);
        let now = machine.io.threads();
        let has_moved = |tid: &&u32| {
            let (before, now) = (&before[*tid], &now[*tid]);
            let quiet = |mask: &CpuSet| mask.intersection(&plan.chosen.cpus);
            before.cgroups != now.cgroups || quiet(&before.mask) != quiet(&now.mask)
        };
        let moved: Vec<&u32> = now.keys().filter(|tid| **tid != PROGRAM).filter(has_moved).collect();
        assert_eq!(applied.moved(), moved.len(), "{name}: {moved:?}");
        is_clean(&applied.end());
    }
    // The kernel does not move kthreadd to another cgroup, and on this level it keeps its mask.
    let machine = busy_v1();
    let plan = machine.plan("1", Level::Cgroup);
    let before = machine.io.threads();
    let applied = machine.apply(&plan);
    assert_eq!(machine.io.threads()[&KTHREADD], before[&KTHREADD]);
    let moved = machine.io.threads().iter().filter(|(tid, now)| **tid != PROGRAM && before[*tid] != **now).count();
    assert_eq!(applied.moved(), moved);
}

#[test]
fn a_partition_that_the_kernel_finds_invalid_is_refused_with_its_reason() {
    let machine = busy_v2();
    let plan = machine.plan("2,6", Level::NoBalance);
    let before = machine.snapshot();
    // Somebody else makes a cgroup with one of these CPUs after the plan was made.
    let other = Knob::Directory(machine.cgroup("other"));
    machine.io.write(&other, &Value::Present(true)).unwrap();
    let its_cpus: PathBuf = machine.cgroup("other").join("cpuset.cpus");
    machine.io.write(&Knob::CpuList(its_cpus), &Value::Cpus(machine::cpus("6"))).unwrap();
    let (error, undone) = *machine.try_apply(machine.begin(OWNER), &plan, PROGRAM).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("invalid (Cpu list in cpuset.cpus not exclusive)"), "{error}");
    is_clean(&undone);
    machine.io.write(&other, &Value::Present(false)).unwrap();
    machine.same(&before, "");
}
