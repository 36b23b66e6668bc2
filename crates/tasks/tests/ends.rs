//! The end of regions that probably have no tasks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::{CURRENT, ROUNDS, help_until, make, plain, region, team};
use tasks::worker::Worker;

fn wait_for(what: &AtomicBool) {
    while !what.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// Nobody waits there as long as there is no task. A task that is made after all is awaited by who has made it, and by who comes later.
#[test]
fn members_go_on_as_long_as_there_is_no_task() {
    let team = team(3);
    for _ in 0..ROUNDS {
        let (has_gone, has_made, ran) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU32::new(0));
        let child = |_: &Worker| _ = ran.fetch_add(1, Ordering::Relaxed);
        let body = |worker: &Worker| {
            make(worker, &child, plain);
            ran.fetch_add(1, Ordering::Relaxed);
        };
        region(team, true, |worker, number| {
            CURRENT.set(worker);
            match number {
                // It would wait for ever if it waited for the others.
                0 => {
                    worker.end_region();
                    has_gone.store(true, Ordering::Release);
                }
                1 => {
                    wait_for(&has_gone);
                    (0..10).for_each(|_| make(worker, &body, plain));
                    has_made.store(true, Ordering::Release);
                    worker.end_region();
                    assert_eq!(ran.load(Ordering::Relaxed), 20);
                }
                _ => {
                    wait_for(&has_made);
                    worker.end_region();
                    assert_eq!(ran.load(Ordering::Relaxed), 20);
                }
            }
        });
    }
}

/// Each leaves the team as the next region, of either kind, expects it: nobody passes a barrier that has not been passed.
#[test]
fn regions_of_both_kinds_follow_each_other() {
    let team = team(2);
    for round in 0..ROUNDS {
        let ran = AtomicU32::new(0);
        let body = |_: &Worker| _ = ran.fetch_add(1, Ordering::Relaxed);
        let has_tasks = round % 3 == 0;
        region(team, round % 2 == 0, |worker, number| {
            CURRENT.set(worker);
            worker.barrier();
            if has_tasks && number == 1 {
                make(worker, &body, plain);
            }
            worker.end_region();
        });
        assert_eq!(ran.into_inner(), has_tasks.into());
        let came = AtomicU32::new(0);
        region(team, false, |worker, _| {
            came.fetch_add(1, Ordering::Relaxed);
            worker.barrier();
            assert_eq!(came.load(Ordering::Relaxed), 2);
            worker.end_region();
        });
    }
}

/// Who was let go from a barrier of a cancelled region, and has not come to another one since, is counted where it comes next.
#[test]
fn cancelled_regions_of_both_kinds_follow_each_other() {
    let team = team(2);
    for _ in 0..ROUNDS {
        for lets_go in [true, false] {
            let has_come = AtomicBool::new(false);
            let has_cancelled = AtomicBool::new(false);
            region(team, lets_go, |worker, number| {
                CURRENT.set(worker);
                if number == 1 {
                    // In the second it cancels before the other has come to a barrier.
                    if lets_go {
                        wait_for(&has_come);
                        std::thread::yield_now();
                    }
                    team.cancel();
                    has_cancelled.store(true, Ordering::Release);
                } else if lets_go {
                    has_come.store(true, Ordering::Release);
                    worker.barrier_or_cancel();
                } else {
                    wait_for(&has_cancelled);
                }
                worker.end_region();
            });
        }
    }
}

/// Who has no more to do than wait for the last task sleeps, and is woken by whoever ends it.
#[test]
fn a_helper_that_ends_the_last_task_lets_its_maker_go() {
    let team = team(1);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| help_until(&over, team));
        for _ in 0..ROUNDS / 10 + 1 {
            let (has_begun, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
            let body = |_: &Worker| {
                has_begun.store(true, Ordering::Release);
                std::thread::sleep(std::time::Duration::from_millis(5));
                has_ended.store(true, Ordering::Release);
            };
            region(team, true, |worker, _| {
                CURRENT.set(worker);
                make(worker, &body, plain);
                wait_for(&has_begun);
                worker.end_region();
                assert!(has_ended.load(Ordering::Acquire));
            });
        }
        over.store(true, Ordering::Release);
    });
}
