//! Tasks that their creator runs immediately, and helpers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::{CURRENT, ROUNDS, help_until, make, plain, region_of_one, regions, team};
use tasks::depend::{Access, Kind};
use tasks::group::Group;
use tasks::helping::Helper;
use tasks::team::Team;
use tasks::worker::Worker;

/// It waits for its own children, and not for those of the task that it is done in, which may wait for it.
#[test]
fn what_is_done_at_once_waits_for_its_own_children() {
    for depth in 1..4 {
        let (over, children) = (AtomicBool::new(false), AtomicU32::new(0));
        let sibling = |_: &Worker| {
            while !over.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        };
        let child = |_: &Worker| {
            children.fetch_add(1, Ordering::Relaxed);
        };
        let innermost = |worker: &Worker| {
            let before = children.load(Ordering::Relaxed);
            (0..3).for_each(|_| make(worker, &child, plain));
            worker.wait_for_children();
            assert_eq!(children.load(Ordering::Relaxed), before + 3, "{depth}");
        };
        regions(2, ROUNDS, |worker, number| {
            CURRENT.set(worker);
            if number == 0 {
                over.store(false, Ordering::Release);
                make(worker, &sibling, plain);
                nest(worker, depth, &innermost);
                over.store(true, Ordering::Release);
                worker.wait_for_children();
            }
        });
    }
}

/// So many tasks that are done at once, one in the other.
fn nest(worker: &Worker, depth: u32, innermost: &dyn Fn(&Worker)) {
    let body = |worker: &Worker| match depth {
        1 => innermost(worker),
        _ => nest(worker, depth - 1, innermost),
    };
    make(worker, &body, |new| new.at_once = true);
}

/// Children of a task that is done at once may outlive it; the group around both waits for them.
#[test]
fn a_group_waits_for_children_of_what_was_done_at_once() {
    let late = AtomicU32::new(0);
    let child = |_: &Worker| {
        std::thread::yield_now();
        late.fetch_add(1, Ordering::Relaxed);
    };
    let outer = |worker: &Worker| {
        nest(worker, 2, &|worker| make(worker, &child, plain));
        make(worker, &child, plain);
    };
    regions(2, ROUNDS, |worker, number| {
        CURRENT.set(worker);
        if number == 0 {
            // SAFETY: within the group that is around, and alive until it is ended, below.
            let group = unsafe { Group::new(worker.group()) };
            // SAFETY: as above.
            unsafe { worker.begin_group(&group) };
            let before = late.load(Ordering::Relaxed);
            make(worker, &outer, |new| new.at_once = true);
            worker.end_group();
            assert_eq!(late.load(Ordering::Relaxed), before + 2);
        }
    });
}

/// A helper may run the last task of a region while all members sleep at its end.
#[test]
fn helpers_help_and_end_regions() {
    let team = team(1);
    let (ran, by_helpers, over) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
    let body = |worker: &Worker| {
        by_helpers.fetch_add(worker.is_helper().into(), Ordering::Relaxed);
        std::thread::yield_now();
        ran.fetch_add(1, Ordering::Relaxed);
    };
    let tasks = if cfg!(miri) { 4 } else { 50 };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| help_until(&over, team));
        }
        scope.spawn(|| {
            let worker = Worker::new().unwrap();
            for round in 1..=ROUNDS as u32 {
                region_of_one(team, &worker, || {
                    (0..tasks).for_each(|_| make(&worker, &body, plain));
                });
                assert_eq!(ran.load(Ordering::Relaxed), round * tasks);
            }
            over.store(true, Ordering::Release);
        });
    });
    assert!(by_helpers.into_inner() > 0, "no helper has found a task");
}

/// A standby whose tasks all block, or none does.
struct Standby<M> {
    blocks: bool,
    may_begin: M,
}

impl<M: FnMut(bool) -> bool> Helper for Standby<M> {
    fn may_begin(&mut self, blocks: bool) -> bool {
        (self.may_begin)(blocks)
    }

    fn begins(&mut self) {}

    fn has_run(&mut self) -> bool {
        self.blocks
    }
}

/// Has a helper help the team, until it may begin no more. How many tasks it has run.
fn help(team: &'static Team, blocks: bool, may_begin: impl FnMut(bool) -> bool + Send) -> u64 {
    let helped = || {
        let helper = Worker::new().unwrap();
        CURRENT.set(&helper);
        helper.help(team, &mut Standby { blocks, may_begin })
    };
    std::thread::scope(|scope| scope.spawn(helped).join().unwrap())
}

/// On a crowded CPU a standby begins what soon gives the CPU back, wherever that is in the queues, and nothing else.
#[test]
fn tasks_of_functions_that_block_come_first_and_begin_on_a_crowded_cpu() {
    let team = team(1);
    let order = Mutex::new(Vec::new());
    let (reads, computes) =
        (|_: &Worker| order.lock().unwrap().push("reads"), |_: &Worker| order.lock().unwrap().push("computes"));
    let worker = Worker::new().unwrap();
    region_of_one(team, &worker, || {
        make(&worker, &reads, plain);
        assert_eq!(help(team, true, |_| true), 1, "its first task: nothing is known of it");
        (0..3).for_each(|_| make(&worker, &computes, plain));
        (0..2).for_each(|_| make(&worker, &reads, plain));
        assert_eq!(help(team, true, |blocks| blocks), 2);
        assert_eq!(*order.lock().unwrap(), ["reads"; 3]);
        make(&worker, &reads, plain);
        assert_eq!(help(team, false, |blocks| blocks), 1, "it does not block any more");
        make(&worker, &reads, plain);
        assert_eq!(help(team, true, |blocks| blocks), 0);
    });
    assert_eq!(order.lock().unwrap().len(), 8, "who had to begin the others is the only member");
}

/// Each standby would go through one chain otherwise, and the chains that none of them has begun would be left to the end.
#[test]
fn chains_of_tasks_that_block_go_forward_together() {
    let team = team(1);
    let order = Mutex::new(Vec::new());
    let links = [0, 1, 2].map(|chain| {
        let order = &order;
        move |_: &Worker| order.lock().unwrap().push(chain)
    });
    let worker = Worker::new().unwrap();
    region_of_one(team, &worker, || {
        make(&worker, &links[0], plain);
        assert_eq!(help(team, true, |_| true), 1, "they block, as is known now");
        for _ in 0..4 {
            for (chain, link) in links.iter().enumerate() {
                let access = Access::At(64 * (1 + chain), Kind::Out);
                make(&worker, link, |new| new.accesses = Some(vec![access].into_iter()));
            }
        }
        assert_eq!(help(team, true, |_| true), 12);
    });
    let order = &order.into_inner().unwrap()[1..];
    for (length, _) in order.iter().enumerate() {
        let begun = [0, 1, 2].map(|chain| order[..=length].iter().filter(|link| **link == chain).count());
        assert!(begun.iter().max().unwrap() - begun.iter().min().unwrap() <= 1, "{order:?}");
    }
}

/// What a helper has made ready, and leaves, comes before what the others have of their own.
#[test]
fn what_a_helper_leaves_behind_comes_first() {
    let team = team(1);
    let order = Mutex::new(Vec::new());
    let by_name = ["from outside", "awaits it", "awaits it too", "another", "another"].map(|name| {
        let order = &order;
        move |_: &Worker| order.lock().unwrap().push(name)
    });
    let worker = Worker::new().unwrap();
    region_of_one(team, &worker, || {
        for (body, access) in by_name.iter().zip([Some(Kind::Out), Some(Kind::In), Some(Kind::In), None, None]) {
            make(&worker, body, |new| new.accesses = access.map(|kind| vec![Access::At(64, kind)].into_iter()));
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let helper = Worker::new().unwrap();
                CURRENT.set(&helper);
                let mut begins = [true, false].into_iter();
                assert_eq!(helper.help(team, &mut Standby { blocks: false, may_begin: |_| begins.next().unwrap() }), 1);
            });
        });
    });
    let order = order.into_inner().unwrap();
    assert_eq!(order[0], "from outside", "the oldest");
    assert!(order[1].starts_with("awaits") && order[2].starts_with("awaits") && order.len() == 5, "{order:?}");
}

/// No two tasks have one number at a time, of members or helpers, and each has one of the team's.
#[test]
fn numbers_are_held_by_one() {
    let team = team(2);
    let held = [const { AtomicBool::new(false) }; 2];
    let over = AtomicBool::new(false);
    let body = |worker: &Worker| {
        let number = worker.thread_number().unwrap() as usize;
        assert!(!held[number].swap(true, Ordering::AcqRel), "two have number {number}");
        std::thread::yield_now();
        assert_eq!(worker.thread_number().unwrap() as usize, number);
        held[number].store(false, Ordering::Release);
    };
    let arrived = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| help_until(&over, team));
        }
        let members: Vec<_> = (0..2)
            .map(|number| {
                let (body, arrived) = (&body, &arrived);
                scope.spawn(move || {
                    let worker = Worker::new().unwrap();
                    CURRENT.set(&worker);
                    for _ in 0..ROUNDS {
                        arrived.wait();
                        team.has_members(2);
                        // SAFETY: leaked, and each member has a number of its own.
                        let before = unsafe { worker.enter(team, number) };
                        assert_eq!(worker.thread_number(), Some(number), "its own");
                        (0..6).for_each(|_| make(&worker, body, plain));
                        worker.wait_for_children();
                        assert_eq!(worker.thread_number(), Some(number), "its own again");
                        worker.barrier();
                        worker.come_back(before);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = members.into_iter().map(|member| member.join()).collect();
        over.store(true, Ordering::Release);
        assert!(ended.iter().all(Result::is_ok));
    });
}
