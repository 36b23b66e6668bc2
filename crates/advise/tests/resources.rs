//! Threads that wait for a CPU, storage, a file lock, a page or a quota, whatever the number of CPUs.

mod staged;

use advise::thresholds::{HALF_INTERVAL, TURNS_COST, WAKEUPS_COST};
use advise::{Confidence, Kind};
use staged::common::{asleep, disk_bound, expect, hog_on_one_cpu, judge, text};
use staged::{IDLE, Life, OTHERS, SIBLINGS, Stage};

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
    // 1 / (1 − share taken): each of two threads lost a third. Without the hog, the work can take up to 1.15 times less CPU time.
    let stage = Stage::alike(2, OTHERS, 2, &Life { preempted: 1.0 / 3.0, ..Life::default() });
    let verdict = expect(&stage, Kind::CpuHog);
    let step = &verdict.sentences[0].next[0];
    assert_eq!((step.range(), step.bound), (Some((1.5, 1.725)), None), "{}", text(&verdict));
}

#[test]
fn beside_a_hog_unexplained_waiting_counts_at_the_high_end() {
    // The hog explains 0.3 of the 0.5 thread-seconds of waiting in each second. Without all of it, the work of 0.6 s on each CPU is left.
    let life = Life { preempted: 0.15, futex: 0.25, wakeups_per_s: 100.0, woken_by: vec![100, 101], ..Life::default() };
    let verdict = expect(&Stage::alike(2, OTHERS, 2, &life), Kind::CpuHog);
    let (low, high) = verdict.sentences[0].next[0].range().unwrap();
    assert!((low - 1.0 / 0.85).abs() < 0.002 && (high / TURNS_COST - 1.0 / 0.6).abs() < 0.002, "{}", text(&verdict));
}

#[test]
fn a_kernel_thread_that_takes_cpus_is_not_asked_to_stop() {
    let mut stage = Stage::alike(2, OTHERS, 2, &Life { preempted: 0.3, ..Life::default() });
    stage.account.preemptors[0].comm = "kworker/u8:1".into();
    let verdict = expect(&stage, Kind::CpuHog);
    assert!(verdict.sentences[0].next[0].action.starts_with("find what"), "{}", text(&verdict));
    // Quiet CPUs are those of the program, or all but one.
    stage.facts.verbs.insert("quiet".to_owned());
    for (online, expected) in [(2, "cox quiet plan --ncpus 1"), (4, "cox quiet plan --cpus 0-1")] {
        stage.facts.online_cpus = (0..online).collect();
        let verdict = expect(&stage, Kind::CpuHog);
        assert_eq!(verdict.sentences[0].next[0].action, expected, "{}", text(&verdict));
    }
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

#[test]
fn more_cpus_also_save_the_waiting_for_threads_that_queue() {
    // Two threads that meet run one after the other: one queues, and then sleeps until the other one has run.
    let life = Life { preempted: 0.25, futex: 0.25, wakeups_per_s: 100.0, woken_by: vec![100, 101], ..Life::default() };
    let verdict = expect(&Stage::alike(1, SIBLINGS, 2, &life).on_machine_of(2), Kind::PinnedTooFew);
    let (low, high) = verdict.sentences[0].next[0].range().unwrap();
    assert!((low - 1.5).abs() < 0.002 && (high / TURNS_COST - 2.0).abs() < 0.002, "{}", text(&verdict));
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

/// The bound includes the sampling error of the work: it was 1.33 for OpenMP regions under 1.5 CPUs, which were 1.35 times as fast without the quota.
#[test]
fn the_bound_of_a_quota_has_the_error_of_the_work() {
    let life = Life { preempted: 0.25, ..Life::default() };
    let mut stage = Stage::alike(2, IDLE, 2, &life).throttled(1.5, 0.25);
    let bound = |stage: &Stage| expect(stage, Kind::QuotaThrottled).sentences[0].next[0].bound.unwrap();
    let exact = bound(&stage);
    // 2 % of the work of two threads, which have independent errors.
    stage.threads_mut().for_each(|thread| thread.spin_error_ns = thread.run_ns / 50);
    let error = HALF_INTERVAL * 0.02 / 2.0_f64.sqrt();
    assert!((bound(&stage) - exact / (1.0 - error)).abs() < 0.002, "{exact}, {}", bound(&stage));
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
fn fewer_threads_under_a_quota_are_bound_by_the_work_too() {
    let life = Life { spin: 0.5, preempted: 0.25, ..Life::default() };
    let verdict = expect(&Stage::alike(2, IDLE, 2, &life).throttled(1.0, 0.25), Kind::QuotaThrottled);
    let step = &verdict.sentences[0].next[1];
    // Three quarters of two CPUs ran, a third of that worked: 3 times by the spinning, 2 by the work.
    assert_eq!((step.action.as_str(), step.bound), ("run it with 1 thread", Some(2.0)), "{}", text(&verdict));
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
fn brief_sleeps_and_a_slow_host_are_found() {
    let brief =
        Life { futex: 0.3, wake_delay: 0.3, wakeups_per_s: 20_000.0, woken_by: vec![100, 101], ..Life::default() };
    expect(&Stage::alike(2, IDLE, 2, &brief), Kind::SlowWakeups);
    expect(&Stage::alike(2, SIBLINGS, 2, &Life { steal: 0.3, ..Life::default() }), Kind::HypervisorSteal);
}

#[test]
fn without_slow_wakeups_the_work_shrinks_with_the_gain() {
    let life =
        Life { futex: 0.1, wake_delay: 0.15, wakeups_per_s: 20_000.0, woken_by: vec![100, 101], ..Life::default() };
    let verdict = expect(&Stage::alike(2, IDLE, 2, &life), Kind::SlowWakeups);
    // The work of 0.75 s in each second limits the gain.
    let factor = 1.0 / 0.75;
    let high = verdict.sentences[0].next[0].range().unwrap().1;
    assert!((high - factor * (1.0 + WAKEUPS_COST * (factor - 1.0))).abs() < 0.002, "{}", text(&verdict));
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

#[test]
fn page_faults() {
    for (threads, cpus) in [(1, 2), (8, 8), (64, 64)] {
        let life = Life { blocked: vec![("page_fault", 0.5)], ..Life::default() };
        expect(&Stage::alike(cpus, SIBLINGS, threads, &life), Kind::PageFaults);
    }
}

/// Launchers and helpers that sleep all the time dilute a share of all thread time.
#[test]
fn a_loss_is_compared_with_the_time_of_the_threads_that_work() {
    let stopped = Life { preempted: 0.15, ..Life::default() };
    let helper = Life { blocked: vec![("poll", 1.0)], ..Life::default() };
    let lives = [vec![stopped; 2], vec![helper; 8]].concat();
    expect(&Stage::new(2, IDLE, &lives).throttled(1.7, 0.15), Kind::QuotaThrottled);
}
