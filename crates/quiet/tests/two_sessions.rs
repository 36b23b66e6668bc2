//! Two sessions with different CPUs: each has its own until it ends, in either order.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod machine;

use quiet::{Applied, Level, Plan, Refusal, check};

use machine::{
    KTHREADD, Machine, OTHER_OWNER, OTHER_PROGRAM, OWNER, PROGRAM, busy_v2, cpus, is_clean, plain_v2, wide_v1,
};

/// A machine, and the CPUs of two sessions on it.
type Pair = (fn() -> Machine, &'static str, &'static str);
const PAIRS: [Pair; 4] = [(wide_v1, "1", "3"), (wide_v1, "2-3", "1"), (busy_v2, "2,6", "3"), (plain_v2, "1", "4-5")];

fn apply<'m>(machine: &'m Machine, (owner, program): (u32, u32), list: &str) -> (Plan, Applied<'m>) {
    let plan = machine.plan(list, Level::Full);
    // It is started now: by a process that the other session may have moved.
    machine.io.end(program);
    machine.io.bear(program, owner);
    machine.io.ask(program, &plan.chosen.cpus);
    let applied = machine.apply_by(owner, &plan, program);
    (plan, applied)
}

/// Asserts that the CPUs of a session are its program's.
#[track_caller]
fn is_quiet(machine: &Machine, plan: &Plan, program: u32, when: &str) {
    let cpus = &plan.chosen.cpus;
    assert_eq!(machine.io.threads()[&program].mask, *cpus, "{when}");
    for (tid, thread) in machine.io.threads().into_iter().filter(|(tid, _)| *tid != program) {
        assert!(thread.mask.intersection(cpus).is_empty(), "{when}: thread {tid} may use {}", thread.mask);
    }
    for file in ["/proc/irq/default_smp_affinity", "/sys/devices/virtual/workqueue/cpumask"] {
        let mask = ::machine::CpuSet::from_mask(&machine.read(file)).unwrap();
        assert!(mask.intersection(cpus).is_empty(), "{when}: {file} has {mask}");
    }
}

#[test]
fn each_has_its_cpus_until_it_ends_in_either_order() {
    for (new, one, two) in PAIRS {
        for (is_first_first, is_killed) in [(true, false), (false, false), (true, true), (false, true)] {
            let machine = new();
            machine.io.ask(PROGRAM, &cpus(one));
            machine.io.bear(OTHER_PROGRAM, OTHER_OWNER);
            machine.io.ask(OTHER_PROGRAM, &cpus(two));
            let before = machine.snapshot();
            machine.io.end(OTHER_PROGRAM);
            let (plan, first) = apply(&machine, (OWNER, PROGRAM), one);
            let (other_plan, second) = apply(&machine, (OTHER_OWNER, OTHER_PROGRAM), two);
            let what = format!("{one} and {two}, first: {is_first_first}, killed: {is_killed}");
            is_quiet(&machine, &plan, PROGRAM, &what);
            is_quiet(&machine, &other_plan, OTHER_PROGRAM, &what);
            let end = |session: Applied<'_>, owner: u32| machine.end(session, owner, is_killed);
            if is_first_first {
                is_clean(&end(first, OWNER));
                is_quiet(&machine, &other_plan, OTHER_PROGRAM, &what);
                is_clean(&end(second, OTHER_OWNER));
            } else {
                is_clean(&end(second, OTHER_OWNER));
                is_quiet(&machine, &plan, PROGRAM, &what);
                is_clean(&end(first, OWNER));
            }
            machine.same(&before, &what);
        }
    }
}

#[test]
fn a_thread_that_is_born_during_both_is_restored_by_the_last() {
    for (new, one, two) in PAIRS {
        for (is_first_first, is_killed) in [(true, false), (false, false), (true, true), (false, true)] {
            let machine = new();
            let before = machine.snapshot();
            let (_, mut first) = apply(&machine, (OWNER, PROGRAM), one);
            machine.bear_unconfined(60, 5);
            first.sweep().unwrap();
            let (_, mut second) = apply(&machine, (OTHER_OWNER, OTHER_PROGRAM), two);
            machine.io.bear(61, 60);
            first.sweep().unwrap();
            second.sweep().unwrap();
            machine.bear_of_kernel(62);
            second.sweep().unwrap();
            // No session meets these.
            machine.io.bear(63, 60);
            machine.io.bear(64, 63);
            let mut sessions = [(first, OWNER), (second, OTHER_OWNER)];
            if !is_first_first {
                sessions.reverse();
            }
            for (session, owner) in sessions {
                let undone = machine.end(session, owner, is_killed);
                assert!(undone.left.is_empty() && undone.troubles.is_empty(), "{undone:?}");
            }
            for tid in [60, 61, 63, 64] {
                let now = (machine.mask(tid), machine.cgroup_of(tid));
                let expected = (before.1[&5].0.clone(), before.1[&5].1.clone());
                assert_eq!(
                    now, expected,
                    "{one} and {two}, thread {tid}, first: {is_first_first}, killed: {is_killed}"
                );
            }
            assert_eq!(machine.mask(62), before.1[&KTHREADD].0, "{one} and {two}, first: {is_first_first}");
            assert_eq!(machine.cgroup_of(62), machine.cgroup(""));
        }
    }
}

/// The daemon asks for all CPUs, and has those of its cpuset. They are not its own when the second session begins.
#[test]
fn a_daemon_in_the_first_ones_cpuset_does_not_keep_its_cpus() {
    for (new, one, two) in PAIRS {
        let machine = new();
        let all = machine.facts().topology.online;
        let (_, first) = apply(&machine, (OWNER, PROGRAM), one);
        machine.io.bear(60, PROGRAM);
        machine.io.ask(60, &all);
        assert_eq!(machine.mask(60), one);
        let (_, second) = apply(&machine, (OTHER_OWNER, OTHER_PROGRAM), two);
        is_clean(&first.end());
        is_clean(&second.end());
        let possible = changes::KnobIo::possible_cpus(&machine.io, machine.thread(60)).unwrap();
        assert_eq!(machine.mask(60), possible.to_string(), "{one} and {two}");
    }
}

#[test]
fn the_same_cpus_are_refused_by_the_name_of_the_other() {
    for (new, one, _) in PAIRS {
        let machine = new();
        let before = machine.facts();
        let (plan, applied) = apply(&machine, (OWNER, PROGRAM), one);
        let quiet = machine.snapshot();
        let own = plan.cpusets.as_ref().unwrap().quiet.display().to_string();
        let refused = check(&machine.facts(), &cpus(one)).unwrap_err();
        assert!(matches!(&refused, Refusal::Quieted(cpus, folder) if *cpus == plan.chosen.cpus && *folder == own));
        assert!(refused.to_string().contains(&own), "{refused}");
        // Its plan was made before the first one was applied.
        let stale = quiet::plan(&before, &check(&before, &cpus(one)).unwrap(), machine::to(Level::Full));
        let second = machine.begin(OTHER_OWNER);
        let (error, undone) = *machine.try_apply(second, &stale, OTHER_PROGRAM).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(&format!("process {OWNER} (cox quiet {OWNER})")), "{error}");
        assert!(undone.failures().next().is_none(), "{undone:?}");
        machine.same(&quiet, "refused");
        is_clean(&applied.end());
    }
}
