//! Plans that are applied to machines in folders: what has changed then, what is refused, and that all comes back.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod machine;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ::machine::{CpuSet, Error};
use changes::recorder::{Access, RecordedThread, Refusal};
use changes::{Claim, Knob, KnobIo, Value};
use quiet::{Applied, Level, Plan, Step, Task, TaskList, What, quiet_cpus, quiet_folders};

use machine::{IRQBALANCE, KTHREADD, Listed, Machine, OWNER, PROGRAM, SCENES, Scene, busy_v1, busy_v2, is_clean};

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

/// Whether a refusal does not matter: the thread has ended, or the kernel decides where a thread or an interrupt is. That an
/// affinity is refused does not say so by itself: `a_thread_of_the_kernel_that_is_bound_…` has those that cannot have another.
fn is_overcome(access: &Access, refusal: Refusal) -> bool {
    match (access, refusal) {
        // irqbalance may have been restarted.
        (Access::Read(Knob::Running(_)) | Access::Write(Knob::Running(_), _), Refusal::Gone) => false,
        (Access::Read(knob) | Access::Write(knob, _), Refusal::Gone) => knob.thread().is_some(),
        (Access::Write(Knob::Interrupt { .. }, _), Refusal::Errno(errno)) => {
            [libc::EIO, libc::EPERM, libc::ENOSPC].contains(&errno)
        }
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

/// A list that counts what is read, and of which two threads are born after some call: one of the kernel, and a child of
/// thread 5.
struct Counted<'m> {
    listed: Listed<'m>,
    born_after: usize,
    calls: Rc<Cell<usize>>,
    threads: Rc<Cell<usize>>,
}

impl Counted<'_> {
    fn called<T>(&self, result: T) -> T {
        if self.calls.replace(self.calls.get() + 1) == self.born_after {
            self.listed.0.bear_of_kernel(60);
            self.listed.0.io.bear(61, 5);
        }
        result
    }
}

impl TaskList for Counted<'_> {
    fn all(&self) -> Result<Vec<Task>, Error> {
        let all = self.listed.all()?;
        self.threads.set(self.threads.get() + all.len());
        self.called(Ok(all))
    }

    fn ids_in_root(&self) -> Result<Vec<u32>, Error> {
        let ids = self.listed.ids_in_root();
        self.called(ids)
    }

    fn one(&self, tid: u32) -> Option<Task> {
        self.threads.set(self.threads.get() + 1);
        self.listed.one(tid)
    }

    fn mask(&self, tid: u32) -> Option<CpuSet> {
        self.listed.mask(tid)
    }

    fn ids_in(&self, folder: &Path) -> Vec<u32> {
        self.listed.ids_in(folder)
    }

    fn cpusets(&self) -> Result<BTreeMap<PathBuf, CpuSet>, Error> {
        self.listed.cpusets()
    }
}

#[test]
fn each_thread_is_read_once_and_those_that_are_born_meanwhile_are_kept_away() {
    for Scene { name, machine, cpus } in SCENES {
        for born_after in 0.. {
            let machine = machine();
            let plan = machine.plan(cpus, Level::Full);
            let machine = machine.launch(&plan);
            let (before, living) = (machine.snapshot(), machine.io.threads().len());
            let (calls, threads) = (Rc::default(), Rc::default());
            let tasks = Counted {
                listed: Listed(&machine),
                born_after,
                calls: Rc::clone(&calls),
                threads: Rc::clone(&threads),
            };
            let applied = Applied::make(machine.begin(OWNER), plan.clone(), Box::new(tasks), &[PROGRAM]);
            let applied = applied.map_err(|refused| refused.0).unwrap();
            // After the last look at all, the next sweep finds them.
            if born_after + 1 >= calls.get() {
                assert!((2..=4).contains(&born_after), "{name}: {born_after}");
                assert_eq!(threads.get(), living, "{name}");
                break;
            }
            are_away(&machine, &plan, Level::Full);
            // Each of the new ones again after it has left the root.
            assert!(threads.get() <= living + 4, "{name}: {} for {living}", threads.get());
            is_clean(&applied.end());
            assert_eq!(machine.mask(61), before.1[&5].0, "{name}, born after {born_after}");
            [60, 61].into_iter().for_each(|tid| machine.io.end(tid));
            machine.same(&before, &format!("{name}, born after {born_after}"));
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
    let unmoved: Vec<String> = applied.fixed_interrupts().map(ToString::to_string).collect();
    assert_eq!((unmoved, applied.unmoved()), (vec!["affinity of interrupt virtio3-tx".to_owned()], Vec::new()));
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

#[test]
fn an_interrupt_for_which_the_other_cpus_have_no_vector_stays_and_is_named() {
    let machine = busy_v1();
    let before = machine.snapshot();
    machine.io.exhaust("virtio3-tx");
    let plan = machine.plan("1", Level::Full);
    let applied = machine.apply(&plan);
    let said = "affinity of interrupt virtio3-tx cannot be changed: the other CPUs have no interrupt vector left";
    assert_eq!(applied.unmoved(), [said]);
    assert_eq!(machine.read("/proc/irq/42/smp_affinity_list"), "0-1");
    assert_eq!(machine.read("/proc/irq/24/smp_affinity_list"), "0");
    is_clean(&applied.end());
    machine.same(&before, "");
}

/// Until it runs, nobody can move it to another cgroup. Its creator binds it before it runs (kthread_bind).
#[test]
fn a_thread_of_the_kernel_that_is_bound_at_any_access_disturbs_neither_a_session_nor_a_sweep() {
    for Scene { name, machine, cpus } in SCENES.iter().filter(|scene| scene.is_brief()) {
        for is_swept in [false, true] {
            for number in 0.. {
                let machine = machine();
                let plan = machine.plan(cpus, Level::Full);
                let machine = machine.launch(&plan);
                let before = machine.snapshot();
                let cpu = plan.chosen.cpus.first().unwrap();
                let bear = || {
                    machine.bear_of_kernel(60);
                    let newborn = machine.io.threads()[&60].clone();
                    machine.io.add(60, RecordedThread { is_fixed: true, ..newborn });
                };
                let what = format!("{name}, access {number}, swept: {is_swept}");
                let applied = if is_swept {
                    let mut applied = machine.apply(&plan);
                    bear();
                    machine.io.bind_before(number, 60, cpu);
                    applied.sweep().unwrap_or_else(|error| panic!("{what}: {error}"));
                    applied
                } else {
                    bear();
                    let session = machine.begin(OWNER);
                    machine.io.bind_before(number, 60, cpu);
                    machine.try_apply(session, &plan, PROGRAM).unwrap_or_else(|refused| panic!("{what}: {}", refused.0))
                };
                let undone = applied.end();
                let was_bound = machine.io.fixed(machine.thread(60)).is_some();
                assert!(undone.left.is_empty() && undone.troubles.is_empty(), "{what}: {undone:?}");
                if was_bound {
                    assert_eq!(machine.mask(60), cpu.to_string(), "{what}");
                }
                machine.io.end(60);
                machine.same(&before, &what);
                if !was_bound {
                    break;
                }
            }
        }
    }
}

/// As those of the governor schedutil are (`sugov:0`).
#[test]
fn a_deadline_thread_is_left_where_it_is_and_named() {
    for machine in [busy_v1(), busy_v2()] {
        let plan = machine.plan("1", Level::Full);
        let mut applied = machine.apply(&plan);
        machine.bear_of_kernel(60);
        machine.io.make_deadline(60);
        let moved = applied.moved();
        applied.sweep().unwrap();
        if plan.cpusets.as_ref().is_some_and(|own| own.system.is_none()) {
            let said = "affinity of thread 60 cannot be changed: threads in SCHED_DEADLINE keep all their CPUs";
            assert_eq!((applied.unmoved(), applied.moved()), (vec![said.to_owned()], moved));
        }
        is_clean(&applied.end());
        assert_eq!(machine.io.threads()[&60].mask, machine.io.possible_cpus(machine.thread(60)).unwrap());
    }
}

#[test]
fn irqbalance_that_was_restarted_since_the_plan_was_made_is_a_failure_that_changes_nothing() {
    let machine = busy_v2();
    let plan = machine.plan("2", Level::Irq);
    machine.io.end(IRQBALANCE);
    let before = machine.snapshot();
    let (error, undone) = *machine.try_apply(machine.begin(OWNER), &plan, PROGRAM).map(|_| ()).unwrap_err();
    assert!(matches!(&error, changes::Error::Gone(knob) if matches!(**knob, Knob::Running(_))), "{error}");
    is_clean(&undone);
    machine.same(&before, "");
}

#[test]
fn all_processes_of_root_that_are_irqbalance_are_stopped_and_no_others() {
    let machine = busy_v2();
    for (pid, uid) in [(901, 0), (902, 1000)] {
        machine.write(&format!("/proc/{pid}/comm"), "irqbalance\n");
        machine
            .write(&format!("/proc/{pid}/stat"), &machine.read("/proc/900/stat").replace("900 (", &format!("{pid} (")));
        let status = machine.read("/proc/900/status").replace("Uid:\t0\t0", &format!("Uid:\t{uid}\t0"));
        machine.write(&format!("/proc/{pid}/status"), &status);
    }
    let tids: Vec<u32> = machine.facts().irqbalance.iter().map(|thread| thread.tid).collect();
    assert_eq!(tids, [900, 901]);
    let steps = machine.plan("2", Level::Irq).steps;
    let names: Vec<&str> =
        steps.iter().map(|step| step.name.as_str()).filter(|name| name.contains("irqbalance")).collect();
    assert_eq!(names, ["irqbalance (process 900)", "irqbalance (process 901)"]);
}

#[test]
fn a_tick_that_cannot_be_stopped_is_named_and_does_not_end_the_session() {
    const SERVER: &str = "/sys/kernel/debug/sched/fair_server/cpu2/runtime";
    for is_gone in [false, true] {
        let machine = busy_v2().with("/proc/sys/kernel/osrelease", "6.18.15\n");
        let plan = machine.plan("2", Level::Tickless);
        let machine = machine.launch(&plan);
        if is_gone {
            std::fs::remove_file(machine.root().path(SERVER)).unwrap();
        }
        let before = machine.snapshot();
        let applied = machine.apply(&plan);
        assert_eq!(applied.ticking().len(), usize::from(is_gone));
        if is_gone {
            assert!(applied.ticking()[0].contains(SERVER), "{:?}", applied.ticking());
        } else {
            assert_eq!(machine.read(SERVER).trim(), "0");
        }
        is_clean(&machine.end(applied, OWNER, false));
        machine.same(&before, "the end");
    }
}
