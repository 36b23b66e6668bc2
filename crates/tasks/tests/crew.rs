//! Threads of a team run tasks: all of them, once, in an order that their dependences allow.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use common::{CURRENT, ROUNDS, make, plain, region, regions, team};
use tasks::depend::{Access, Kind};
use tasks::group::Group;
use tasks::worker::Worker;

#[test]
fn a_barrier_waits_for_all_tasks_whoever_made_them() {
    for threads in [1, 2, 3] {
        let done = AtomicUsize::new(0);
        let grandchild = |_: &Worker| _ = done.fetch_add(1, Ordering::Relaxed);
        let child = |worker: &Worker| {
            make(worker, &grandchild, plain);
            done.fetch_add(1, Ordering::Relaxed);
        };
        regions(threads, ROUNDS, |worker, _| {
            CURRENT.set(worker);
            for _ in 0..10 {
                make(worker, &child, plain);
            }
            worker.barrier();
            let seen = done.load(Ordering::Relaxed);
            assert_eq!(seen % (20 * threads as usize), 0);
            worker.barrier();
        });
        assert_eq!(done.into_inner(), ROUNDS * 20 * threads as usize);
    }
}

/// A tree in which each task waits for two others: memory of parents and children comes and goes.
fn branch(worker: &Worker, left: u32, done: &AtomicUsize) {
    done.fetch_add(1, Ordering::Relaxed);
    if left > 0 {
        let before = AtomicU32::new(0);
        let below = |worker: &Worker| {
            branch(worker, left - 1, done);
            before.fetch_add(1, Ordering::Relaxed);
        };
        make(worker, &below, plain);
        make(worker, &below, plain);
        worker.wait_for_children();
        assert_eq!(before.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn tasks_wait_for_their_children() {
    let depth = if cfg!(miri) { 4 } else { 10 };
    for threads in [1, 2, 3] {
        let done = AtomicUsize::new(0);
        let root = |worker: &Worker| branch(worker, depth, &done);
        regions(threads, ROUNDS / 2, |worker, number| {
            CURRENT.set(worker);
            if number == 0 {
                make(worker, &root, plain);
            }
        });
        assert_eq!(done.into_inner(), (ROUNDS / 2) * ((2 << depth) - 1));
    }
}

#[test]
fn a_group_waits_for_all_below() {
    let done = AtomicUsize::new(0);
    let leaf = |_: &Worker| {
        std::thread::yield_now();
        done.fetch_add(1, Ordering::Relaxed);
    };
    let child = |worker: &Worker| make(worker, &leaf, plain);
    regions(2, ROUNDS, |worker, number| {
        CURRENT.set(worker);
        if number == 0 {
            let before = done.load(Ordering::Relaxed);
            // SAFETY: the one around lasts longer.
            let group = unsafe { Group::new(worker.group()) };
            // SAFETY: ended below.
            unsafe { worker.begin_group(&group) };
            for _ in 0..5 {
                make(worker, &child, plain);
            }
            worker.end_group();
            assert_eq!(done.load(Ordering::Relaxed), before + 5);
            assert!(worker.group().is_null());
        }
    });
}

/// Whoever waits may run what is below it, also when the generation in between is over, and its memory would be another's.
#[test]
fn descendants_are_known_when_their_parents_are_gone() {
    let done = AtomicUsize::new(0);
    let leaf = |_: &Worker| _ = done.fetch_add(1, Ordering::Relaxed);
    let third = |worker: &Worker| make(worker, &leaf, plain);
    let second = |worker: &Worker| (0..2).for_each(|_| make(worker, &third, plain));
    let first = |worker: &Worker| make(worker, &second, plain);
    // Also where one in between has waited for its own children, who ended before theirs.
    let waiting = |worker: &Worker| {
        make(worker, &second, plain);
        worker.wait_for_children();
    };
    let other = |worker: &Worker| make(worker, &waiting, plain);
    // Both threads wait for their own only: nobody at a barrier takes what they refuse.
    regions(2, ROUNDS * 5, |worker, _| {
        CURRENT.set(worker);
        for way in 0..2 {
            // SAFETY: the one around lasts longer.
            let group = unsafe { Group::new(worker.group()) };
            // SAFETY: ended below.
            unsafe { worker.begin_group(&group) };
            if way == 0 {
                make(worker, &first, plain);
            } else {
                make(worker, &other, plain);
            }
            worker.end_group();
        }
    });
    assert_eq!(done.into_inner(), ROUNDS * 5 * 2 * 2 * 2);
}

#[test]
fn a_more_urgent_task_of_somebody_else_hides_no_other() {
    let done = AtomicUsize::new(0);
    let leaf = |_: &Worker| _ = done.fetch_add(1, Ordering::Relaxed);
    let waits = |worker: &Worker| {
        let before = AtomicU32::new(0);
        let mine = |_: &Worker| _ = before.fetch_add(1, Ordering::Relaxed);
        make(worker, &mine, |new| new.priority = 1);
        worker.wait_for_children();
        assert_eq!(before.load(Ordering::Relaxed), 1);
    };
    regions(2, ROUNDS, |worker, _| {
        CURRENT.set(worker);
        make(worker, &leaf, |new| new.priority = 5);
        make(worker, &waits, |new| new.at_once = true);
    });
    assert_eq!(done.into_inner(), ROUNDS * 2);
}

#[test]
fn a_cancelled_group_begins_nothing() {
    let done = AtomicUsize::new(0);
    let leaf = |_: &Worker| _ = done.fetch_add(1, Ordering::Relaxed);
    regions(1, 1, |worker, _| {
        CURRENT.set(worker);
        // SAFETY: the one around lasts longer.
        let group = unsafe { Group::new(worker.group()) };
        // SAFETY: ended below.
        unsafe { worker.begin_group(&group) };
        make(worker, &leaf, plain);
        group.cancel();
        make(worker, &leaf, plain);
        worker.end_group();
    });
    assert_eq!(done.into_inner(), 0);
}

/// Who waits at a barrier is let go, all meet at the region's end, and the next region is as ever.
#[test]
fn a_cancelled_region_ends() {
    let (done, past) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let leaf = |_: &Worker| _ = done.fetch_add(1, Ordering::Relaxed);
    // At an end that is a barrier, and at one that is none.
    for (threads, has_none) in [1, 2, 3].into_iter().flat_map(|threads| [(threads, false), (threads, true)]) {
        let (team, before) = (team(threads), done.load(Ordering::Relaxed));
        for round in 0..ROUNDS as u32 {
            region(team, has_none, |worker, number| {
                CURRENT.set(worker);
                let cancels = round % (threads + 1) == number;
                if !worker.barrier_or_cancel() && cancels {
                    team.cancel();
                    // No more tasks.
                    make(worker, &leaf, plain);
                }
                if !worker.barrier_or_cancel() {
                    past.fetch_add(1, Ordering::Relaxed);
                    make(worker, &leaf, plain);
                }
                worker.end_region();
            });
        }
        assert_eq!(done.load(Ordering::Relaxed) - before, past.swap(0, Ordering::Relaxed), "{threads} threads");
    }
}

#[test]
fn dependences_are_kept() {
    const CHAINS: usize = 3;
    let links = if cfg!(miri) { 10 } else { 2000 };
    let chains = [const { AtomicUsize::new(0) }; CHAINS];
    let readers = AtomicUsize::new(0);
    let bodies: Vec<_> = (0..links)
        .map(|link| {
            let (chains, readers) = (&chains, &readers);
            move |_: &Worker| {
                let (chain, place) = (&chains[link % CHAINS], link / CHAINS);
                assert_eq!(chain.load(Ordering::Relaxed), place, "chain {}", link % CHAINS);
                chain.store(place + 1, Ordering::Relaxed);
                // Of the neighbour one has run, or the same number: its next waits for us, who read it.
                let other = chains[(link + 1) % CHAINS].load(Ordering::Relaxed);
                readers.fetch_max(other.abs_diff(place), Ordering::Relaxed);
            }
        })
        .collect();
    for threads in [1, 2, 3] {
        chains.iter().for_each(|chain| chain.store(0, Ordering::Relaxed));
        regions(threads, 1, |worker, number| {
            CURRENT.set(worker);
            if number == 0 {
                for (link, body) in bodies.iter().enumerate() {
                    let own = Access::At(8 + 8 * (link % CHAINS), Kind::Out);
                    let other = Access::At(8 + 8 * ((link + 1) % CHAINS), Kind::In);
                    make(worker, body, |new| new.accesses = Some(vec![own, other].into_iter()));
                }
            }
        });
        let done: usize = chains.iter().map(|chain| chain.load(Ordering::Relaxed)).sum();
        assert_eq!(done, links, "{threads} threads");
        assert!(readers.load(Ordering::Relaxed) <= 1, "a chain ran ahead of one that reads it");
    }
}

#[test]
fn many_readers_of_one_writer() {
    let (written, early) = (AtomicU32::new(0), AtomicU32::new(0));
    let read = |_: &Worker| _ = early.fetch_add(u32::from(written.load(Ordering::Relaxed) % 2 == 0), Ordering::Relaxed);
    let write = |_: &Worker| {
        std::thread::yield_now();
        written.fetch_add(1, Ordering::Relaxed);
    };
    regions(2, ROUNDS, |worker, number| {
        CURRENT.set(worker);
        if number == 0 {
            let access = |kind| Some(vec![Access::At(64, kind)].into_iter());
            make(worker, &write, |new| new.accesses = access(Kind::Out));
            for _ in 0..20 {
                make(worker, &read, |new| new.accesses = access(Kind::In));
            }
            // More edges than this one has room for.
            make(worker, &write, |new| new.accesses = access(Kind::Out));
        }
    });
    assert_eq!((written.into_inner() as usize, early.into_inner()), (2 * ROUNDS, 0));
}

#[test]
fn what_is_done_at_once_waits_for_what_it_depends_on() {
    let written = AtomicU32::new(0);
    let write = |_: &Worker| {
        std::thread::yield_now();
        written.fetch_add(1, Ordering::Relaxed);
    };
    let nothing = |_: &Worker| {};
    regions(2, ROUNDS, |worker, number| {
        CURRENT.set(worker);
        if number == 0 {
            let before = written.load(Ordering::Relaxed);
            let access = |kind| Some(vec![Access::At(64, kind)].into_iter());
            make(worker, &write, |new| new.accesses = access(Kind::Out));
            make(worker, &nothing, |new| {
                new.accesses = access(Kind::In);
                new.at_once = true;
            });
            assert_eq!(written.load(Ordering::Relaxed), before + 1);
        }
    });
}

#[test]
fn the_urgent_come_first() {
    let order = std::sync::Mutex::new(Vec::new());
    let bodies: Vec<_> = [0, 5, 1, 5]
        .iter()
        .map(|priority| {
            let order = &order;
            move |_: &Worker| order.lock().unwrap().push(*priority)
        })
        .collect();
    regions(1, 1, |worker, _| {
        CURRENT.set(worker);
        for (body, priority) in bodies.iter().zip([0, 5, 1, 5]) {
            make(worker, body, |new| new.priority = priority);
        }
    });
    assert_eq!(*order.lock().unwrap(), [5, 5, 1, 0]);
}

#[test]
fn all_below_a_final_task_is_done_at_once() {
    let done = AtomicU32::new(0);
    let below = |worker: &Worker| {
        assert!(worker.is_final());
        done.fetch_add(1, Ordering::Relaxed);
    };
    let is_final = |worker: &Worker| {
        let before = done.load(Ordering::Relaxed);
        make(worker, &below, plain);
        assert_eq!(done.load(Ordering::Relaxed), before + 1);
    };
    regions(1, 1, |worker, _| {
        CURRENT.set(worker);
        make(worker, &is_final, |new| new.is_final = true);
        assert!(!worker.is_final());
    });
    assert_eq!(done.into_inner(), 1);
}

#[test]
fn who_has_nothing_to_do_sleeps_and_is_woken() {
    let by_others = AtomicU32::new(0);
    let first = std::sync::OnceLock::new();
    let body = |worker: &Worker| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        by_others.fetch_add(u32::from(worker.member() != *first.get().unwrap()), Ordering::Relaxed);
    };
    regions(3, if cfg!(miri) { 1 } else { 5 }, |worker, number| {
        CURRENT.set(worker);
        if number == 0 {
            first.get_or_init(|| worker.member());
            // Long enough for the others to lie down.
            std::thread::sleep(std::time::Duration::from_millis(20));
            for _ in 0..30 {
                make(worker, &body, plain);
            }
        }
    });
    assert!(by_others.into_inner() > 0, "nobody was woken");
}
