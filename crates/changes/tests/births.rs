//! Threads that are created while their process is packed, on a simulated machine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod made;

use changes::undo::Undone;
use changes::{Error, JournalFolder, Session};
use made::{Made, Then, affinity, begin, born, cpus, idle, kill, mask, original, scheduling, set, within};
use tempfile::TempDir;

/// A session that has packed the process of `leader` and has it in SCHED_IDLE for the moment.
fn packed<'m>(made: &'m Made, folder: &TempDir, leader: u32) -> Session<'m> {
    let mut session = begin(made, folder, 1);
    session.adopt([within(leader, "0-1"), idle(leader)]).unwrap();
    session.take([within(leader, "0-1"), idle(leader)]).unwrap();
    set(&session, &scheduling(leader), &idle(leader).claim.first().unwrap()).unwrap();
    session
}

fn undone(restored: usize, born: usize) -> Undone {
    Undone { restored, born, ..Undone::default() }
}

#[test]
fn a_newborn_has_its_creators_original() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut session = packed(&made, &folder, 0);
    set(&session, &affinity(0), &mask("1")).unwrap();
    let child = made.bears(0);
    assert_eq!((made.mask(child), made.policy(child)), (cpus("1"), 5));
    session.take([born(within(child, "0-1"), &[0]), born(idle(child), &[0])]).unwrap();
    let grandchild = made.bears(child);
    session.take([born(within(grandchild, "0-1"), &[child, 0]), born(idle(grandchild), &[child, 0])]).unwrap();
    assert_eq!(session.handle(&affinity(grandchild)).unwrap().original(), &changes::Value::Cpus(original(0)));
    assert_eq!(session.end(), undone(6, 0));
    assert!(made.is_original());
}

#[test]
fn a_newborn_that_sets_its_own_mask_keeps_it() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut session = packed(&made, &folder, 0);
    let (taken, untaken) = (made.bears(0), made.bears(0));
    made.sets(taken, "6");
    made.sets(untaken, "6");
    session.take([born(within(taken, "0-1"), &[0])]).unwrap();
    assert_eq!(made.mask(taken), cpus("0-1"));
    // Restored are three masks and classes that were taken; born are the classes of the two.
    assert_eq!(session.end(), undone(3, 2));
    assert_eq!((made.mask(taken), made.mask(untaken)), (cpus("6"), cpus("6")));
    assert!(made.is_original());
}

#[test]
fn the_child_of_a_creator_with_a_mask_of_its_own_has_that() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut session = packed(&made, &folder, 0);
    let child = made.bears(0);
    made.sets(child, "6");
    session.take([born(within(child, "0-1"), &[0])]).unwrap();
    let grandchild = made.bears(child);
    session.take([born(within(grandchild, "0-1"), &[child, 0])]).unwrap();
    session.end();
    assert_eq!(made.mask(grandchild), cpus("6"));
}

#[test]
fn an_unknown_creator_is_passed_over_for_the_leader() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut session = packed(&made, &folder, 0);
    let child = made.bears(0);
    let grandchild = made.bears(child);
    made.ends(child);
    session.take([born(within(grandchild, "0-1"), &[child, 0])]).unwrap();
    session.end();
    assert!(made.is_original());
}

#[test]
fn who_was_not_seen_is_swept_also_when_the_session_was_killed() {
    for is_killed in [false, true] {
        let (made, folder) = (Made::with_threads(2), TempDir::new().unwrap());
        let session = packed(&made, &folder, 0);
        let (child, stranger) = (made.bears(0), made.bears(1));
        made.sets(stranger, "0");
        if is_killed {
            kill(&made, session, 1);
            let journals = JournalFolder::at(folder.path());
            let settled = journals.settle_dead(&journals.lock().unwrap(), &made).unwrap();
            assert_eq!(settled.into_iter().map(|(_, undone)| undone).collect::<Vec<_>>(), [undone(2, 2)]);
        } else {
            assert_eq!(session.end(), undone(2, 2));
        }
        assert_eq!(made.mask(child), original(0));
        assert!(made.is_original(), "the stranger is of another process");
    }
}

#[test]
fn who_bears_while_he_is_swept_is_swept_again() {
    for then in [Then::Bear(4), Then::BearAndEnd(20)] {
        let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
        let session = packed(&made, &folder, 0);
        made.bears(0);
        made.state().then = then;
        session.end();
        assert!(made.is_original(), "{then:?}");
    }
}

#[test]
fn a_process_of_two_sessions_is_swept_by_the_last() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let one = packed(&made, &folder, 0);
    let mut two = begin(&made, &folder, 2);
    assert!(matches!(two.adopt([within(0, "2-3")]), Err(Error::Held { .. })));
    two.adopt([within(0, "0-1"), idle(0)]).unwrap();
    let child = made.bears(0);
    one.end();
    assert_eq!((made.mask(0), made.mask(child)), (original(0), cpus("0-1")), "two goes on");
    two.end();
    assert!(made.is_original());
}

#[test]
fn a_newborn_that_another_session_holds_is_not_swept() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let one = packed(&made, &folder, 0);
    let child = made.bears(0);
    let mut two = begin(&made, &folder, 2);
    two.take([born(within(child, "0-1"), &[0])]).unwrap();
    one.end();
    assert_eq!(made.mask(child), cpus("0-1"));
    two.end();
    assert!(made.is_original());
}

#[test]
fn what_was_adopted_for_one_claim_is_not_for_another() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut session = packed(&made, &folder, 0);
    session.adopt([within(0, "0-1")]).unwrap();
    assert!(matches!(session.adopt([within(0, "2-3")]), Err(Error::Conflict { .. })));
}

#[test]
fn a_process_outlives_its_leader() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let second = made.bears(0);
    made.ends(0);
    let mut session = begin(&made, &folder, 1);
    session.adopt([within(0, "0-1")]).unwrap();
    session.take([within(second, "0-1")]).unwrap();
    let third = made.bears(second);
    assert_eq!(made.mask(third), cpus("0-1"));
    session.end();
    assert!(made.is_original());
}
