//! Tasks with events: such a task is complete when its body has ended and its event is fulfilled.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{CURRENT, ROUNDS, make, plain, regions};
use tasks::depend::{Access, Kind};
use tasks::event::is_ours;
use tasks::fulfilling::fulfil;
use tasks::group::Group;
use tasks::worker::Worker;

/// By a thread that is no worker, which counts first.
fn fulfil_elsewhere(event: &AtomicUsize, fulfilled: &Arc<AtomicUsize>) {
    let (event, fulfilled) = (event.load(Ordering::Relaxed), fulfilled.clone());
    std::thread::spawn(move || {
        std::thread::yield_now();
        fulfilled.fetch_add(1, Ordering::Relaxed);
        // SAFETY: given by `make`.
        unsafe { fulfil(event) };
    });
}

#[test]
fn a_barrier_sleeps_until_the_last_event_is_fulfilled() {
    for threads in [1, 2, 3] {
        let (event, fulfilled) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let body = |_: &Worker| fulfil_elsewhere(&event, &fulfilled);
        regions(threads, ROUNDS, |worker, number| {
            CURRENT.set(worker);
            if number == 0 {
                let before = fulfilled.load(Ordering::Relaxed);
                make(worker, &body, |new| new.event = Some(event.as_ptr()));
                worker.barrier();
                assert_eq!(fulfilled.load(Ordering::Relaxed), before + 1);
                // The next one is for the region's end.
                make(worker, &body, |new| new.event = Some(event.as_ptr()));
            } else {
                worker.barrier();
            }
        });
        assert_eq!(fulfilled.load(Ordering::Relaxed), 2 * ROUNDS);
        assert!(is_ours(event.into_inner()));
    }
}

#[test]
fn what_is_done_at_once_waits_for_its_event_and_for_those_before() {
    let (event, fulfilled) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let body = |_: &Worker| fulfil_elsewhere(&event, &fulfilled);
    let nothing = |_: &Worker| {};
    let access = |kind| Some(vec![Access::At(64, kind)].into_iter());
    regions(2, ROUNDS, |worker, number| {
        CURRENT.set(worker);
        if number == 0 {
            let before = fulfilled.load(Ordering::Relaxed);
            make(worker, &body, |new| (new.event, new.accesses) = (Some(event.as_ptr()), access(Kind::Out)));
            make(worker, &nothing, |new| (new.at_once, new.accesses) = (true, access(Kind::In)));
            assert_eq!(fulfilled.load(Ordering::Relaxed), before + 1);
            make(worker, &body, |new| (new.event, new.at_once) = (Some(event.as_ptr()), true));
            assert_eq!(fulfilled.load(Ordering::Relaxed), before + 2);
        }
    });
}

/// However many there are: none is done at once and waited for.
#[test]
fn who_makes_tasks_may_be_who_fulfils_their_events() {
    let many = if cfg!(miri) { 20 } else { 20_000 };
    let done = AtomicUsize::new(0);
    let leaf = |_: &Worker| _ = done.fetch_add(1, Ordering::Relaxed);
    let body = |worker: &Worker| make(worker, &leaf, plain);
    for threads in [1, 2] {
        done.store(0, Ordering::Relaxed);
        regions(threads, 1, |worker, number| {
            CURRENT.set(worker);
            if number == 0 {
                let event = AtomicUsize::new(0);
                let events: Vec<_> = (0..many)
                    .map(|_| {
                        make(worker, &body, |new| new.event = Some(event.as_ptr()));
                        event.load(Ordering::Relaxed)
                    })
                    .collect();
                // SAFETY: given by `make`.
                events.into_iter().for_each(|event| unsafe { fulfil(event) });
                worker.wait_for_children();
            }
        });
        assert_eq!(done.load(Ordering::Relaxed), many);
    }
}

#[test]
fn a_cancelled_task_needs_no_event() {
    let done = AtomicUsize::new(0);
    let leaf = |_: &Worker| _ = done.fetch_add(1, Ordering::Relaxed);
    regions(1, 1, |worker, _| {
        CURRENT.set(worker);
        let event = AtomicUsize::new(0);
        // SAFETY: the one around lasts longer.
        let group = unsafe { Group::new(worker.group()) };
        // SAFETY: ended below.
        unsafe { worker.begin_group(&group) };
        make(worker, &leaf, |new| new.event = Some(event.as_ptr()));
        group.cancel();
        worker.end_group();
        // What lies where the task was is not concerned.
        make(worker, &leaf, plain);
        // SAFETY: given by `make`.
        unsafe { fulfil(event.load(Ordering::Relaxed)) };
    });
    assert_eq!(done.into_inner(), 1);
}
