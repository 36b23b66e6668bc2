//! What the evidence does not allow is said, and not judged.

mod staged;

use advise::{Confidence, Kind, Verdict};
use staged::common::{convoy, crowd_spinning, disk_bound, expect, hog_on_one_cpu, judge, text};
use staged::{Life, OTHERS, SIBLINGS, Stage};

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

#[test]
fn a_verb_that_does_not_exist_is_not_recommended() {
    for stage in [crowd_spinning(3, 2, 0.5), disk_bound(), hog_on_one_cpu(2, Life { spin: 0.5, ..Life::default() })] {
        let verdict = judge(&stage);
        let named = verdict.sentences.iter().flat_map(|s| &s.next).any(|step| step.action.contains("cox "));
        assert!(!named, "{}", text(&verdict));
    }
}
