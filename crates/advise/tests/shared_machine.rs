//! Programs beside other programs: only a step that stops the others may promise the CPU time that they took.

mod staged;

use advise::thresholds::TURNS_COST;
use advise::{Confidence, Kind, NextStep, Verdict};
use ledger::{Preemptor, PreemptorKind};
use staged::common::{UNEQUAL, judge, three_unequal};
use staged::{Behind, Life, OTHERS, SIBLINGS, Stage, WALL_NS};

/// Steps that leave the other programs where they are.
fn beside_others(verdict: &Verdict) -> impl Iterator<Item = &NextStep> {
    verdict.sentences.iter().flat_map(|sentence| &sentence.next).filter(|step| !step.topic.contains("cpu_hog"))
}

/// Others keep `share` of CPU 1 busy in place of its idle time.
fn with_a_guest(mut stage: Stage, share: f64) -> Stage {
    let (guest, mine) = ((share * WALL_NS as f64) as u64, stage.account.cpus[1].busy_program_ns);
    stage.account.cpus[0].busy_program_ns += mine;
    stage.account.cpus[0].idle_ns = 0;
    let cpu = &mut stage.account.cpus[1];
    (cpu.busy_program_ns, cpu.busy_others_ns, cpu.idle_ns) = (0, guest, WALL_NS - guest);
    stage
}

#[test]
fn what_others_took_is_not_promised_for_fewer_threads() {
    // Others have 82 % of two CPUs; of the 0.36 CPUs that are left, a third is spun away.
    let life = Life { spin: 0.04, preempted: 0.88, ..Life::default() };
    let mut stage = Stage::alike(2, Behind { sibling: 0.2, other: 0.8, idle: 0.0 }, 3, &life);
    for cpu in &mut stage.account.cpus {
        (cpu.busy_others_ns, cpu.idle_ns) = (WALL_NS - cpu.busy_program_ns, 0);
    }
    let verdict = judge(&stage);
    assert_eq!(verdict.headline, Kind::CpuHog, "{verdict:#?}");
    let promised: Vec<f64> = beside_others(&verdict).filter_map(|step| step.expected_high).collect();
    // Half a 90 % interval of the spinning is 1.0 % of the work.
    assert!(!promised.is_empty() && promised.iter().all(|high| *high <= 1.5 * TURNS_COST * 1.01), "{verdict:#?}");
    let alone = "8.3× faster on idle CPUs, 1.5× at the present load";
    assert!(verdict.sentences.iter().any(|sentence| sentence.text.contains(alone)), "{verdict:#?}");
}

#[test]
fn a_queue_on_the_cpu_that_others_left_is_theirs_too() {
    // Three threads at a barrier share one CPU, the other one is taken: their work fills what is left.
    let life = Life { futex: 0.319, preempted: 0.128, wake_delay: 0.22, wakeups_per_s: 3000.0, ..Life::default() };
    let stage = with_a_guest(Stage::alike(2, SIBLINGS, 3, &life), 1.0);
    let verdict = judge(&stage);
    let hog = verdict.sentences.iter().flat_map(|s| &s.next).find(|step| step.topic.contains("cpu_hog"));
    assert!(hog.is_some_and(|step| step.expected_high.is_some()), "{verdict:#?}");
    assert!(beside_others(&verdict).all(|step| step.expected_high.is_none()), "{verdict:#?}");
}

#[test]
fn nothing_to_gain_recommends_nothing() {
    let verdict = judge(&Stage::alike(2, OTHERS, 2, &Life { preempted: 0.048, ..Life::default() }));
    assert_eq!(verdict.headline, Kind::NothingToGain, "{verdict:#?}");
    assert!(verdict.sentences.iter().all(|sentence| sentence.next.is_empty()), "{verdict:#?}");
}

#[test]
fn what_every_machine_does_beside_a_program_is_no_hog() {
    let life = Life { preempted: 0.03, spin: 0.06, ..Life::default() };
    assert_eq!(judge(&Stage::alike(2, OTHERS, 2, &life)).headline, Kind::NothingToGain);
    // The same part of the CPUs holds up 32 workers much longer.
    let life = Life { preempted: 0.03, spin: 0.4, ..Life::default() };
    assert_eq!(judge(&Stage::alike(32, OTHERS, 32, &life)).headline, Kind::CpuHog);
}

#[test]
fn threads_that_keep_a_cpu_working_have_nothing_to_gain_from_being_fewer() {
    let life = Life { futex: 0.24, preempted: 0.22, wake_delay: 0.04, wakeups_per_s: 2000.0, ..Life::default() };
    let mut stage = Stage::alike(1, SIBLINGS, 2, &life);
    // Nor from turns.
    stage.facts.verbs = ["pack", "advise"].map(str::to_owned).into();
    let verdict = judge(&stage);
    assert_eq!(verdict.headline, Kind::NothingToGain, "{verdict:#?}");
    assert!(verdict.sentences[1].text.contains("only more CPUs"), "{verdict:#?}");
}

#[test]
fn the_step_names_whom_it_is_about() {
    let mut stage = Stage::alike(2, OTHERS, 2, &Life { preempted: 0.5, ..Life::default() });
    let preemptor =
        |comm: &str, wait_ns| Preemptor { comm: comm.into(), kind: PreemptorKind::Other, wait_ns, ..stage_preemptor() };
    stage.account.preemptors =
        vec![preemptor("one", 5_000_000_000), preemptor("two", 4_000_000_000), preemptor("three", 999_000_000)];
    let action = |stage: &Stage| judge(stage).sentences[0].next[0].action.clone();
    assert_eq!(action(&stage), "stop one and two, or keep them off CPU 0-1");
    let many = (0..10).map(|at| preemptor(&format!("p{at}"), 1_000_000_000)).collect();
    stage.account.preemptors = many;
    assert_eq!(action(&stage), "stop p0, p1, p2 and others, or keep them off CPU 0-1");
    // Another program may have any name, also cox's.
    stage.account.preemptors = vec![preemptor("cox", 9_000_000_000)];
    assert_eq!(action(&stage), "stop cox, or keep it off CPU 0-1");
}

fn stage_preemptor() -> Preemptor {
    Preemptor { threads: 1, tid: 7, ..Preemptor::default() }
}

#[test]
fn a_preemptor_that_was_seen_a_little_is_named_but_less_surely() {
    let life = Life { preempted: 0.46, ..Life::default() };
    let stage = Stage::alike(2, Behind { sibling: 0.7, other: 0.3, idle: 0.0 }, 2, &life);
    let verdict = judge(&with_a_guest(stage, 0.9));
    assert_eq!((verdict.headline, verdict.confidence), (Kind::CpuHog, Confidence::Medium), "{verdict:#?}");
    assert!(verdict.sentences[0].text.contains("stress"), "{verdict:#?}");
}

/// Two threads on CPU 0 of a machine whose CPU 1 others keep busy for `share`.
fn pinned_beside(share: f64, by_itself: bool) -> Verdict {
    let mut stage = Stage::alike(1, SIBLINGS, 2, &Life { preempted: 0.5, ..Life::default() }).on_machine_of(2);
    if by_itself {
        stage.facts.allowed_cpus = vec![0, 1];
        stage.facts.pinned_cpus = Some(vec![0]);
    }
    judge(&with_a_guest(stage, share))
}

#[test]
fn pinning_promises_what_the_other_cpus_have_room_for() {
    for by_itself in [false, true] {
        let verdict = pinned_beside(0.4, by_itself);
        assert_eq!(verdict.headline, Kind::PinnedTooFew, "{verdict:#?}");
        let step = &verdict.sentences[0].next[0];
        assert_eq!((step.expected_high, step.bound), (Some(1.84), None), "1.6 × 1.15: {verdict:#?}");
        assert_ne!(pinned_beside(1.0, by_itself).headline, Kind::PinnedTooFew);
    }
}

#[test]
fn a_lock_beside_others_is_named_without_their_time() {
    // Niced guests fill what the convoy leaves; whether they would make room is not known.
    let life =
        Life { futex: 0.56, wake_delay: 0.17, wakeups_per_s: 150.0, woken_by: vec![100, 101, 102], ..Life::default() };
    let mut stage = Stage::alike(2, Behind { sibling: 0.8, other: 0.2, idle: 0.0 }, 4, &life);
    for cpu in &mut stage.account.cpus {
        (cpu.busy_others_ns, cpu.idle_ns) = (cpu.busy_others_ns + cpu.idle_ns, 0);
    }
    let verdict = judge(&stage);
    assert_eq!(verdict.headline, Kind::LockConvoy, "{verdict:#?}");
    assert_eq!(verdict.sentences[0].next[0].expected_high, None, "{verdict:#?}");
}

#[test]
fn waiting_booked_twice_is_not_blamed_twice() {
    // Threads cannot wait behind siblings longer than they waited at all.
    let mut stage = Stage::alike(2, OTHERS, 2, &Life { preempted: 0.04, spin: 0.3, ..Life::default() });
    let twice =
        Preemptor { comm: "app".into(), kind: PreemptorKind::Sibling, wait_ns: 2 * WALL_NS / 10, ..stage_preemptor() };
    stage.account.preemptors.push(twice);
    let verdict = judge(&with_a_guest(stage, 0.9));
    let waited = |text: &str| text.contains("waited for a CPU because of them for 4.0 % of thread time");
    assert!(verdict.sentences.iter().any(|sentence| waited(&sentence.text)), "{verdict:#?}");
}

#[test]
fn pinned_beside_a_full_cpu_is_a_crowd_on_its_own() {
    let mut stage = Stage::alike(1, SIBLINGS, 2, &Life { spin: 0.25, preempted: 0.5, ..Life::default() });
    stage = with_a_guest(stage.on_machine_of(2), 1.0);
    (stage.facts.allowed_cpus, stage.facts.pinned_cpus) = (vec![0, 1], Some(vec![0]));
    assert_eq!(judge(&stage).headline, Kind::TooManyThreadsSpinning);
}

/// The same run while others keep `share` more of each CPU busy: its threads wait behind them for as long.
fn disturbed(mut stage: Stage, share: f64) -> Stage {
    let load = (share * WALL_NS as f64) as u64;
    let mut waited = 0;
    for cpu in &mut stage.account.cpus {
        let of_idle = load.min(cpu.idle_ns);
        cpu.idle_ns -= of_idle;
        cpu.busy_others_ns += load;
        cpu.busy_program_ns = cpu.busy_program_ns.saturating_sub(load - of_idle);
        waited += load - of_idle;
    }
    let threads = stage.threads_mut().count().max(1) as u64;
    let each = waited / threads;
    for thread in stage.threads_mut() {
        let moved = each.min(thread.run_ns - thread.spin_ns);
        thread.run_ns -= moved;
        thread.preempt_wait_ns += moved;
    }
    let apt =
        Preemptor { comm: "apt".into(), kind: PreemptorKind::Other, wait_ns: each * threads, ..stage_preemptor() };
    stage.account.preemptors.push(apt);
    stage
}

#[test]
fn a_small_load_changes_no_diagnosis_without_a_word() {
    let meeting = |share: f64| Life { futex: share, wakeups_per_s: 100.0, woken_by: vec![100], ..Life::default() };
    let waiting = |part: f64| Life { spin: part, ..Life::default() };
    let mut stages = vec![
        Stage::alike(2, SIBLINGS, 2, &Life::default()),
        Stage::alike(2, SIBLINGS, 1, &Life { blocked: vec![("disk", 0.6)], ..Life::default() }),
        Stage::new(2, SIBLINGS, &[Life::default(), meeting(0.15)]),
        Stage::new(2, SIBLINGS, &[Life::default(), waiting(0.3)]),
    ];
    for spin in [0.06, 0.1, 0.2, 0.3] {
        stages.push(Stage::alike(2, SIBLINGS, 3, &Life { spin, preempted: 1.0 / 3.0, ..Life::default() }));
    }
    for before in [0.0, 0.04] {
        for stage in &stages {
            let quiet = judge(&disturbed(stage.clone(), before));
            let loaded = judge(&disturbed(stage.clone(), before + 0.09));
            let first = |verdict: &Verdict| verdict.sentences[0].next.first().map(|step| step.action.clone());
            let same = (quiet.headline, first(&quiet)) == (loaded.headline, first(&loaded));
            let says =
                loaded.sentences.iter().any(|sentence| sentence.text.starts_with("Confidence in this diagnosis: "));
            assert!(says && loaded.confidence < Confidence::High, "{loaded:#?}");
            assert!(same || quiet.headline == Kind::NothingToGain, "{quiet:#?}\n{loaded:#?}");
        }
    }
}

#[test]
fn unequal_work_stays_the_diagnosis_beside_a_small_load() {
    // As measured: the same program on idle CPUs, and while others took 6 % of them, for which it took 6 % longer.
    let quiet = three_unequal(SIBLINGS, UNEQUAL);
    let behind = Behind { sibling: 0.89, other: 0.07, idle: 0.04 };
    let mut loaded = three_unequal(behind, [(0.631, 0.22), (0.56, 0.26), (0.386, 0.30)]);
    for cpu in &mut loaded.account.cpus {
        let others = 62 * WALL_NS / 1000;
        cpu.idle_ns = cpu.idle_ns + cpu.busy_others_ns - others;
        cpu.busy_others_ns = others;
    }
    let (quiet, loaded) = (judge(&quiet), judge(&loaded));
    assert_eq!((quiet.headline, loaded.headline), (Kind::Imbalance, Kind::Imbalance), "{loaded:#?}");
    assert_eq!(quiet.sentences[0].next[0].action, loaded.sentences[0].next[0].action);
    assert_eq!((quiet.confidence, loaded.confidence), (Confidence::High, Confidence::Medium));
}
