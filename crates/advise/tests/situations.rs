//! Staged situations must be told apart, whatever the number of CPUs and the way threads wait.

mod staged;

use advise::{Confidence, Kind, Verdict};
use ledger::Process;
use staged::{Behind, IDLE, Life, OTHERS, SIBLINGS, Stage, WALL_NS, advise};
use wire::Cause;

fn judge(stage: &Stage) -> Verdict {
    advise(&stage.account, &stage.facts)
}

/// The verdict's text, for the message of a failed test.
fn text(verdict: &Verdict) -> String {
    let lines = verdict.sentences.iter().map(|sentence| format!("  {} {:?}\n", sentence.text, sentence.next));
    format!("{:?} ({:?})\n{}", verdict.headline, verdict.confidence, lines.collect::<String>())
}

#[track_caller]
fn expect(stage: &Stage, kind: Kind) -> Verdict {
    let verdict = judge(stage);
    assert_eq!(verdict.headline, kind, "{}", text(&verdict));
    let json = serde_json::to_string(&verdict).expect("a verdict is plain data");
    assert_eq!(serde_json::from_str::<Verdict>(&json).expect("its own JSON"), verdict);
    verdict
}

/// Every thread has the share `cpus / threads` of a CPU, works `work` of that and spins the rest.
fn crowd_spinning(threads: usize, cpus: u32, work: f64) -> Stage {
    let run = f64::from(cpus) / threads as f64;
    let life = Life { spin: run * (1.0 - work), preempted: 1.0 - run, ..Life::default() };
    Stage::alike(cpus, SIBLINGS, threads, &life).spinning_in("OpenMP runtime")
}

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
    assert_eq!(actions, ["OMP_NUM_THREADS=2", "OMP_WAIT_POLICY=passive", "cox advise --cpus 0-1 -- ./app …"]);
    // Work is 0.65 of two CPUs' time: 1 / 0.65 = 1.538. It can shrink when the threads no longer take turns. Half a 90 % interval of the spinning is 1.0 % of
    // the work: the range is so much wider at both ends.
    assert!(steps.iter().all(|step| step.bound.is_none()), "{}", text(&verdict));
    assert_eq!((steps[0].expected_low, steps[0].expected_high), (Some(1.293), Some(1.785)));
    assert_eq!(steps[2].expected_low, None);
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
fn a_verb_that_does_not_exist_is_not_recommended() {
    for stage in [crowd_spinning(3, 2, 0.5), disk_bound(), hog_on_one_cpu(2, Life { spin: 0.5, ..Life::default() })] {
        let verdict = judge(&stage);
        let named = verdict.sentences.iter().flat_map(|s| &s.next).any(|step| step.action.contains("cox "));
        assert!(!named, "{}", text(&verdict));
    }
}

/// One thread works, the others wait for it in the way of `waiting`.
fn imbalanced(threads: usize, cpus: u32, work: f64, waiting: impl Fn(f64) -> Life) -> Stage {
    let mut lives = vec![Life { futex: 0.02, ..Life::default() }];
    lives.extend(std::iter::repeat_n(waiting(1.0 - work), threads - 1));
    Stage::new(cpus, SIBLINGS, &lives)
}

fn asleep(share: f64) -> Life {
    Life { futex: share, wakeups_per_s: 100.0, woken_by: vec![100], ..Life::default() }
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
    // Three threads on two CPUs with 2.10, 1.86 and 1.25 s of work in 2.97 s, asleep or in the queue
    // otherwise: with two threads, one of them had 59 % of the work, and it took 3.09 s.
    let life = |work: f64, queued: f64| Life {
        preempted: queued,
        futex: 1.0 - work - queued,
        wakeups_per_s: 20.0,
        woken_by: vec![100, 101],
        ..Life::default()
    };
    let mut stage = Stage::new(2, SIBLINGS, &[life(0.71, 0.18), life(0.63, 0.21), life(0.42, 0.24)]);
    stage.facts.openmp_runtime = Some("libgomp.so.1.0.0".to_owned());
    let verdict = expect(&stage, Kind::Imbalance);
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

/// A hog has half of one CPU; the threads on the others wait for the displaced one.
fn hog_on_one_cpu(cpus: u32, waiting: Life) -> Stage {
    let mut lives = vec![Life { preempted: 0.49, wake_delay: 0.01, ..Life::default() }];
    lives.extend(vec![waiting; cpus as usize - 1]);
    Stage::new(cpus, OTHERS, &lives)
}

#[test]
fn a_cpu_hog_beside_us() {
    for cpus in [2, 8, 64] {
        expect(&hog_on_one_cpu(cpus, Life { spin: 0.5, ..Life::default() }), Kind::CpuHog);
        let sleeping = Life { futex: 0.5, wakeups_per_s: 200.0, woken_by: vec![100], ..Life::default() };
        let verdict = expect(&hog_on_one_cpu(cpus, sleeping), Kind::CpuHog);
        assert!(verdict.sentences[0].text.contains("stress"), "{}", text(&verdict));
    }
}

#[test]
fn a_hog_beside_independent_threads_gives_back_its_share() {
    // 1 / (1 − share taken): each of two threads lost a third.
    let stage = Stage::alike(2, OTHERS, 2, &Life { preempted: 1.0 / 3.0, ..Life::default() });
    let verdict = expect(&stage, Kind::CpuHog);
    let step = &verdict.sentences[0].next[0];
    assert_eq!((step.expected_low, step.bound), (Some(1.5), Some(1.5)), "{}", text(&verdict));
}

#[test]
fn a_kernel_thread_that_takes_cpus_is_not_asked_to_stop() {
    let mut stage = Stage::alike(2, OTHERS, 2, &Life { preempted: 0.3, ..Life::default() });
    stage.account.preemptors[0].comm = "kworker/u8:1".into();
    let verdict = expect(&stage, Kind::CpuHog);
    assert!(verdict.sentences[0].next[0].action.starts_with("find what"), "{}", text(&verdict));
}

fn disk_bound() -> Stage {
    Stage::alike(2, SIBLINGS, 1, &Life { blocked: vec![("disk", 0.6)], ..Life::default() })
}

#[test]
fn disk_bound_alone_and_with_others_waiting() {
    let verdict = expect(&disk_bound(), Kind::DiskBound);
    let steps = &verdict.sentences[0].next;
    assert_eq!((steps[0].expected_low, steps[0].bound), (None, None), "fewer requests take less work, too");
    assert_eq!((steps[1].action.as_str(), steps[1].bound), ("use faster storage", Some(2.5)));
    let all = Life { blocked: vec![("disk", 0.4)], ..Life::default() };
    expect(&Stage::alike(8, SIBLINGS, 8, &all), Kind::DiskBound);
    expect(&Stage::alike(64, SIBLINGS, 64, &all), Kind::DiskBound);
    let writer = Life { blocked: vec![("disk", 0.5)], ..Life::default() };
    for waiting in [Life { spin: 0.5, ..Life::default() }, asleep(0.5)] {
        expect(&Stage::new(2, SIBLINGS, &[writer.clone(), waiting]), Kind::DiskBound);
    }
}

#[test]
fn a_writer_thread_beside_busy_ones_is_no_loss() {
    let writer = Life { blocked: vec![("disk", 0.98)], ..Life::default() };
    // The two give way to it: there are two CPUs.
    let busy = Life { preempted: 0.01, ..Life::default() };
    let stage = Stage::new(2, SIBLINGS, &[busy.clone(), busy, writer]);
    expect(&stage, Kind::NothingToGain);
}

#[test]
fn network_and_file_locks_have_their_own_names() {
    for (cause, kind) in [("network", Kind::NetworkBound), ("file_lock", Kind::FileLock)] {
        expect(&Stage::alike(2, SIBLINGS, 1, &Life { blocked: vec![(cause, 0.5)], ..Life::default() }), kind);
    }
}

#[test]
fn a_file_lock_is_named_although_its_holder_sleeps() {
    let life = |cause, part| Life { blocked: vec![(cause, part)], wakeups_per_s: 100.0, ..Life::default() };
    let verdict = expect(&Stage::new(2, SIBLINGS, &[life("sleep", 0.99), life("file_lock", 0.99)]), Kind::FileLock);
    let step = &verdict.sentences[0].next[0];
    assert!(step.action.starts_with("hold the file lock") && step.range().is_none(), "{}", text(&verdict));
    let busy = Life { preempted: 0.01, ..Life::default() };
    expect(&Stage::new(2, SIBLINGS, &[busy.clone(), busy, life("file_lock", 0.98)]), Kind::NothingToGain);
}

/// `threads` threads queue for a lock held nearly all the time.
fn convoy(threads: u32, cpus: u32, inside: f64) -> Stage {
    let work = inside / f64::from(threads);
    let wakers = |own: u32| (100..100 + threads.min(8)).filter(|tid| *tid != own).collect::<Vec<_>>();
    let life = |own: u32| Life {
        futex: 1.0 - work - 0.01,
        wake_delay: 0.01,
        wakeups_per_s: 500.0,
        woken_by: wakers(own),
        ..Life::default()
    };
    let lives: Vec<Life> = (100..100 + threads).map(life).collect();
    Stage::new(cpus, Behind { sibling: 0.5, other: 0.0, idle: 0.5 }, &lives)
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
fn pinned_to_too_few_cpus() {
    let queue = |threads: f64, cpus: f64| Life { preempted: 1.0 - cpus / threads, ..Life::default() };
    for (threads, cpus, online) in [(2, 1, 2), (4, 1, 8), (8, 2, 8), (64, 16, 64)] {
        let life = queue(f64::from(threads), f64::from(cpus));
        let stage = Stage::alike(cpus, SIBLINGS, threads as usize, &life).on_machine_of(online);
        expect(&stage, Kind::PinnedTooFew);
        // Spinning and sleeping at barriers change nothing about it.
        let spinning = Life { spin: 0.3 * f64::from(cpus) / f64::from(threads), ..life.clone() };
        expect(&Stage::alike(cpus, SIBLINGS, threads as usize, &spinning).on_machine_of(online), Kind::PinnedTooFew);
        let sleeping = Life { futex: 0.1, preempted: life.preempted - 0.1, wakeups_per_s: 100.0, ..life };
        expect(&Stage::alike(cpus, SIBLINGS, threads as usize, &sleeping).on_machine_of(online), Kind::PinnedTooFew);
    }
}

#[test]
fn a_program_that_pins_itself_is_told_how() {
    let mut stage = Stage::alike(1, SIBLINGS, 2, &Life { preempted: 0.5, ..Life::default() }).on_machine_of(2);
    stage.facts.allowed_cpus = vec![0, 1];
    stage.facts.pinned_cpus = Some(vec![0]);
    stage.facts.environment.insert("GOMP_CPU_AFFINITY".into(), "0".into());
    // A program without an OpenMP runtime does not read that variable.
    let step = expect(&stage, Kind::PinnedTooFew).sentences[0].next[0].action.clone();
    assert!(step.starts_with("allow CPU 0-1"), "{step}");
    stage.facts.openmp_runtime = Some("libgomp.so.1.0.0".to_owned());
    let verdict = expect(&stage, Kind::PinnedTooFew);
    assert!(verdict.sentences[0].next[0].action.contains("GOMP_CPU_AFFINITY"), "{}", text(&verdict));
}

#[test]
fn threads_pinned_one_by_one_are_found_by_the_idle_cpu() {
    let mut stage = Stage::alike(1, SIBLINGS, 2, &Life { preempted: 0.5, ..Life::default() }).on_machine_of(2);
    stage.facts.allowed_cpus = vec![0, 1];
    expect(&stage, Kind::PinnedTooFew);
}

#[test]
fn a_narrow_mask_on_a_busy_machine_is_not_blamed() {
    let mut stage =
        Stage::alike(2, SIBLINGS, 4, &Life { spin: 0.2, preempted: 0.5, ..Life::default() }).on_machine_of(8);
    for cpu in &mut stage.account.cpus[2..] {
        (cpu.busy_others_ns, cpu.idle_ns) = (cpu.idle_ns, 0);
    }
    expect(&stage, Kind::TooManyThreadsSpinning);
}

/// More CPUs shorten only the time in which threads queued: here 40 % of the run, in which one of two threads worked.
#[test]
fn more_cpus_save_queueing_only() {
    let sleeps = vec![("sleep", 0.6)];
    let life = Life { preempted: 0.2, blocked: sleeps, ..Life::default() };
    let verdict = expect(&Stage::alike(1, SIBLINGS, 2, &life).on_machine_of(2), Kind::PinnedTooFew);
    let (low, high) = verdict.sentences[0].next[0].range().unwrap();
    let most = 1.0 / (1.0 - 0.4 + 0.4 / 2.0);
    assert!(low > 1.1 && low <= most && high >= most && high < 1.2 * most, "{low} {high}");
}

/// Launchers and helpers that sleep all the time dilute a share of all thread time.
#[test]
fn a_loss_is_compared_with_the_time_of_the_threads_that_work() {
    let stopped = Life { preempted: 0.15, ..Life::default() };
    let helper = Life { blocked: vec![("poll", 1.0)], ..Life::default() };
    let lives = [vec![stopped; 2], vec![helper; 8]].concat();
    expect(&Stage::new(2, IDLE, &lives).throttled(1.7, 0.15), Kind::QuotaThrottled);
}

/// Wake-ups on idle CPUs take time, too, under a quota that hardly stopped the program.
#[test]
fn slow_wakeups_are_no_throttling() {
    let life = Life { wake_delay: 0.3, wakeups_per_s: 5000.0, ..Life::default() };
    let verdict = judge(&Stage::alike(2, IDLE, 2, &life).throttled(1.5, 0.03));
    let quota = verdict.losses.iter().find(|loss| loss.kind == Kind::QuotaThrottled);
    assert!(quota.is_none_or(|loss| loss.cost_share < 0.08), "{:?}", verdict.losses);
}

#[test]
fn throttled_by_a_quota() {
    for (threads, cpus, quota) in [(2, 2, 1.0), (1, 2, 0.5), (8, 8, 4.0), (64, 64, 16.0)] {
        let stopped = 1.0 - quota / threads as f64;
        let life = Life { preempted: stopped, ..Life::default() };
        let stage = Stage::alike(cpus, IDLE, threads, &life).throttled(quota, stopped);
        let verdict = expect(&stage, Kind::QuotaThrottled);
        let bound = verdict.sentences[0].next[0].bound.unwrap();
        assert!((bound - threads as f64 / quota).abs() < 0.01, "{}", text(&verdict));
        expect(&stage.by_perf(), Kind::QuotaThrottled);
    }
}

#[test]
fn throttled_while_spinning_or_sleeping_at_barriers() {
    for waiting in [Life { spin: 0.2, preempted: 0.5, ..Life::default() }, Life { preempted: 0.4, ..asleep(0.2) }] {
        expect(&Stage::alike(2, IDLE, 2, &waiting).throttled(1.0, 0.4), Kind::QuotaThrottled);
    }
}

#[test]
fn page_faults() {
    for (threads, cpus) in [(1, 2), (8, 8), (64, 64)] {
        let life = Life { blocked: vec![("page_fault", 0.5)], ..Life::default() };
        expect(&Stage::alike(cpus, SIBLINGS, threads, &life), Kind::PageFaults);
    }
}

#[test]
fn nothing_wrong() {
    for (threads, cpus) in [(1, 1), (2, 2), (8, 8), (64, 64)] {
        let life = Life { preempted: 0.01, wake_delay: 0.005, futex: 0.01, spin: 0.01, ..Life::default() };
        let verdict = expect(&Stage::alike(cpus, SIBLINGS, threads, &life), Kind::NothingToGain);
        assert!(verdict.sentences[0].text.starts_with("Nothing to gain"));
        assert!(verdict.sentences.iter().all(|sentence| sentence.next.is_empty()), "{}", text(&verdict));
    }
}

#[test]
fn a_parallel_make_that_keeps_its_cpus_busy_has_nothing_to_gain() {
    let job = Life { preempted: 0.5, blocked: vec![("disk", 0.01)], ..Life::default() };
    let make = Life { blocked: vec![("child_wait", 0.999)], ..Life::default() };
    let verdict =
        expect(&Stage::new(2, SIBLINGS, &[make, job.clone(), job.clone(), job.clone(), job]), Kind::NothingToGain);
    assert!(verdict.sentences[1].text.contains("only more CPUs"), "{}", text(&verdict));
}

#[test]
fn joining_two_busy_workers_is_nothing_wrong() {
    let main = Life { futex: 0.999, wakeups_per_s: 0.2, ..Life::default() };
    let busy = Life { preempted: 0.001, ..Life::default() };
    expect(&Stage::new(2, SIBLINGS, &[main, busy.clone(), busy]), Kind::NothingToGain);
}

#[test]
fn sleeping_waiting_and_child_wait_are_named_not_blamed() {
    for (cause, kind) in [("sleep", Kind::Sleeping), ("poll", Kind::WaitingForInput), ("child_wait", Kind::ChildWait)] {
        let verdict =
            expect(&Stage::alike(2, SIBLINGS, 1, &Life { blocked: vec![(cause, 0.95)], ..Life::default() }), kind);
        assert!(verdict.sentences.iter().all(|sentence| sentence.next.is_empty()), "{}", text(&verdict));
    }
}

/// A shell script: one child after another works, and the other CPU is idle. `parts`: the children's parts of the run.
fn script(parts: &[f64]) -> Stage {
    let shell = Life { blocked: vec![("child_wait", 0.999)], ..Life::default() };
    let mut stage = Stage::new(2, SIBLINGS, &[shell, Life::default()]);
    let processes = &mut stage.account.programs[0].processes;
    let child = processes[0].threads.pop().expect("a thread");
    for (part, pid) in parts.iter().zip(200..) {
        let ns = (part * WALL_NS as f64) as u64;
        let thread = ledger::Thread { tid: pid, wall_ns: ns, run_ns: ns, ..child.clone() };
        processes.push(Process {
            pid,
            parent_pid: 100,
            comm: "gzip".into(),
            threads: vec![thread],
            ..Process::default()
        });
    }
    stage
}

#[test]
fn children_one_after_another_are_missing_parallelism() {
    let verdict = expect(&script(&[0.25; 4]), Kind::NothingToGain);
    let step = &verdict.sentences[0].next[0];
    assert!(step.action.starts_with("run 2 children at the same time") && step.expected_low.is_none(), "{step:?}");
    assert!(verdict.sentences[0].text.contains("parallelism is missing"), "{}", text(&verdict));
    for parts in [&[0.6, 0.2, 0.2][..], &[1.0]] {
        let other = judge(&script(parts));
        let steps = other.sentences.iter().flat_map(|sentence| &sentence.next);
        assert!(steps.into_iter().all(|step| !step.action.contains("children")), "{parts:?} {}", text(&other));
    }
}

#[test]
fn who_waits_for_sleepers_does_not_hide_their_sleep() {
    let sleeper = Life { blocked: vec![("sleep", 0.98)], ..Life::default() };
    let joins = Life { futex: 0.999, wakeups_per_s: 0.2, ..Life::default() };
    expect(&Stage::new(2, SIBLINGS, &[joins, sleeper.clone()]), Kind::Sleeping);
    let shell = Life { blocked: vec![("child_wait", 0.99)], ..Life::default() };
    expect(&Stage::new(2, SIBLINGS, &[shell, sleeper]), Kind::Sleeping);
}

/// An idle server: its main thread waits for events, and its helpers sleep until they are needed.
#[test]
fn idle_helpers_do_not_hide_that_a_server_waits_for_input() {
    let main = Life { blocked: vec![("poll", 0.9999)], ..Life::default() };
    let helper = Life { futex: 1.0, ..Life::default() };
    expect(&Stage::new(2, SIBLINGS, &[vec![main], vec![helper; 4]].concat()), Kind::WaitingForInput);
}

#[test]
fn idle_helpers_do_not_hide_a_busy_thread() {
    let helper = Life { blocked: vec![("poll", 0.9999)], ..Life::default() };
    expect(&Stage::new(2, SIBLINGS, &[Life::default(), helper.clone(), helper]), Kind::NothingToGain);
}

#[test]
fn spinning_before_sleeping_is_named_after_the_longer_part() {
    let life = Life { spin: 0.128, futex: 0.238, preempted: 0.023, wake_delay: 0.208, ..Life::default() };
    let life = Life { wakeups_per_s: 3000.0, woken_by: vec![100, 101, 102], ..life };
    expect(&Stage::alike(2, SIBLINGS, 3, &life), Kind::TooManyThreadsSleeping);
    let life = Life { spin: 0.238, futex: 0.128, ..life };
    expect(&Stage::alike(2, SIBLINGS, 3, &life), Kind::TooManyThreadsSpinning);
}

/// lbzip2 under a quota: two threads compress, one reads and one writes. That the last two have little work is not what the others wait for.
#[test]
fn helpers_under_a_quota_are_no_unequal_work() {
    let compresses = Life { preempted: 0.22, futex: 0.02, ..Life::default() };
    let helps = Life { futex: 0.96, wakeups_per_s: 50.0, woken_by: vec![100, 101], ..Life::default() };
    let lives = [compresses.clone(), compresses, helps.clone(), helps];
    let stage = Stage::new(2, IDLE, &lives).throttled(1.5, 0.2);
    let verdict = expect(&stage, Kind::QuotaThrottled);
    assert!(verdict.losses.iter().all(|loss| loss.kind != Kind::Imbalance), "{}", text(&verdict));
}

#[test]
fn brief_sleeps_and_a_slow_host_are_found() {
    let brief =
        Life { futex: 0.3, wake_delay: 0.3, wakeups_per_s: 20_000.0, woken_by: vec![100, 101], ..Life::default() };
    expect(&Stage::alike(2, IDLE, 2, &brief), Kind::SlowWakeups);
    expect(&Stage::alike(2, SIBLINGS, 2, &Life { steal: 0.3, ..Life::default() }), Kind::HypervisorSteal);
}

#[test]
fn perf_claims_less_and_says_so_first() {
    let verdict = expect(&convoy(4, 2, 1.0).by_perf(), Kind::Blocked);
    assert!(verdict.sentences[0].text.starts_with("The perf backend sees neither"), "{}", text(&verdict));
    assert!(verdict.confidence < Confidence::High);
    expect(&disk_bound().by_perf(), Kind::Blocked);
    let crowd = expect(&crowd_spinning(3, 2, 0.5).by_perf(), Kind::TooManyThreadsSpinning);
    assert_eq!(crowd.confidence, Confidence::Medium);
    let hog = expect(&Stage::alike(2, OTHERS, 2, &Life { preempted: 0.4, ..Life::default() }).by_perf(), Kind::CpuHog);
    assert_eq!(hog.confidence, Confidence::Low);
}

#[test]
fn proc_says_that_it_does_not_divide_the_delay() {
    let verdict = judge(&crowd_spinning(3, 2, 0.5).by_proc());
    assert!(verdict.sentences[0].text.contains("does not divide"), "{}", text(&verdict));
    assert!(verdict.sentences[1].text.starts_with("Spinning could not be detected"), "{}", text(&verdict));
    assert!(verdict.confidence < Confidence::High);
}

#[test]
fn losses_are_said_first_and_take_forecasts_then_the_verdict() {
    let mut stage = crowd_spinning(3, 2, 0.5);
    let forecasts = |verdict: &Verdict| {
        verdict.sentences.iter().flat_map(|s| &s.next).filter(|step| step.expected_low.is_some()).count()
    };
    stage.account.lost.events = 10;
    let few = expect(&stage, Kind::TooManyThreadsSpinning);
    assert!(few.sentences[0].text.starts_with("10 of 100,010 events were lost"), "{}", text(&few));
    assert_eq!((few.confidence, forecasts(&few) > 0), (Confidence::Medium, true));
    stage.account.lost.events = 1_000;
    let some = expect(&stage, Kind::TooManyThreadsSpinning);
    assert_eq!((some.confidence, forecasts(&some)), (Confidence::Low, 0));
    stage.account.lost.events = 10_000;
    expect(&stage, Kind::TooLittleEvidence);
}

#[test]
fn gaps_of_a_trace_are_said_first_and_spoil_only_what_is_played_from_it() {
    let mut stage = crowd_spinning(3, 2, 0.5);
    let whole = expect(&stage, Kind::TooManyThreadsSpinning);
    stage.account.lost.trace_events = 7;
    let gaps = expect(&stage, Kind::TooManyThreadsSpinning);
    assert!(gaps.sentences[0].text.ends_with("because they do not come from the trace."), "{}", text(&gaps));
    assert_eq!(gaps.confidence, whole.confidence);
    stage.account.co_run = Some(ledger::co_run::CoRun::default());
    let gaps = expect(&stage, Kind::TooManyThreadsSpinning);
    assert!(gaps.sentences[0].text.ends_with("except those of co-run programs."), "{}", text(&gaps));
}

#[test]
fn too_short_and_empty_runs_are_not_judged() {
    let mut stage = crowd_spinning(3, 2, 0.5);
    stage.threads_mut().for_each(|thread| thread.wall_ns = 1_000_000);
    expect(&stage, Kind::TooLittleEvidence);
    stage.account.programs.clear();
    expect(&stage, Kind::TooLittleEvidence);
}

/// Others keep one CPU of two busy; both our threads share the other one.
fn squeezed_by_a_hog() -> Stage {
    let life = Life { futex: 0.24, preempted: 0.23, wake_delay: 0.03, wakeups_per_s: 2400.0, ..Life::default() };
    let mut stage = Stage::alike(2, SIBLINGS, 2, &life);
    stage.account.cpus[0].busy_program_ns = staged::WALL_NS;
    stage.account.cpus[0].idle_ns = 0;
    stage.account.cpus[1].busy_program_ns = 0;
    stage.account.cpus[1].busy_others_ns = staged::WALL_NS;
    stage.account.cpus[1].idle_ns = 0;
    stage
}

#[test]
fn a_hog_that_nobody_queued_behind_is_found_by_the_cpu_it_kept() {
    let verdict = expect(&squeezed_by_a_hog(), Kind::CpuHog);
    assert_eq!(verdict.confidence, Confidence::Medium);
    assert!(verdict.sentences[0].text.contains("it is not known which programs"), "{}", text(&verdict));
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
fn much_waiting_for_several_reasons_is_not_nothing() {
    let life = Life { spin: 0.2, preempted: 0.2, ..Life::default() };
    let mut stage = Stage::alike(2, Behind { sibling: 0.1, other: 0.0, idle: 0.9 }, 2, &life);
    stage.account.preemptors.clear();
    let verdict = judge(&stage);
    assert_ne!(verdict.headline, Kind::NothingToGain, "{}", text(&verdict));
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
fn equal_work_and_one_waker_is_no_lock() {
    // A thread that hands out work wakes all the others.
    let fed = |own: u32| Life { woken_by: vec![if own == 100 { 101 } else { 100 }], ..asleep(0.7) };
    let lives: Vec<Life> = (100..104).map(fed).collect();
    let verdict = expect(&Stage::new(8, IDLE, &lives), Kind::WaitingForThreads);
    assert_eq!(verdict.confidence, Confidence::Medium);
}

#[test]
fn fewer_threads_under_a_quota_are_bound_by_the_work_too() {
    let life = Life { spin: 0.5, preempted: 0.25, ..Life::default() };
    let verdict = expect(&Stage::alike(2, IDLE, 2, &life).throttled(1.0, 0.25), Kind::QuotaThrottled);
    let step = &verdict.sentences[0].next[1];
    // Three quarters of two CPUs ran, a third of that worked: 3 times by the spinning, 2 by the work.
    assert_eq!((step.action.as_str(), step.bound), ("run it with 1 thread", Some(2.0)), "{}", text(&verdict));
}

#[test]
fn figures_that_cannot_be_are_not_judged() {
    // Three threads that each ran all the time, on two CPUs: a recording that lost events said so once.
    let verdict = judge(&Stage::new(2, SIBLINGS, &[Life::default(), Life::default(), Life::default()]));
    assert_eq!(verdict.headline, Kind::TooLittleEvidence);
    assert!(verdict.sentences[0].text.contains("which is impossible"), "{}", text(&verdict));
    // Events that contradict others are counted and named, and the verdict is less sure.
    let mut stage = Stage::alike(2, SIBLINGS, 2, &Life { preempted: 0.01, ..Life::default() });
    let thread = &mut stage.account.programs[0].processes[0].threads[0];
    (thread.impossible, thread.unknown_ns) = (3, thread.run_ns / 10);
    thread.run_ns -= thread.unknown_ns;
    let verdict = judge(&stage);
    assert!(verdict.sentences[0].text.starts_with("3 events contradict other events"), "{}", text(&verdict));
    assert_eq!(verdict.confidence, Confidence::Low);
}
