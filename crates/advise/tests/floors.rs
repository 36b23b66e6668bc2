//! No forecast exceeds what the account supports: waits that no observed thread or resource ends are fixed.

mod staged;

use std::collections::BTreeSet;

use advise::thresholds::HALF_INTERVAL;
use advise::{Facts, Kind, Verdict};
use ledger::{Account, Thread};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use staged::common::{highest, judge};
use staged::{Behind, Life, OTHERS, SIBLINGS, Stage, WALL_NS};
use wire::Cause;

/// Every cause that an account can name.
const CAUSES: [&str; 12] = [
    "futex",
    "disk",
    "network",
    "pipe",
    "poll",
    "sleep",
    "page_fault",
    "child_wait",
    "stopped",
    "file_lock",
    "other",
    "unspecified",
];

/// Factors in the sentences and steps of a verdict: numbers before a multiplication sign.
fn factors(verdict: &Verdict) -> Vec<f64> {
    let steps = verdict.sentences.iter().flat_map(|sentence| &sentence.next);
    let printed = verdict.sentences.iter().filter(|sentence| !sentence.text.contains("times the average"));
    let number =
        |text: &str| text.rsplit([' ', '–', '(']).next().and_then(|number| number.replace(',', "").parse().ok());
    let in_text = printed.flat_map(|sentence| {
        let pieces: Vec<&str> = sentence.text.split('×').collect();
        pieces[..pieces.len() - 1].iter().filter_map(|piece| number(piece)).collect::<Vec<f64>>()
    });
    steps.filter_map(highest).chain(in_text).collect()
}

/// The least wall time that remains, from the account's own fields: the work on all CPUs there are, and besides it
/// the time in which no thread ran, waited for a CPU, or for a resource of this machine. A single thread can hide
/// none of its other waits behind anything.
fn least_ns(account: &Account, facts: &Facts) -> f64 {
    let threads: Vec<&Thread> =
        account.programs.iter().flat_map(|program| &program.processes).flat_map(|process| &process.threads).collect();
    let sum = |part: &dyn Fn(&Thread) -> u64| threads.iter().map(|thread| part(thread)).sum::<u64>() as f64;
    let resources = |thread: &Thread| {
        let by = &thread.blocked_by;
        by[Cause::Disk] + by[Cause::PageFault] + by[Cause::FileLock]
    };
    let active = sum(&|thread| thread.run_ns + thread.wake_delay_ns + thread.preempt_wait_ns + resources(thread));
    let inactive = (WALL_NS as f64 - active).max(0.0);
    let mask: BTreeSet<u32> = facts.program_cpus().iter().chain(&facts.online_cpus).copied().collect();
    let cpus = (mask.len().max(1) as f64).min(threads.len().max(1) as f64);
    let steal = sum(&|thread| thread.steal_ns);
    let work = sum(&|thread| thread.run_ns - thread.spin_ns);
    // Spinning is sampled. A forecast allows for half a 90 % interval, and for half of the work at most.
    let error = HALF_INTERVAL * threads.iter().map(|thread| (thread.spin_error_ns as f64).powi(2)).sum::<f64>().sqrt();
    (work - error.min(work / 2.0) - steal).max(0.0) / cpus + inactive
}

/// A life with some of everything.
fn life() -> impl Strategy<Value = Life> {
    let blocked = vec((select(&CAUSES[1..]), 0.0..1.0f64), 0..4);
    (blocked, 0.0..1.0f64, 0.0..1.0f64, 0.0..0.2f64, 0.0..1.0f64, 0.0..1.0f64, any::<bool>()).prop_map(
        |(blocked, futex, preempted, wake_delay, work, spun, woken)| {
            // Mostly a thread does one thing: high powers make one of the parts dominate.
            let power = |part: f64| part.powi(6);
            let all = blocked.iter().map(|(_, part)| power(*part)).sum::<f64>()
                + power(futex)
                + power(preempted)
                + power(wake_delay)
                + power(work)
                + 1e-9;
            let part = |part: f64| power(part) / all;
            Life {
                spin: part(work) * spun * 0.9,
                futex: part(futex),
                preempted: part(preempted),
                wake_delay: part(wake_delay),
                blocked: blocked.iter().map(|(cause, share)| (*cause, part(*share))).collect(),
                wakeups_per_s: 100.0,
                woken_by: if woken { vec![100, 101] } else { Vec::new() },
                ..Life::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_factor_beats_what_remains(
        lives in vec(life(), 1..6),
        cpus in 1u32..5,
        behind in select(vec![SIBLINGS, OTHERS, Behind { sibling: 0.3, other: 0.3, idle: 0.4 }]),
        backend in select(vec!["bpf", "perf", "proc"]),
    ) {
        let stage = Stage::new(cpus, behind, &lives);
        let stage = match backend {
            "perf" => stage.by_perf(),
            "proc" => stage.by_proc(),
            _ => stage,
        };
        let verdict = judge(&stage);
        let most = (WALL_NS as f64 / least_ns(&stage.account, &stage.facts).max(1.0)).max(1.0);
        for factor in factors(&verdict) {
            prop_assert!(factor <= most * 1.001, "{factor} beats {most}: {verdict:#?}");
        }
    }

    #[test]
    fn what_would_have_to_go_is_named_beyond_all_cpus_used_fully(
        lives in vec(life(), 1..6),
        cpus in 1u32..5,
    ) {
        let stage = Stage::new(cpus, SIBLINGS, &lives);
        for step in judge(&stage).sentences.iter().flat_map(|sentence| &sentence.next) {
            prop_assert!(step.bound_without.is_some() || step.bound.is_none_or(|bound| bound <= f64::from(cpus)), "{step:?}");
        }
    }

    #[test]
    fn a_wait_that_nothing_observed_ends_has_no_factor(
        cause in select(vec!["sleep", "poll", "pipe", "network", "child_wait", "stopped", "other", "unspecified"]),
        share in 0.9..0.9999f64,
        threads in 1usize..5,
    ) {
        let life = Life { blocked: vec![(cause, share)], ..Life::default() };
        for stage in [
            Stage::alike(2, SIBLINGS, threads, &life),
            Stage::alike(2, SIBLINGS, threads, &life).by_perf(),
            Stage::alike(2, SIBLINGS, threads, &life).by_proc(),
        ] {
            let verdict = judge(&stage);
            prop_assert_eq!(factors(&verdict), Vec::<f64>::new(), "{:#?}", verdict);
            prop_assert!(!verdict.sentences.iter().any(|sentence| sentence.text.contains("faster")), "{verdict:#?}");
        }
    }
}

#[test]
fn waiting_for_one_who_sleeps_is_no_loss_either() {
    // A shell that waits for sleep(1), and a thread that is joined by one that sleeps.
    let sleeper = Life { blocked: vec![("sleep", 0.999)], ..Life::default() };
    for waiting in [
        Life { blocked: vec![("child_wait", 0.998)], woken_by: vec![101], ..Life::default() },
        Life { futex: 0.998, wakeups_per_s: 0.1, woken_by: vec![101], ..Life::default() },
    ] {
        let verdict = judge(&Stage::new(2, SIBLINGS, &[waiting, sleeper.clone()]));
        assert_eq!(factors(&verdict), [0.0; 0], "{verdict:#?}");
    }
}

#[test]
fn a_logger_that_sleeps_takes_nothing_from_the_others_bound() {
    let spinner = Life { spin: 0.3, preempted: 0.334, ..Life::default() };
    let logger = Life { blocked: vec![("sleep", 0.999)], ..Life::default() };
    let lives = [spinner.clone(), spinner.clone(), spinner, logger];
    let alone = judge(&Stage::new(2, SIBLINGS, &lives[..3]));
    let logged = judge(&Stage::new(2, SIBLINGS, &lives));
    assert_eq!((alone.headline, logged.headline), (Kind::TooManyThreadsSpinning, Kind::TooManyThreadsSpinning));
    let bound = |verdict: &Verdict| verdict.sentences[0].next[0].expected_high.expect("a range");
    assert!((bound(&alone) - bound(&logged)).abs() < 0.01, "{logged:#?}");
}

#[test]
fn cpus_that_nobody_wanted_are_missing_parallelism() {
    // make -j2 whose jobs follow one another: one CPU's worth of work, 1.3 of 2 CPUs.
    let jobs = [Life::default(), Life { blocked: vec![("child_wait", 0.74)], ..Life::default() }];
    let verdict = judge(&Stage::new(2, SIBLINGS, &jobs));
    assert_eq!(verdict.headline, Kind::NothingToGain, "{verdict:#?}");
    let text = &verdict.sentences[0].text;
    assert!(text.contains("parallelism is missing") && text.contains("1.3 of 2 CPUs ran"), "{text}");
    assert!(text.contains("37 % of the CPUs' time was idle"), "{text}");
    // Busy CPUs miss none.
    let verdict = judge(&Stage::alike(2, SIBLINGS, 2, &Life::default()));
    assert!(verdict.sentences[0].text.starts_with("Nothing to gain from scheduling: "), "{verdict:#?}");
}

#[test]
fn what_the_user_has_no_right_to_is_no_advice() {
    let actions = |stage: &Stage| -> Vec<String> {
        let sentences = judge(stage).sentences;
        sentences.iter().flat_map(|sentence| &sentence.next).map(|step| step.action.clone()).collect()
    };
    let denied = |mut stage: Stage| {
        stage.facts.denied = [Facts::EBPF, Facts::OTHERS, Facts::QUOTA].map(str::to_owned).into();
        stage
    };
    let hog = Stage::alike(2, OTHERS, 2, &Life { preempted: 0.5, ..Life::default() });
    assert_eq!(actions(&hog)[0], "stop stress, or keep it off CPU 0-1");
    let mut hidden = denied(hog.clone());
    assert_eq!(actions(&denied(hog))[0], "run it on CPUs that stress does not use, or after stress has ended");
    // All threads of other users have one name, which is none.
    for preemptor in hidden.account.preemptors.iter_mut().filter(|preemptor| preemptor.comm == "stress") {
        preemptor.comm = "another user's".into();
    }
    assert_eq!(actions(&hidden)[0], "run it on CPUs that other users' programs do not use, or after they have ended");

    let quota = Stage::alike(2, staged::IDLE, 2, &Life { preempted: 0.5, ..Life::default() }).throttled(1.0, 0.5);
    assert_eq!(actions(&quota)[0], "raise the group's cpu.max to 2 CPUs or more");
    assert!(actions(&denied(quota))[0].starts_with("ask for a quota of 2 CPUs"));

    let unseen = Stage::alike(2, SIBLINGS, 1, &Life { blocked: vec![("disk", 0.9)], ..Life::default() }).by_proc();
    assert!(actions(&unseen).iter().any(|action| action.contains("--backend bpf")));
    assert!(!actions(&denied(unseen)).iter().any(|action| action.contains("--backend bpf")));

    // Variables of OpenMP say nothing about a program that has no such runtime.
    let life = Life { spin: 0.25, preempted: 1.0 / 3.0, ..Life::default() };
    let mut crowd = Stage::alike(2, SIBLINGS, 3, &life);
    crowd.facts.environment.insert("OMP_NUM_THREADS".into(), "3".into());
    assert!(actions(&crowd).iter().all(|action| !action.contains("OMP_")), "{:?}", actions(&crowd));
    crowd.facts.openmp_runtime = Some("libgomp.so.1.0.0".into());
    assert_eq!(actions(&crowd)[0], "OMP_NUM_THREADS=2");
}
