//! Handles on a simulated machine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod made;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use changes::{Error, KnobHandle, Value};
use made::{Made, affinity, begin, cpus, idle, mask, original, scheduling, within};
use tempfile::TempDir;

#[test]
fn a_handle_sets_what_is_claimed_and_the_original() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1"), idle(0)]).unwrap();
    let (place, class) = (session.handle(&affinity(0)).unwrap(), session.handle(&scheduling(0)).unwrap());
    place.apply(&place.prepare(&mask("1")).unwrap()).unwrap();
    class.apply(&class.prepare(&idle(0).claim.first().unwrap()).unwrap()).unwrap();
    assert_eq!((made.mask(0), made.policy(0)), (cpus("1"), 5));
    for handle in [&place, &class] {
        handle.apply(&handle.prepare(handle.original()).unwrap()).unwrap();
    }
    assert!(made.is_original());
    session.end();
}

#[test]
fn what_is_not_claimed_is_refused_when_it_is_prepared() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1"), idle(0)]).unwrap();
    let (place, class) = (session.handle(&affinity(0)).unwrap(), session.handle(&scheduling(0)).unwrap());
    for refused in [place.prepare(&mask("1-2")), place.prepare(&Value::Cpus(cpus(""))), class.prepare(&mask("1"))] {
        assert!(matches!(refused, Err(Error::NotClaimed { .. })), "{refused:?}");
    }
    assert!(matches!(session.handle(&affinity(9)), Err(Error::Untaken(_))));
}

#[test]
fn a_setting_serves_all_handles_with_the_same_claim_and_original_and_no_other() {
    let (made, folder) = (Made::with_threads(5), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1"), within(3, "0-1"), within(1, "0-1"), within(4, "0-2"), idle(0)]).unwrap();
    let handle = |tid| session.handle(&affinity(tid)).unwrap();
    let setting = handle(0).prepare(&mask("1")).unwrap();
    handle(3).apply(&setting).unwrap();
    assert_eq!(made.mask(3), cpus("1"));
    // Thread 1 has another original, thread 4 another claim as well.
    for other in [handle(1), handle(4), session.handle(&scheduling(0)).unwrap()] {
        assert!(matches!(other.apply(&setting), Err(Error::NotClaimed { .. })));
    }
    assert_eq!(made.mask(1), cpus("0-1"));
}

#[test]
fn a_handle_sees_that_somebody_else_has_set_the_mask() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1"), idle(0)]).unwrap();
    let handle = session.handle(&affinity(0)).unwrap();
    let bounds = handle.prepare(&mask("0-1")).unwrap();
    handle.apply(&handle.prepare(&mask("1")).unwrap()).unwrap();
    assert!(handle.is_within(&bounds).unwrap());
    made.sets(0, "1-2");
    assert!(!handle.is_within(&bounds).unwrap());
    let class = session.handle(&scheduling(0)).unwrap();
    assert!(matches!(handle.is_within(&class.prepare(class.original()).unwrap()), Err(Error::Knob { .. })));
    made.ends(0);
    assert!(matches!(handle.is_within(&bounds), Err(Error::Gone(_))));
}

#[test]
fn a_handle_on_a_thread_that_has_ended_says_so() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1")]).unwrap();
    let handle = session.handle(&affinity(0)).unwrap();
    let setting = handle.prepare(&mask("1")).unwrap();
    made.ends(0);
    assert!(matches!(handle.apply(&setting), Err(Error::Gone(knob)) if *knob == affinity(0)));
}

#[test]
fn a_handle_after_the_end_writes_nothing() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    for ends_itself in [true, false] {
        let mut session = begin(&made, &folder, 1);
        session.take([within(0, "0-1")]).unwrap();
        let handle = session.handle(&affinity(0)).unwrap();
        let setting = handle.prepare(&mask("1")).unwrap();
        handle.apply(&setting).unwrap();
        if ends_itself {
            session.end();
        } else {
            drop(session);
        }
        assert!(matches!(handle.apply(&setting), Err(Error::Ended(_))));
        assert_eq!(made.mask(0), original(0));
    }
}

/// Many threads write while the session ends: whatever the moment, what remains is the original.
#[test]
fn no_write_survives_the_undo() {
    for _ in 0..50 {
        let (made, folder) = (Made::with_threads(3), TempDir::new().unwrap());
        let mut session = begin(&made, &folder, 1);
        session.take((0..3).map(|tid| within(tid, "0-1"))).unwrap();
        let handles: Vec<KnobHandle> = (0..3).map(|tid| session.handle(&affinity(tid)).unwrap()).collect();
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            for handle in &handles {
                scope.spawn(|| {
                    let setting = handle.prepare(&mask("1")).unwrap();
                    while !has_ended.load(Ordering::Relaxed) {
                        // Refused from some moment on.
                        let _ = handle.apply(&setting);
                        thread::yield_now();
                    }
                    assert!(matches!(handle.apply(&setting), Err(Error::Ended(_))));
                });
            }
            thread::sleep(Duration::from_micros(200));
            session.end();
            has_ended.store(true, Ordering::Relaxed);
        });
        assert!(made.is_original());
    }
}

#[test]
fn handles_are_for_any_thread_and_outlive_the_session() {
    fn is_free<T: Send + Sync + 'static>() {}
    is_free::<KnobHandle>();
    is_free::<changes::Setting>();
}
