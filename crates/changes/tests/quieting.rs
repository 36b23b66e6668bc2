//! Cgroups, memberships, masks and files of a machine in a folder: taken, disturbed, killed and restored.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod quieted;

use std::fs;

use changes::recorder::{Access, Refusal};
use changes::{ChangeRequest, Claim, Error, JournalFolder, Knob, KnobIo, Unmoved, Value, Why};
use quieted::{Machine, OWNER, SYSTEM, confined, cpus, exactly, file, folder, list, member, plan, present, text};
use tempfile::TempDir;

#[test]
fn all_is_taken_in_order_and_put_back_in_reverse() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let before = machine.snapshot();
    let mut session = machine.begin(&journals);
    session.take(plan(&machine)).unwrap();
    assert_eq!(session.unmoved().len(), 1, "the thread of a CPU stays");
    for tid in [1, 2, 3, 5] {
        assert_eq!(machine.io.threads()[&tid].cgroups.values().next().unwrap(), &folder(SYSTEM));
        assert!(machine.io.threads()[&tid].mask.is_subset(&cpus("0-1")), "{tid}");
    }
    let written = |log: &[Access]| -> Vec<Knob> {
        let knob = |access: &Access| match access {
            Access::Write(knob, _) => Some(knob.clone()),
            Access::Read(_) => None,
        };
        log.iter().filter_map(knob).collect()
    };
    let there = written(&machine.io.take_log());
    let undone = session.end();
    assert_eq!(undone.failures().collect::<Vec<_>>(), Vec::<String>::new());
    let back = written(&machine.io.take_log());
    // The masks that the kernel did not restore come last; the fixed thread is never written back.
    let masks: Vec<&Knob> = back.iter().rev().take_while(|knob| matches!(knob, Knob::Affinity(_))).collect();
    assert_eq!(masks, [&Knob::Affinity(machine.thread(3))]);
    let of_others: Vec<&Knob> = back[..back.len() - masks.len()].iter().collect();
    let expected: Vec<&Knob> = there.iter().rev().filter(|knob| knob.thread() != Some(machine.thread(4))).collect();
    assert_eq!(of_others, expected);
    assert_eq!(machine.snapshot(), before);
}

#[test]
fn a_failure_at_any_access_leaves_nothing() {
    let mut failed = 0;
    for refusal in [libc::EIO, libc::EPERM, libc::EBUSY, libc::ENOSPC, libc::EINVAL]
        .map(Refusal::Errno)
        .into_iter()
        .chain([Refusal::Gone])
    {
        for number in 0.. {
            let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
            let before = machine.snapshot();
            let plan = plan(&machine);
            let mut session = machine.begin(&journals);
            machine.io.refuse(number, refusal);
            let result = session.take(plan);
            let was_refused = machine.io.refuse_nothing();
            let refused = machine.io.take_log().into_iter().nth(number);
            if let (Refusal::Gone, Some(Access::Read(knob) | Access::Write(knob, _))) = (refusal, &refused)
                && knob.thread().is_some()
            {
                // A thread that has ended does not come back.
                drop(session);
                continue;
            }
            if let Err(error) = &result {
                failed += 1;
                assert!(was_refused, "{error}");
            }
            assert_eq!(session.end().failures().collect::<Vec<_>>(), Vec::<String>::new());
            assert_eq!(machine.snapshot(), before, "access {number}, {refusal:?}");
            if !was_refused {
                break;
            }
        }
    }
    assert!(failed > 100, "{failed}");
}

#[test]
fn a_failure_while_it_is_undone_is_named_or_overcome() {
    for number in 0.. {
        let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
        let before = machine.snapshot();
        let mut session = machine.begin(&journals);
        session.take(plan(&machine)).unwrap();
        machine.io.refuse(number, Refusal::Errno(libc::EIO));
        let undone = session.end();
        let was_refused = machine.io.refuse_nothing();
        let failures: Vec<String> = undone.failures().collect();
        if machine.snapshot() != before {
            assert!(!failures.is_empty(), "access {number}: {undone:?}");
        }
        if !was_refused {
            assert_eq!(failures, Vec::<String>::new());
            break;
        }
    }
}

/// The journal has all lines of a batch before the first of its writes; with a batch for each knob, each line has been
/// written when the next one is announced.
#[test]
fn killed_before_any_access_all_comes_back() {
    for is_one_by_one in [false, true] {
        for number in 0.. {
            let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
            let before = machine.snapshot();
            let plan = plan(&machine);
            let mut session = machine.begin(&journals);
            machine.io.stop_before(number);
            if is_one_by_one {
                let _ = plan.into_iter().try_for_each(|request| session.take([request]));
            } else {
                let _ = session.take(plan);
            }
            let was_killed = machine.io.refuse_nothing();
            machine.kill(session);
            assert_eq!(machine.settle(&journals), [Vec::<String>::new()], "access {number}");
            assert_eq!(machine.snapshot(), before, "access {number}");
            // A second time there is nothing to undo, and nothing is written.
            let _ = machine.io.take_log();
            assert!(machine.settle(&journals).is_empty());
            assert!(!machine.io.take_log().iter().any(|access| matches!(access, Access::Write(..))));
            if !was_killed {
                break;
            }
        }
    }
}

#[test]
fn undoing_that_was_killed_at_any_access_is_done_again() {
    for number in 0.. {
        let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
        let before = machine.snapshot();
        let mut session = machine.begin(&journals);
        session.take(plan(&machine)).unwrap();
        machine.kill(session);
        let (path, kept) = {
            let path = JournalFolder::at(journals.path()).look(&machine.io).unwrap().entries.remove(0).path;
            (path.clone(), fs::read(path).unwrap())
        };
        machine.io.stop_before(number);
        machine.settle(&journals);
        let was_killed = machine.io.refuse_nothing();
        // A process that is killed does not get to remove its journal.
        fs::write(path, kept).unwrap();
        assert_eq!(machine.settle(&journals), [Vec::<String>::new()], "access {number}");
        assert_eq!(machine.snapshot(), before, "access {number}");
        if !was_killed {
            break;
        }
    }
}

#[test]
fn a_journal_of_another_boot_is_void() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let mut session = machine.begin(&journals);
    session.take(plan(&machine)).unwrap();
    machine.kill(session);
    machine.write("proc/sys/kernel/random/boot_id", "another\n");
    let quiet = machine.snapshot();
    assert_eq!(machine.settle(&journals), [Vec::<String>::new()]);
    assert_eq!(machine.snapshot(), quiet);
    assert!(JournalFolder::at(journals.path()).look(&machine.io).unwrap().entries.is_empty());
}

#[test]
fn what_others_have_changed_meanwhile_is_kept_and_named() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let mut session = machine.begin(&journals);
    session.take(plan(&machine)).unwrap();
    machine.write("proc/irq/default_smp_affinity", "1\n");
    machine.io.ask(1, &cpus("0"));
    let elsewhere = Value::Cgroup(folder("job"));
    machine.io.write(&member(machine.thread(2)), &elsewhere).unwrap();
    let undone = session.end();
    let left: Vec<String> = undone.left.iter().map(ToString::to_string).collect();
    assert!(undone.left.iter().all(|left| left.is_theirs), "{left:?}");
    for part in ["default_smp_affinity", "affinity of thread 1", "cgroup of thread 2"] {
        assert_eq!(left.iter().filter(|left| left.contains(part)).count(), 1, "{part}: {left:?}");
    }
    assert_eq!(machine.read("proc/irq/default_smp_affinity"), "1\n");
    assert_eq!(machine.io.threads()[&1].mask, cpus("0"));
    assert_eq!(machine.io.threads()[&2].cgroups.values().next().unwrap(), &folder("job"));
    assert!(!machine.exists(SYSTEM));
}

#[test]
fn who_was_born_meanwhile_goes_where_its_creator_came_from() {
    for is_killed in [false, true] {
        let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
        let mut session = machine.begin(&journals);
        session.take(plan(&machine)).unwrap();
        machine.io.bear(20, 5);
        machine.io.bear(21, 20);
        machine.io.bear(22, 3);
        machine.io.bear(23, 2);
        // Its creator has ended, and nobody else is known.
        machine.io.bear(24, 1);
        machine.io.bear(25, 24);
        machine.io.end(24);
        // It sets a mask of its own.
        machine.io.bear(26, 3);
        machine.io.ask(26, &cpus("1"));
        if is_killed {
            machine.kill(session);
            assert_eq!(machine.settle(&journals), [Vec::<String>::new()]);
        } else {
            assert_eq!(session.end().failures().collect::<Vec<_>>(), Vec::<String>::new());
        }
        let threads = machine.io.threads();
        let state = |tid| {
            let thread = &threads[&tid];
            (thread.cgroups.values().next().unwrap().clone(), thread.mask.to_string())
        };
        assert_eq!(state(20), (folder("job"), "1-3".into()));
        assert_eq!(state(21), (folder("job"), "1-3".into()), "by its creator's creator");
        assert_eq!(state(22), (folder(""), "2".into()), "a mask that the kernel had set");
        assert_eq!(state(23), (folder(""), "1-2".into()));
        assert_eq!(state(25), (folder(""), "0-3".into()));
        assert_eq!(state(26), (folder(""), "1".into()));
        assert!(!machine.exists(SYSTEM));
    }
}

#[test]
fn if_the_cgroup_of_a_creator_is_gone_the_one_above_ours_will_do() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let mut session = machine.begin(&journals);
    session.take(plan(&machine)).unwrap();
    machine.io.bear(20, 5);
    machine.io.write(&Knob::Directory(folder("job")), &Value::Present(false)).unwrap();
    let undone = session.end();
    let failures: Vec<String> = undone.failures().collect();
    assert!(failures.len() == 1 && failures[0].contains("cgroup of thread 5"), "{failures:?}");
    for tid in [5, 20] {
        assert_eq!(machine.io.threads()[&tid].cgroups.values().next().unwrap(), &folder(""));
    }
    assert!(!machine.exists(SYSTEM));
}

#[test]
fn a_cgroup_that_was_there_stays_and_one_that_is_still_used_is_named() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let mut session = machine.begin(&journals);
    session.take([present("job"), present("ours")]).unwrap();
    fs::create_dir(machine.path("sys/fs/cgroup/cpuset/ours/theirs")).unwrap();
    let failures: Vec<String> = session.end().failures().collect();
    assert!(machine.exists("job"));
    assert!(failures.len() == 1 && failures[0].contains("rmdir /sys/fs/cgroup/cpuset/ours"), "{failures:?}");
}

#[test]
fn an_answer_that_is_not_what_was_written_is_a_refusal_with_its_text() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    machine.write("sys/fs/cgroup/cpuset/job/cpuset.cpus.partition", "member\n");
    let before = machine.snapshot();
    let path = folder("job").join("cpuset.cpus.partition");
    let mut session = machine.begin(&journals);
    machine.io.answer(&path, "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n");
    let refused = session.take([file(&path, "isolated")]).unwrap_err();
    assert!(matches!(refused, Error::NotTaken { .. }), "{refused}");
    assert!(refused.to_string().contains("isolated invalid (Cpu list in cpuset.cpus not exclusive)"), "{refused}");
    machine.io.answer(&path, "member\n");
    session.end();
    assert_ne!(machine.snapshot(), before, "the answer of the kernel was the same for the original");
}

#[test]
fn values_are_compared_and_not_their_texts() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    machine.write("proc/sys/kernel/watchdog_cpumask", "0,1,2,3\n");
    machine.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    let mut session = machine.begin(&journals);
    let _ = machine.io.take_log();
    let mask = exactly(Knob::CpuMask("/proc/irq/default_smp_affinity".into()), Value::Cpus(cpus("0-3")));
    let choice = exactly(Knob::Choice("/sys/kernel/mm/transparent_hugepage/enabled".into()), text("madvise"));
    let watchdog = list("/proc/sys/kernel/watchdog_cpumask", "0-3");
    session.take([mask, choice, watchdog]).unwrap();
    // All have these values already.
    assert!(!machine.io.take_log().iter().any(|access| matches!(access, Access::Write(..))));
    session.end();
    assert_eq!(machine.read("proc/irq/default_smp_affinity"), "0000000f\n");
}

#[test]
fn a_mask_that_is_confined_may_be_set_by_another_engine_or_session() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let before = machine.snapshot();
    let pack = |list: &str| ChangeRequest {
        engine: "pack".into(),
        claim: Claim::Within(cpus(list)),
        ..confined(machine.thread(1))
    };
    let mut quiet = machine.begin(&journals);
    quiet.take(plan(&machine)).unwrap();
    quiet.take([pack("0")]).unwrap();
    assert_eq!(machine.io.threads()[&1].mask, cpus("0"));
    quiet.end();
    assert_eq!(machine.masks(), before.1);
    for packs_first in [true, false] {
        let (mut one, mut two) = (machine.begin(&journals), machine.begin(&journals));
        let (quiet, packer) = if packs_first { (&mut two, &mut one) } else { (&mut one, &mut two) };
        if packs_first {
            packer.take([pack("0")]).unwrap();
        }
        quiet.take(plan(&machine)).unwrap();
        if !packs_first {
            packer.take([pack("0")]).unwrap();
        }
        assert_eq!(machine.io.threads()[&1].mask, cpus("0"));
        let first = one.end();
        assert!(first.left.is_empty(), "{first:?}");
        let last = two.end();
        assert!(last.left.is_empty(), "{last:?}");
        assert_eq!(machine.masks(), before.1, "{packs_first}");
    }
    assert_ne!(machine.io.started_ns(OWNER), None);
}

#[test]
fn an_interrupt_keeps_its_name_when_its_number_changes() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let are = |numbers: [u32; 3]| {
        let names = ["virtio1-req.0", "eth0", "eth0"];
        let rows =
            numbers.iter().zip(names).map(|(number, name)| format!(" {number}: 0 0 0 0 PCI-MSIX 1-edge {name}\n"));
        machine.write("proc/interrupts", &format!("  CPU0 CPU1 CPU2 CPU3\n{}", rows.collect::<String>()));
    };
    are([24, 25, 26]);
    (24..=26).for_each(|number| machine.write(&format!("proc/irq/{number}/smp_affinity_list"), "0-3\n"));
    let knob = |name: &str, ordinal| Knob::Interrupt { name: name.into(), ordinal };
    let mut session = machine.begin(&journals);
    let away = Value::Cpus(cpus("0-1"));
    session.take([exactly(knob("eth0", 1), away.clone()), exactly(knob("virtio1-req.0", 0), away)]).unwrap();
    let now = |number: u32| machine.read(&format!("proc/irq/{number}/smp_affinity_list")).trim().to_owned();
    assert_eq!((now(24), now(25), now(26)), ("0-1".into(), "0-3".into(), "0-1".into()));
    assert!(matches!(session.take([exactly(knob("eth0", 2), Value::Cpus(cpus("0")))]), Err(Error::Gone(_))));
    // The driver was loaded again: the numbers of both cards are others, and their affinities have moved with them.
    are([24, 35, 36]);
    machine.write("proc/irq/35/smp_affinity_list", "0-3\n");
    machine.write("proc/irq/36/smp_affinity_list", "0-1\n");
    assert!(session.end().left.is_empty());
    assert_eq!((now(24), now(35), now(36), now(26)), ("0-3".into(), "0-3".into(), "0-3".into(), "0-1".into()));
}

#[test]
fn changes_that_are_kept_stay_until_they_are_undone_by_name() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let before = machine.snapshot();
    let folder = JournalFolder::at(journals.path());
    let mut session = machine.begin(&journals);
    session.take(plan(&machine)).unwrap();
    let running = folder.look(&machine.io).unwrap().entries.remove(0);
    let refused = folder.settle_named(&folder.lock().unwrap(), &machine.io, &running.name()).unwrap_err();
    assert!(matches!(refused, Error::Running { pid: OWNER, .. }), "{refused}");
    let name = session.keep().unwrap().to_string();
    let quiet = machine.snapshot();
    // Its process has ended, and the next session leaves it alone.
    machine.kill(machine.begin(&journals));
    assert_eq!(machine.settle(&journals).len(), 1, "only the other one was dead");
    assert_eq!(machine.snapshot(), quiet);
    let entries = folder.look(&machine.io).unwrap().entries;
    assert_eq!(entries.iter().map(|entry| (entry.name(), entry.lasts())).collect::<Vec<_>>(), [(name.clone(), true)]);
    let lock = folder.lock().unwrap();
    assert_eq!(folder.settle_named(&lock, &machine.io, "1-0000000000000000").unwrap(), None);
    let undone = folder.settle_named(&lock, &machine.io, &name).unwrap().unwrap();
    assert_eq!(undone.failures().collect::<Vec<_>>(), Vec::<String>::new());
    assert_eq!(machine.snapshot(), before);
    assert_eq!(folder.settle_named(&lock, &machine.io, &name).unwrap(), None);
}

fn without(knob: Knob, list: &str) -> ChangeRequest {
    ChangeRequest { claim: Claim::Without { cpus: cpus(list), otherwise: cpus("0-3") }, ..exactly(knob, text("")) }
}

#[test]
fn sessions_with_other_cpus_share_a_knob_and_the_last_restores_it() {
    let mask = || Knob::CpuMask("/proc/irq/default_smp_affinity".into());
    for (is_first_killed, ends_first) in [(false, 0), (false, 1), (true, 0)] {
        let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
        let before = machine.snapshot();
        let now = || machine.io.read(&mask()).unwrap();
        let (mut one, mut two) = (machine.begin(&journals), machine.begin(&journals));
        let system = || Knob::CpuList(folder(SYSTEM).join("cpuset.cpus"));
        one.take([without(mask(), "3"), present(SYSTEM), without(system(), "3")]).unwrap();
        let refused = two.take([without(mask(), "2-3")]).unwrap_err().to_string();
        assert!(refused.contains("cox quiet") && refused.contains("default_smp_affinity"), "{refused}");
        two.take([without(mask(), "2"), present(SYSTEM), without(system(), "2")]).unwrap();
        assert_eq!((now(), machine.io.read(&system()).unwrap()), (Value::Cpus(cpus("0-1")), Value::Cpus(cpus("0-1"))));
        let (first, last) = if ends_first == 0 { (one, two) } else { (two, one) };
        if is_first_killed {
            // Both journals are of this process, so the other one is settled as well.
            machine.kill(first);
            machine.settle(&journals);
        } else {
            assert!(first.end().left.is_empty());
            assert_eq!(now(), Value::Cpus(cpus(if ends_first == 0 { "0-1,3" } else { "0-2" })));
            assert_eq!(machine.io.read(&system()).unwrap(), now());
        }
        assert!(last.end().left.is_empty());
        assert_eq!(machine.snapshot(), before);
    }
}

#[test]
fn a_shared_knob_that_somebody_else_has_set_is_his() {
    let mask = || Knob::CpuMask("/proc/irq/default_smp_affinity".into());
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let mut session = machine.begin(&journals);
    session.take([without(mask(), "3")]).unwrap();
    machine.write("proc/irq/default_smp_affinity", "1\n");
    let undone = session.end();
    assert!(undone.left.len() == 1 && undone.left[0].is_theirs, "{undone:?}");
    assert_eq!(machine.read("proc/irq/default_smp_affinity"), "1\n");
}

/// Since Linux 7, the kernel does not give its threads the CPUs of a partition that ends.
#[test]
fn a_mask_that_a_smaller_cpuset_has_cut_is_whole_again_when_the_cpuset_is() {
    for is_killed in [false, true] {
        let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
        let before = machine.snapshot();
        let mut session = machine.begin(&journals);
        // Thread 5 is there, with CPUs 1-3.
        let job = folder("job").join("cpuset.cpus");
        session.take([confined(machine.thread(5)), list(job.to_str().unwrap(), "1")]).unwrap();
        session.take([without(Knob::Affinity(machine.thread(5)), "2-3")]).unwrap();
        assert_eq!(machine.masks()[&5].0, "1");
        if is_killed {
            machine.kill(session);
            assert_eq!(machine.settle(&journals), [Vec::<String>::new()]);
        } else {
            let undone = session.end();
            assert!(undone.left.is_empty() && undone.troubles.is_empty(), "{undone:?}");
        }
        assert_eq!(machine.snapshot(), before);
    }
}

#[test]
fn a_thread_that_is_in_another_cpuset_now_keeps_the_mask_that_it_has_there() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let mut session = machine.begin(&journals);
    session.take([confined(machine.thread(3))]).unwrap();
    // Another session takes the thread, whose mask is 2.
    machine.write("sys/fs/cgroup/cpuset/job/cpuset.cpus", "3\n");
    machine.io.write(&member(machine.thread(3)), &Value::Cgroup(folder("job"))).unwrap();
    let undone = session.end();
    assert!(undone.left.is_empty() && undone.troubles.is_empty(), "{undone:?}");
    assert_eq!(machine.masks()[&3].0, "3");
}

/// An interrupt that the kernel does not let be moved has its original value, too.
#[test]
fn a_shared_knob_with_its_original_value_is_no_failure_of_either_session() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let knob = Knob::CpuMask("/proc/irq/default_smp_affinity".into());
    let mut one = machine.begin(&journals);
    one.take([without(knob.clone(), "2")]).unwrap();
    let mut other = machine.begin(&journals);
    other.take([without(knob.clone(), "3")]).unwrap();
    machine.io.write(&knob, &Value::Cpus(cpus("0-3"))).unwrap();
    for session in [other, one] {
        let undone = session.end();
        assert!(undone.left.is_empty() && undone.troubles.is_empty(), "{undone:?}");
        assert_eq!(machine.io.read(&knob).unwrap(), Value::Cpus(cpus("0-3")));
    }
}

/// The creator of a thread of the kernel binds it to a CPU after it has been created (kthread_bind).
#[test]
fn a_thread_that_the_kernel_binds_at_any_access_stays_and_ends_no_session() {
    for is_killed in [false, true] {
        for number in 0.. {
            let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
            let mut before = machine.snapshot();
            let mut session = machine.begin(&journals);
            let thread = machine.thread(4);
            machine.io.bind_before(number, 4, 1);
            session.take(plan(&machine)).unwrap();
            session.take([without(Knob::Affinity(thread), "2-3")]).unwrap();
            let unmoved = Unmoved { knob: Knob::Affinity(thread), why: Why::Bound };
            let was_bound = machine.io.fixed(thread).is_some();
            let is_set = machine
                .io
                .take_log()
                .iter()
                .any(|access| matches!(access, Access::Write(knob, _) if *knob == unmoved.knob));
            assert_eq!(session.unmoved().contains(&unmoved), was_bound && is_set, "access {number}");
            if is_killed {
                machine.kill(session);
                assert_eq!(machine.settle(&journals), [Vec::<String>::new()], "access {number}");
            } else {
                let undone = session.end();
                assert!(undone.left.is_empty() && undone.troubles.is_empty(), "access {number}: {undone:?}");
            }
            let mut now = machine.snapshot();
            if was_bound {
                assert_eq!(now.1.remove(&4).unwrap().0, "1", "access {number}");
                before.1.remove(&4);
            }
            assert_eq!(now, before, "access {number}");
            if !was_bound {
                break;
            }
        }
    }
}

#[test]
fn a_deadline_thread_keeps_its_cpus_and_is_named() {
    let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
    let before = machine.snapshot();
    machine.io.make_deadline(1);
    let mut session = machine.begin(&journals);
    let mask = |tid| Knob::Affinity(machine.thread(tid));
    session.take([without(mask(1), "3"), without(mask(2), "2")]).unwrap();
    assert_eq!(session.unmoved(), [Unmoved { knob: mask(1), why: Why::Deadline }]);
    assert_eq!(
        (machine.io.threads()[&1].mask.clone(), machine.io.threads()[&2].mask.clone()),
        (cpus("0-3"), cpus("1"))
    );
    let undone = session.end();
    assert!(undone.left.is_empty(), "{undone:?}");
    assert_eq!(machine.snapshot(), before);
    // One that is in this class at the end only is not restored, which is a failure.
    let mut session = machine.begin(&journals);
    session.take([without(mask(2), "2")]).unwrap();
    machine.io.make_deadline(2);
    let failures: Vec<String> = session.end().failures().collect();
    assert!(failures.len() == 1 && failures[0].contains("SCHED_DEADLINE"), "{failures:?}");
}

#[test]
fn offline_cpus_of_a_mask_come_back() {
    for (drops, is_killed) in [(false, false), (false, true), (true, false), (true, true)] {
        let pack = |knob, list: &str| ChangeRequest { claim: Claim::Within(cpus(list)), ..exactly(knob, text("")) };
        let set = |knob, list: &str| exactly(knob, Value::Cpus(cpus(list)));
        for request in [
            (&|knob| without(knob, "3")) as &dyn Fn(Knob) -> ChangeRequest,
            // All CPUs that are online.
            &|knob| pack(knob, "0-3"),
            &|knob| pack(knob, "1"),
            &|knob| set(knob, "0,4"),
        ] {
            let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
            machine.write("sys/devices/system/cpu/possible", "0-5\n");
            machine.io.ask(1, &cpus("0-4"));
            assert_eq!(machine.io.threads()[&1].mask, cpus("0-4"), "in the root cpuset, offline CPUs stay");
            if drops {
                machine.io.drop_offline();
            }
            let mut session = machine.begin(&journals);
            let request = request(Knob::Affinity(machine.thread(1)));
            session.take([request.clone()]).unwrap();
            assert!(session.has(&request.knob).unwrap(), "{request:?}");
            let undone = if is_killed {
                machine.kill(session);
                machine.settle_all(&journals).remove(0)
            } else {
                session.end()
            };
            assert!(undone.left.is_empty() && undone.troubles.is_empty(), "{drops} {request:?}: {undone:?}");
            // The kernel may leave out a CPU that is offline, and then cox cannot restore it.
            let whole = cpus(if drops { "0-3" } else { "0-4" });
            assert_eq!(machine.io.threads()[&1].mask, whole, "{request:?}");
        }
    }
}

/// The kernel gives the thread all CPUs of the machine when it returns.
#[test]
fn offline_cpus_are_no_change_of_somebody_else() {
    for drops in [false, true] {
        let (machine, journals) = (Machine::new(), TempDir::new().unwrap());
        machine.write("sys/devices/system/cpu/possible", "0-4\n");
        if drops {
            machine.io.drop_offline();
        }
        let mut session = machine.begin(&journals);
        session.take(plan(&machine)).unwrap();
        let undone = session.end();
        assert!(undone.left.is_empty() && undone.troubles.is_empty(), "{undone:?}");
        let masks: Vec<String> = (1..=5).map(|tid| machine.masks()[&tid].0.clone()).collect();
        assert_eq!(masks, ["0-3", "1-2", "2", "3", "1-3"]);
    }
}
