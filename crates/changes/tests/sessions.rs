//! Sessions on a simulated machine: overlapping, killed, and disturbed by others.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod made;

use changes::undo::Undone;
use changes::{ChangeRequest, Claim, Error, JournalFolder, KnobIo, Scheduling, Value};
use made::{Made, OTHER, affinity, begin, born, cpus, idle, kill, mask, original, scheduling, set, within};
use tempfile::TempDir;

fn restored(count: usize) -> Undone {
    Undone { restored: count, ..Undone::default() }
}

#[test]
fn what_was_taken_is_put_back_and_the_journal_is_gone() {
    let (made, folder) = (Made::with_threads(3), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take((0..3).map(|tid| within(tid, "0-1"))).unwrap();
    assert_eq!((made.mask(0), made.mask(2)), (cpus("0-1"), cpus("0-1")));
    set(&session, &affinity(1), &mask("1")).unwrap();
    assert!(matches!(set(&session, &affinity(1), &mask("2")), Err(Error::NotClaimed { .. })));
    assert!(matches!(set(&session, &affinity(9), &mask("1")), Err(Error::Untaken(_))));
    set(&session, &affinity(1), &Value::Cpus(original(1))).unwrap();
    assert_eq!(session.end(), restored(3));
    assert!(made.is_original());
    assert!(JournalFolder::at(folder.path()).look(&made).unwrap().entries.is_empty());
}

#[test]
fn dropping_is_ending() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "1")]).unwrap();
    drop(session);
    assert!(made.is_original());
}

#[test]
fn a_second_session_is_refused_by_the_name_of_the_first() {
    let (made, folder) = (Made::with_threads(2), TempDir::new().unwrap());
    let (mut one, mut two) = (begin(&made, &folder, 1), begin(&made, &folder, 2));
    one.take([within(0, "0-1")]).unwrap();
    // Nothing of what it wants is changed, the free knob neither.
    let refused = two.take([within(1, "2-3"), within(0, "2-3")]).unwrap_err().to_string();
    assert!(refused.contains("affinity of thread 0") && refused.contains("process 1001 (cox 1)"), "{refused}");
    assert_eq!(made.mask(1), original(1));
    two.end();
    one.end();
    assert!(made.is_original());
}

#[test]
fn what_two_sessions_share_goes_back_when_both_have_ended() {
    for first_to_end in [1, 2] {
        let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
        let (mut one, mut two) = (begin(&made, &folder, 1), begin(&made, &folder, 2));
        one.take([within(0, "0-1")]).unwrap();
        two.take([within(0, "0-1")]).unwrap();
        let (first, last) = if first_to_end == 1 { (one, two) } else { (two, one) };
        assert_eq!(first.end(), Undone { inherited: 1, ..Undone::default() });
        assert_eq!(made.mask(0), cpus("0-1"));
        assert_eq!(last.end(), restored(1));
        assert!(made.is_original());
    }
}

#[test]
fn what_somebody_else_has_set_is_his() {
    let (made, folder) = (Made::with_threads(2), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1"), within(1, "0-1")]).unwrap();
    made.sets(0, "6");
    let undone = session.end();
    assert_eq!((undone.restored, undone.left.len(), made.mask(0), made.mask(1)), (1, 1, cpus("6"), original(1)));
    assert!(undone.left[0].to_string().contains("CPUs 6"), "{}", undone.left[0]);
}

#[test]
fn what_somebody_else_sets_while_it_is_taken_is_his_too() {
    let (made, folder) = (Made::with_threads(2), TempDir::new().unwrap());
    made.state().rebel = Some((0, cpus("6")));
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1"), within(1, "0-1")]).unwrap();
    assert_eq!((made.mask(0), made.mask(1)), (cpus("6"), cpus("0-1")));
    session.end();
    assert!(made.is_original());
}

#[test]
fn threads_that_end_meanwhile_are_no_fault() {
    let (made, folder) = (Made::with_threads(2), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1"), within(1, "0-1")]).unwrap();
    made.ends(0);
    assert!(matches!(set(&session, &affinity(0), &mask("1")), Err(Error::Gone(_))));
    assert_eq!(session.end(), Undone { restored: 1, gone: 1, ..Undone::default() });
}

#[test]
fn a_cpu_that_went_offline_is_no_obstacle() {
    let (made, folder) = (Made::with_threads(3), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1"), within(2, "0-1")]).unwrap();
    made.allows("0-4");
    let undone = session.end();
    assert_eq!((undone.restored, made.mask(0)), (1, cpus("0-4")));
    assert!(undone.left[0].reason.contains("Invalid argument"), "thread 2 was on CPU 5: {:?}", undone.left);
}

/// The kernel gives a thread that has lost all CPUs of its mask all that there are, and remembers the mask.
#[test]
fn a_mask_of_ours_that_cannot_be_any_more_is_ours() {
    for comes_back_first in [true, false] {
        let (made, folder) = (Made::with_threads(5), TempDir::new().unwrap());
        let mut session = begin(&made, &folder, 1);
        session.adopt([within(0, "0-1")]).unwrap();
        session.take([within(0, "0-1"), within(1, "0-1"), within(3, "0-1"), within(4, "0")]).unwrap();
        // Of one pack both CPUs go, or only that which the thread has.
        set(&session, &affinity(1), &mask("1")).unwrap();
        set(&session, &affinity(3), &mask("0")).unwrap();
        let (unseen, taken) = (made.bears(0), made.bears(0));
        let is_ours = |tid| session.has(&affinity(tid)).unwrap();
        made.allows("0,2-7");
        assert_eq!((made.mask(1), made.mask(3)), (cpus("0,2-7"), cpus("0")));
        assert!(is_ours(1) && is_ours(3));
        made.allows("2-7");
        session.take([born(within(taken, "0-1"), &[0])]).unwrap_err();
        made.sets(4, "6");
        let is_ours = |tid| session.has(&affinity(tid)).unwrap();
        assert!(is_ours(0) && is_ours(1) && !is_ours(4), "thread 4 has its own mask");
        if comes_back_first {
            made.allows("0-7");
        }
        let undone = session.end();
        assert_eq!((undone.restored, undone.born, undone.left.len()), (4, 1, 1), "{undone:?}");
        made.allows("0-7");
        assert_eq!(made.mask(unseen), original(0));
        assert!(made.is_original());
    }
}

#[test]
fn a_value_that_did_not_take_is_put_back_and_said() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    made.state().online = cpus("0");
    made.sets(0, "0");
    let mut session = begin(&made, &folder, 1);
    let exactly = ChangeRequest { claim: Claim::Exactly(mask("0-1")), ..within(0, "0") };
    assert!(matches!(session.take([exactly]), Err(Error::NotTaken { .. })));
    assert_eq!(made.mask(0), cpus("0"));
    session.end();
}

#[test]
fn the_next_session_settles_what_a_dead_one_has_left() {
    let (made, folder) = (Made::with_threads(2), TempDir::new().unwrap());
    let mut dead = begin(&made, &folder, 1);
    dead.take([within(0, "0-1")]).unwrap();
    kill(&made, dead, 1);
    let next = begin(&made, &folder, 2);
    assert!(made.is_original());
    next.end();
}

#[test]
fn what_another_boot_has_changed_is_void() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut dead = begin(&made, &folder, 1);
    dead.take([within(0, "0-1")]).unwrap();
    kill(&made, dead, 1);
    made.state().boot += 1;
    begin(&made, &folder, 2).end();
    assert_eq!(made.mask(0), cpus("0-1"), "another thread's, by now");
    assert!(JournalFolder::at(folder.path()).look(&made).unwrap().entries.is_empty());
}

#[test]
fn what_is_claimed_at_times_is_not_written_by_taking_it() {
    let (made, folder) = (Made::with_threads(3), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take((0..3).map(idle)).unwrap();
    assert_eq!((0..3).map(|tid| made.policy(tid)).collect::<Vec<_>>(), [0; 3]);
    let (other, at_times) = (Value::Scheduling(OTHER), idle(0).claim.first().unwrap());
    for tid in 0..2 {
        set(&session, &scheduling(tid), &at_times).unwrap();
        assert_eq!(made.policy(tid), Scheduling::IDLE);
    }
    set(&session, &scheduling(1), &other).unwrap();
    let batch = Value::Scheduling(Scheduling { policy: 3, ..OTHER });
    assert!(matches!(set(&session, &scheduling(0), &batch), Err(Error::NotClaimed { .. })));
    let nicer = Value::Scheduling(Scheduling { nice: 5, ..OTHER.idle() });
    assert!(matches!(set(&session, &scheduling(0), &nicer), Err(Error::NotClaimed { .. })));
    assert_eq!(session.end(), restored(3));
    assert!(made.is_original());
}

#[test]
fn a_nice_value_that_somebody_has_set_meanwhile_is_his_and_the_class_ours() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([idle(0)]).unwrap();
    set(&session, &scheduling(0), &idle(0).claim.first().unwrap()).unwrap();
    let nicer = Value::Scheduling(Scheduling { nice: 5, ..OTHER.idle() });
    made.write(&scheduling(0), &nicer).unwrap();
    assert_eq!(session.end(), restored(1));
    assert_eq!(made.read(&scheduling(0)).unwrap(), Value::Scheduling(Scheduling { nice: 5, ..OTHER }));
}

#[test]
fn what_could_not_be_put_back_is_not_taken() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    made.state().one_way = true;
    let mut session = begin(&made, &folder, 1);
    let refused = session.take([idle(0)]).unwrap_err();
    assert!(matches!(refused, Error::OneWay { .. }) && refused.to_string().contains("CAP_SYS_NICE"), "{refused}");
    assert!(matches!(session.handle(&scheduling(0)), Err(Error::Untaken(_))));
}

#[test]
fn a_thread_that_has_ended_before_it_is_taken_is_passed_over() {
    let (made, folder) = (Made::with_threads(2), TempDir::new().unwrap());
    made.ends(0);
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1"), within(1, "0-1")]).unwrap();
    assert!(matches!(session.handle(&affinity(0)), Err(Error::Untaken(_))));
    assert_eq!(made.mask(1), cpus("0-1"));
    assert_eq!(session.end(), restored(1));
}
