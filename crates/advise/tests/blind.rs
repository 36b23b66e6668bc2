//! Backends that see less: the kind of situation is still named if the waiting alone shows it, and nothing more is claimed.

mod staged;

use advise::evidence::Evidence;
use advise::figures::Figure;
use advise::{Confidence, Kind, Verdict};
use ledger::{Sees, Unsampled};
use staged::common::{crowd_spinning, judge};
use staged::{Life, SIBLINGS, Stage};

fn forecasts(verdict: &Verdict) -> usize {
    verdict.sentences.iter().flat_map(|sentence| &sentence.next).filter(|step| step.bound.is_some()).count()
}

#[test]
fn more_threads_than_cpus_are_told_without_seeing_them_spin() {
    for (spin, preempted) in [(0.3, 0.42), (0.0, 0.42), (0.2, 0.34), (0.1, 0.66)] {
        let life = Life { spin, preempted, ..Life::default() };
        let verdict = judge(&Stage::alike(2, SIBLINGS, 3, &life).by_proc());
        assert_eq!(verdict.headline, Kind::TooManyThreadsSpinning, "{verdict:#?}");
        assert_eq!((verdict.confidence, forecasts(&verdict)), (Confidence::Low, 0), "{verdict:#?}");
        let main = verdict.sentences.iter().find(|sentence| !sentence.next.is_empty()).expect("a step");
        assert_eq!(main.next[0].action, "run it with 2 threads");
        let texts: Vec<&str> = verdict.sentences.iter().map(|sentence| sentence.text.as_str()).collect();
        assert!(texts.iter().any(|text| text.contains("does not see whether")), "{texts:?}");
        assert!(
            !texts.iter().any(|text| text.contains("scheduling cannot change")),
            "run time may be spinning: {texts:?}"
        );
    }
}

#[test]
fn more_threads_than_cpus_that_also_block_probably_sleep() {
    let life = Life { futex: 0.2, preempted: 0.3, wakeups_per_s: 1000.0, ..Life::default() };
    let verdict = judge(&Stage::alike(2, SIBLINGS, 4, &life).by_proc());
    assert_eq!((verdict.headline, verdict.confidence), (Kind::TooManyThreadsSleeping, Confidence::Low), "{verdict:#?}");
}

#[test]
fn one_short_process_after_another_is_no_crowd() {
    let mut stage = Stage::alike(2, SIBLINGS, 120, &Life { preempted: 0.5, ..Life::default() }).by_proc();
    for thread in stage.threads_mut() {
        for time in [&mut thread.wall_ns, &mut thread.run_ns, &mut thread.preempt_wait_ns] {
            *time /= 30;
        }
    }
    assert_eq!(judge(&stage).headline, Kind::NothingToGain);
}

#[test]
fn a_cpu_for_each_thread_is_no_crowd() {
    assert_eq!(judge(&Stage::alike(2, SIBLINGS, 2, &Life::default()).by_proc()).headline, Kind::NothingToGain);
}

#[test]
fn what_hardly_ran_need_not_be_looked_at_for_spinning() {
    let spinning_not_seen = |disk: f64| {
        let mut stage = Stage::alike(2, SIBLINGS, 1, &Life { blocked: vec![("disk", disk)], ..Life::default() });
        stage.threads_mut().for_each(|thread| thread.spin_basis = ledger::SpinBasis::None);
        judge(&stage).sentences.iter().any(|sentence| sentence.text.starts_with("Spinning could not be detected"))
    };
    assert!(!spinning_not_seen(0.98) && spinning_not_seen(0.8));
}

/// If cox itself took no samples, the reason is that, and not the backend.
#[test]
fn a_run_without_samples_says_why_spinning_is_not_known() {
    let mut stage = crowd_spinning(3, 2, 0.5);
    for thread in stage.threads_mut() {
        (thread.spin_basis, thread.spin_ns, thread.samples) = (ledger::SpinBasis::None, 0, 0);
    }
    let sees = Sees { unsampled: Some(Unsampled::Noise), ..stage.account.sees() };
    stage.account.sees = Some(Sees { spin: false, ..sees });
    let verdict = judge(&stage);
    let said = |part: &str| verdict.sentences.iter().any(|sentence| sentence.text.contains(part));
    assert!(said("Spinning was not measured, because --noise takes no samples"), "{verdict:#?}");
    assert!(said("so cox does not see whether") && !said("This backend"), "{verdict:#?}");
    let evidence = Evidence::new(&stage.account, &stage.facts);
    let known: Vec<String> =
        Figure::all().filter(|figure| figure.known(&evidence).is_some()).map(|figure| figure.name()).collect();
    for absent in ["spin_ns", "work_ns", "samples", "kernel_ns", "waiting_for_threads_ns", "largest_work_ns"] {
        assert!(!known.iter().any(|name| name == absent), "{absent} looks as if it had been measured");
    }
    assert!(
        ["run_ns", "preempt_wait_ns", "wall_ns"].iter().all(|name| known.contains(&(*name).to_owned())),
        "{known:?}"
    );
}
