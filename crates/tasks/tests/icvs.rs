//! Each task has its own control variables, which begin with its creator's values.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
#[path = "common/runtime.rs"]
mod runtime;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::{CURRENT, ROUNDS, help_until, make, plain, region, region_of_one, regions, team};
use runtime::{FIRST, allocator, at_load, expect_threads, replace, set_allocator, set_threads, threads};
use tasks::worker::Worker;

fn at_once(new: &mut tasks::making::New<std::vec::IntoIter<tasks::depend::Access>>) {
    new.at_once = true;
}

#[test]
fn a_task_begins_with_what_its_creator_has_when_it_makes_it() {
    at_load();
    let ran = AtomicU32::new(0);
    let expects = |expected: i32| {
        let ran = &ran;
        move |_: &Worker| {
            expect_threads(expected);
            ran.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (of_region, five, six, seven) = (expects(FIRST.threads), expects(5), expects(6), expects(7));
    let child = |worker: &Worker| {
        expect_threads(5);
        make(worker, &five, plain);
        set_threads(worker, 7);
        make(worker, &seven, plain);
        make(worker, &seven, at_once);
        expect_threads(7);
        worker.wait_for_children();
        expect_threads(7);
    };
    regions(2, ROUNDS, |worker, number| {
        CURRENT.set(worker);
        if number == 0 {
            make(worker, &of_region, plain);
            set_threads(worker, 5);
            make(worker, &child, plain);
            set_threads(worker, 6);
            make(worker, &six, plain);
            worker.wait_for_children();
            expect_threads(6);
        }
    });
    assert_eq!(ran.into_inner(), ROUNDS as u32 * 5);
}

/// Whether they are deferred or done at once, within each other or not.
#[test]
fn what_a_task_sets_neither_its_creator_nor_others_see() {
    at_load();
    let other = |_: &Worker| expect_threads(FIRST.threads);
    let inner = |worker: &Worker| set_threads(worker, 8);
    let sets = |worker: &Worker| {
        expect_threads(FIRST.threads);
        make(worker, &inner, at_once);
        expect_threads(FIRST.threads);
        set_threads(worker, 9);
        make(worker, &inner, plain);
        make(worker, &inner, at_once);
        worker.wait_for_children();
        expect_threads(9);
    };
    regions(2, ROUNDS, |worker, _| {
        CURRENT.set(worker);
        for ask in [plain, at_once] {
            make(worker, &sets, ask);
            expect_threads(FIRST.threads);
            make(worker, &other, ask);
            worker.wait_for_children();
            expect_threads(FIRST.threads);
        }
    });
}

/// … which ends with its region.
#[test]
fn what_a_member_sets_is_of_its_implicit_task() {
    at_load();
    let team = team(2);
    let both = Barrier::new(2);
    let here = |expected: i32| move |_: &Worker| expect_threads(expected);
    let (mine, others) = (here(30), here(31));
    for _ in 0..ROUNDS {
        region(team, false, |worker, number| {
            CURRENT.set(worker);
            let own = 30 + number as i32;
            expect_threads(FIRST.threads);
            both.wait();
            set_threads(worker, own);
            both.wait();
            expect_threads(own);
            // Whoever runs them.
            (0..5).for_each(|_| if number == 0 { make(worker, &mine, plain) } else { make(worker, &others, plain) });
            worker.barrier();
            expect_threads(own);
        });
    }
}

/// The runtime knows no region of theirs.
#[test]
fn helpers_have_what_the_region_and_the_creator_have() {
    at_load();
    // As the preload library does before the program sets one.
    tasks::icv::will_be_set();
    let (team, over) = (team(1), AtomicBool::new(false));
    let by_helpers = AtomicU32::new(0);
    let expects = |expected: i32| {
        let by_helpers = &by_helpers;
        move |worker: &Worker| {
            expect_threads(expected);
            by_helpers.fetch_add(worker.is_helper().into(), Ordering::Relaxed);
            set_threads(worker, 1);
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| help_until(&over, team));
        }
        scope.spawn(|| {
            let worker = Worker::new().unwrap();
            for round in 0..ROUNDS as i32 {
                // The program has set another number before each region.
                let before = replace(runtime_values(1000 + round));
                let (of_region, set) = (expects(1000 + round), expects(5000 + round));
                region_of_one(team, &worker, || {
                    (0..10).for_each(|_| make(&worker, &of_region, plain));
                    set_threads(&worker, 5000 + round);
                    (0..10).for_each(|_| make(&worker, &set, plain));
                });
                replace(before);
            }
            over.store(true, Ordering::Release);
        });
    });
    assert!(by_helpers.into_inner() > 0, "no helper has found a task");
}

fn runtime_values(threads: i32) -> tasks::icv::Values {
    tasks::icv::Values { threads, ..FIRST }
}

/// A region inside of a task is another context of the runtime.
#[test]
fn a_region_in_a_task_leaves_the_tasks_values_alone() {
    at_load();
    let (outer, inner) = (team(1), team(1));
    let in_inner = |worker: &Worker| {
        expect_threads(12);
        set_threads(worker, 13);
    };
    let sets = |worker: &Worker| set_threads(worker, 14);
    let task = |worker: &Worker| {
        set_threads(worker, 11);
        // What the runtime does: the implicit task begins with the creator's, and is gone at the end.
        let before = replace(runtime_values(threads()));
        inner.begin(false);
        inner.has_members(1);
        // SAFETY: leaked, and nobody else is its member.
        let outside = unsafe { worker.enter(inner, 0) };
        expect_threads(11);
        make(worker, &sets, at_once);
        expect_threads(11);
        set_threads(worker, 12);
        make(worker, &in_inner, at_once);
        make(worker, &in_inner, plain);
        worker.wait_for_children();
        expect_threads(12);
        worker.barrier();
        worker.come_back(outside);
        replace(before);
        expect_threads(11);
    };
    for _ in 0..ROUNDS {
        region(outer, false, |worker, _| {
            CURRENT.set(worker);
            for ask in [at_once, plain] {
                make(worker, &task, ask);
                worker.wait_for_children();
                expect_threads(FIRST.threads);
            }
            worker.barrier();
        });
    }
}

/// OpenMP 5.1, table 2.1: the default allocator is the implicit task's. So a thread takes it along.
#[test]
fn the_default_allocator_is_the_threads() {
    at_load();
    let sets = |worker: &Worker| {
        set_threads(worker, 20);
        set_allocator(worker, 7);
        assert_eq!((threads(), allocator()), (20, 7));
    };
    regions(1, ROUNDS, |worker, _| {
        CURRENT.set(worker);
        for ask in [at_once, plain] {
            set_allocator(worker, 1);
            make(worker, &sets, ask);
            worker.wait_for_children();
            assert_eq!((threads(), allocator()), (FIRST.threads, 7));
        }
        replace(FIRST);
    });
}
