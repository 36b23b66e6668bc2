//! Control variables that the program sets before its regions, and never in a task. A test program of its own, because the note that a
//! variable was set stays for the whole process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
#[path = "common/runtime.rs"]
mod runtime;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::{ROUNDS, help_until, make, plain, region_of_one, team};
use runtime::{FIRST, at_load, expect_threads, replace};
use tasks::icv::{Values, will_be_set};
use tasks::worker::Worker;

/// Also a helper, of whose thread the runtime knows nothing.
#[test]
fn all_tasks_of_a_region_have_what_was_set_before_it() {
    at_load();
    let (team, over, by_helpers) = (team(1), AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| help_until(&over, team));
        scope.spawn(|| {
            let worker = Worker::new().unwrap();
            for round in 0..ROUNDS as i32 {
                // In every second region what the process has begun with.
                let expected = if round % 2 == 0 { FIRST.threads } else { round };
                if round > 0 {
                    will_be_set();
                    replace(Values { threads: expected, ..FIRST });
                }
                let body = |worker: &Worker| {
                    expect_threads(expected);
                    by_helpers.fetch_add(worker.is_helper().into(), Ordering::Relaxed);
                    std::thread::yield_now();
                };
                region_of_one(team, &worker, || {
                    (0..20).for_each(|_| make(&worker, &body, plain));
                });
            }
            over.store(true, Ordering::Release);
        });
    });
    assert!(by_helpers.into_inner() > 0, "no helper has found a task");
}
