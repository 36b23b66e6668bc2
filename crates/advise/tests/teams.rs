//! Threads that wait for one another: more threads than CPUs, unequal work, and locks, whatever the number of CPUs and the way threads wait.

mod staged;

use advise::{Confidence, Kind, Verdict};
use staged::common::{UNEQUAL, asleep, convoy, crowd_spinning, expect, judge, text, three_unequal};
use staged::{Behind, IDLE, Life, SIBLINGS, Stage};
use wire::Cause;

#[test]
fn too_many_threads_spinning() {
    for (threads, cpus) in [(3, 2), (4, 2), (12, 8), (9, 8), (80, 64), (256, 64)] {
        for work in [0.2, 0.6, 0.85] {
            expect(&crowd_spinning(threads, cpus, work), Kind::TooManyThreadsSpinning);
        }
    }
}

#[test]
fn too_many_threads_yielding_counts_as_spinning() {
    for (threads, cpus, yielded) in [(3, 2, 0.30), (16, 8, 0.45), (96, 64, 0.3)] {
        let run = f64::from(cpus) / threads as f64;
        let life = Life { spin: 0.05, yielded, preempted: 1.0 - run - yielded, ..Life::default() };
        expect(&Stage::alike(cpus, SIBLINGS, threads, &life), Kind::TooManyThreadsSpinning);
    }
}

#[test]
fn too_many_threads_sleeping() {
    let lives = [
        (3, 2, Life { futex: 0.33, preempted: 0.12, wake_delay: 0.05, ..Life::default() }),
        (4, 2, Life { futex: 0.20, preempted: 0.25, wake_delay: 0.10, ..Life::default() }),
        (8, 2, Life { futex: 0.25, preempted: 0.40, wake_delay: 0.12, ..Life::default() }),
        (16, 8, Life { futex: 0.22, preempted: 0.25, wake_delay: 0.10, ..Life::default() }),
        (96, 64, Life { futex: 0.30, preempted: 0.13, wake_delay: 0.02, ..Life::default() }),
    ];
    for (threads, cpus, life) in lives {
        let life = Life { wakeups_per_s: 1000.0, woken_by: vec![100, 101, 102], ..life };
        let verdict = expect(&Stage::alike(cpus, SIBLINGS, threads, &life), Kind::TooManyThreadsSleeping);
        assert!(verdict.sentences[0].text.contains(&format!("{threads} threads")), "{}", text(&verdict));
    }
}

#[test]
fn three_spinners_on_two_cpus_are_bound_by_their_work() {
    let mut stage = crowd_spinning(3, 2, 0.65);
    stage.facts.verbs = ["pack", "advise"].map(str::to_owned).into();
    let verdict = expect(&stage, Kind::TooManyThreadsSpinning);
    let steps = &verdict.sentences[0].next;
    let actions: Vec<&str> = steps.iter().map(|step| step.action.as_str()).collect();
    assert_eq!(actions, ["OMP_NUM_THREADS=2", "cox advise --cpus 0-1 -- ./app …"]);
    // Work is 0.65 of two CPUs' time: 1 / 0.65 = 1.538. It can shrink when the threads no longer take turns. Half a 90 % interval of the spinning is 1.0 % of
    // the work: the range is so much wider at both ends.
    assert!(steps.iter().all(|step| step.bound.is_none()), "{}", text(&verdict));
    assert_eq!((steps[0].expected_low, steps[0].expected_high), (Some(1.293), Some(1.785)));
    assert_eq!(steps[1].expected_low, None);
}

#[test]
fn programs_that_run_are_packed_as_they_are() {
    for (command, step) in [
        (vec!["--pid", "4711"], Some("cox pack --cpus 0-1 --pid 4711")),
        (vec!["--pid", "7", "--pid", "8"], Some("cox pack --cpus 0-1 --pid 7 --pid 8")),
        (vec!["--cgroup", "x"], None),
    ] {
        let mut stage = crowd_spinning(3, 2, 0.65);
        stage.facts.verbs = ["pack", "advise"].map(str::to_owned).into();
        stage.facts.command = command.into_iter().map(str::to_owned).collect();
        let verdict = expect(&stage, Kind::TooManyThreadsSpinning);
        let named = verdict.sentences[0].next.iter().map(|step| step.action.as_str()).find(|s| s.starts_with("cox "));
        assert_eq!(named, step);
    }
}

#[test]
fn spinning_before_sleeping_is_named_after_the_longer_part() {
    let life = Life { spin: 0.128, futex: 0.238, preempted: 0.023, wake_delay: 0.208, ..Life::default() };
    let life = Life { wakeups_per_s: 3000.0, woken_by: vec![100, 101, 102], ..life };
    expect(&Stage::alike(2, SIBLINGS, 3, &life), Kind::TooManyThreadsSleeping);
    let life = Life { spin: 0.238, futex: 0.128, ..life };
    expect(&Stage::alike(2, SIBLINGS, 3, &life), Kind::TooManyThreadsSpinning);
}

/// One thread works, the others wait for it in the way of `waiting`.
fn imbalanced(threads: usize, cpus: u32, work: f64, waiting: impl Fn(f64) -> Life) -> Stage {
    let mut lives = vec![Life { futex: 0.02, ..Life::default() }];
    lives.extend(std::iter::repeat_n(waiting(1.0 - work), threads - 1));
    Stage::new(cpus, SIBLINGS, &lives)
}

#[test]
fn imbalance_whatever_the_waiting_policy() {
    let policies: [fn(f64) -> Life; 4] = [
        |share| Life { spin: share, ..Life::default() },
        asleep,
        |share| Life { spin: share * 0.5, futex: share * 0.5, wakeups_per_s: 50.0, ..Life::default() },
        |share| Life { spin: share * 0.4, yielded: share * 0.6, ..Life::default() },
    ];
    for (threads, cpus) in [(2, 2), (4, 8), (8, 8), (64, 64)] {
        for work in [0.01, 0.1, 0.5] {
            let verdicts: Vec<Verdict> =
                policies.iter().map(|policy| judge(&imbalanced(threads, cpus, work, policy))).collect();
            for verdict in &verdicts {
                assert_eq!(verdict.headline, Kind::Imbalance, "{threads} {cpus} {work} {}", text(verdict));
                assert_eq!(verdict.sentences[0].next, verdicts[0].sentences[0].next);
            }
        }
    }
}

#[test]
fn imbalance_on_an_oversubscribed_machine_does_not_flip_either() {
    // Four threads on two CPUs, one of them with all the work: the spinners take its CPU away.
    let worker = Life { preempted: 0.5, ..Life::default() };
    let spinner = Life { spin: 0.49, preempted: 0.5, ..Life::default() };
    let spinning = Stage::new(2, SIBLINGS, &[worker, spinner.clone(), spinner.clone(), spinner]);
    expect(&spinning, Kind::Imbalance);
    expect(&imbalanced(4, 2, 0.02, asleep), Kind::Imbalance);
}

#[test]
fn fewer_threads_are_no_advice_when_unequal_work_would_eat_the_gain() {
    // It takes 2.97 s. With two threads, one of them had 59 % of the work, and it took 3.09 s.
    let verdict = expect(&three_unequal(SIBLINGS, UNEQUAL), Kind::Imbalance);
    let steps: Vec<&str> = verdict.sentences.iter().flat_map(|s| &s.next).map(|step| step.action.as_str()).collect();
    assert!(steps[0].contains("schedule(dynamic)"), "{}", text(&verdict));
    assert!(!steps.iter().any(|step| step.contains("OMP_NUM_THREADS")), "{}", text(&verdict));
}

#[test]
fn one_long_region_in_which_one_thread_works_is_imbalance_but_less_sure() {
    let idler = Life { futex: 0.9999, wakeups_per_s: 0.1, woken_by: vec![100], ..Life::default() };
    let mut lives = vec![Life::default()];
    lives.extend(vec![idler; 7]);
    let mut stage = Stage::new(8, SIBLINGS, &lives);
    stage.facts.openmp_runtime = Some("libgomp.so.1.0.0".to_owned());
    assert_eq!(expect(&stage, Kind::Imbalance).confidence, Confidence::Medium);
}

#[test]
fn slightly_unequal_work_is_no_imbalance() {
    expect(&imbalanced(8, 8, 0.93, asleep), Kind::NothingToGain);
    expect(&imbalanced(8, 8, 0.93, |share| Life { spin: share, ..Life::default() }), Kind::NothingToGain);
}

#[test]
fn imbalance_beside_a_smaller_hog() {
    // Every wait of the workers could be due to the others; the work is unequal by more than they took.
    let busy = Life { preempted: 0.05, futex: 0.106, wakeups_per_s: 350.0, ..Life::default() };
    let waits = Life { wake_delay: 0.05, futex: 0.5, wakeups_per_s: 450.0, ..Life::default() };
    let mut stage = Stage::new(2, Behind { sibling: 0.45, other: 0.55, idle: 0.0 }, &[waits, busy]);
    for cpu in &mut stage.account.cpus {
        (cpu.busy_others_ns, cpu.idle_ns) = (cpu.busy_others_ns + cpu.idle_ns, 0);
    }
    let verdict = expect(&stage, Kind::Imbalance);
    let page = |step: &advise::NextStep| step.topic.contains("cpu_hog");
    assert!(verdict.sentences.iter().flat_map(|s| &s.next).any(page), "{}", text(&verdict));
}

#[test]
fn a_lock_convoy() {
    for (threads, cpus) in [(2, 2), (3, 2), (4, 2), (8, 2), (8, 8), (64, 64)] {
        for inside in [0.95, 1.2] {
            expect(&convoy(threads, cpus, inside), Kind::LockConvoy);
        }
    }
}

#[test]
fn a_lock_that_is_handed_on_in_a_fixed_order_is_one_too() {
    let lives = [102, 100, 101].map(|before| Life { woken_by: vec![before], ..asleep(0.67) });
    expect(&Stage::new(2, IDLE, &lives), Kind::LockConvoy);
    // Of two threads one may well end more than half of the sleep.
    let two = [Life { woken_by: vec![101], ..asleep(0.6) }, Life { woken_by: vec![100], ..asleep(0.5) }];
    expect(&Stage::new(2, IDLE, &two), Kind::LockConvoy);
}

#[test]
fn a_main_thread_that_joins_does_not_hide_a_convoy() {
    let mut stage = convoy(4, 2, 1.0);
    let process = &mut stage.account.programs[0].processes[0];
    let mut main = process.threads[0].clone();
    process.pid = 99;
    main.tid = 99;
    main.run_ns = 1_000_000;
    main.wakeups = 4;
    main.blocked_by[Cause::Futex] = staged::WALL_NS - 1_000_000;
    process.threads.insert(0, main);
    expect(&stage, Kind::LockConvoy);
}

#[test]
fn a_spin_lock_convoy_is_known_by_the_lock() {
    let stage = Stage::alike(8, SIBLINGS, 8, &Life { spin: 0.85, ..Life::default() });
    expect(&stage.clone().spinning_in("pthread spin lock"), Kind::LockConvoy);
    expect(&stage.spinning_in("OpenMP runtime"), Kind::WaitingForThreads);
}

#[test]
fn a_convoy_on_a_busy_machine_is_still_a_convoy() {
    // Three threads on two CPUs, one of them shared with others: some hand-overs queue behind siblings.
    for (threads, futex, wake_delay) in [(3, 0.51, 0.10), (4, 0.56, 0.17), (8, 0.64, 0.22)] {
        let wakers = vec![100, 101, 102];
        let life = Life { futex, wake_delay, wakeups_per_s: 150.0, woken_by: wakers, ..Life::default() };
        let behind = Behind { sibling: 0.8, other: 0.2, idle: 0.0 };
        let mut stage = Stage::alike(2, behind, threads, &life);
        for cpu in &mut stage.account.cpus {
            (cpu.busy_others_ns, cpu.idle_ns) = (cpu.busy_others_ns + cpu.idle_ns, 0);
        }
        expect(&stage, Kind::LockConvoy);
    }
}

#[test]
fn equal_work_and_one_waker_is_no_lock() {
    // A thread that hands out work wakes all the others.
    let fed = |own: u32| Life { woken_by: vec![if own == 100 { 101 } else { 100 }], ..asleep(0.7) };
    let lives: Vec<Life> = (100..104).map(fed).collect();
    let verdict = expect(&Stage::new(8, IDLE, &lives), Kind::WaitingForThreads);
    assert_eq!(verdict.confidence, Confidence::Medium);
}

#[test]
fn much_waiting_for_several_reasons_is_not_nothing() {
    let life = Life { spin: 0.2, preempted: 0.2, ..Life::default() };
    let mut stage = Stage::alike(2, Behind { sibling: 0.1, other: 0.0, idle: 0.9 }, 2, &life);
    stage.account.preemptors.clear();
    let verdict = judge(&stage);
    assert_ne!(verdict.headline, Kind::NothingToGain, "{}", text(&verdict));
}
