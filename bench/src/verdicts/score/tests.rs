//! Each rule of the score, once kept and once broken.

use super::super::result::{Printed, Told};
use super::*;

fn tried(change: &str, ratio: f64) -> Tried {
    Tried {
        change: change.to_owned(),
        known: true,
        scheduling: true,
        base_s: vec![ratio; 5],
        change_s: vec![1.0; 5],
        cut_short: false,
        speedup: Some(Speedup { ratio, low: 0.98 * ratio, high: 1.02 * ratio }),
        failed: None,
    }
}

fn arrow(expected: Option<(f64, f64)>, bound: Option<f64>, outcome: Outcome) -> Arrow {
    Arrow { action: "OMP_NUM_THREADS=2".to_owned(), expected, bound, outcome }
}

fn finished(arrows: Vec<Arrow>, tried: Vec<Tried>) -> Finished {
    Finished {
        key: "cg n=3 plain".to_owned(),
        program: "cg".to_owned(),
        loaded: false,
        failed: None,
        verdict: Some(Told {
            headline: Kind::TooManyThreadsSpinning,
            confidence: Confidence::High,
            bound: None,
            wall_s: 3.0,
            others: 0.01,
        }),
        arrows,
        tried,
    }
}

fn with_verdict(change: impl Fn(&mut Told)) -> Finished {
    let mut finished = finished(Vec::new(), vec![tried("n=2", 1.5)]);
    finished.verdict.as_mut().map(change).unwrap();
    finished
}

fn scored(all: &[Finished]) -> (Vec<Wrong>, Totals) {
    let score = score(all, |_| None);
    (score.faults.iter().map(|fault| fault.wrong).collect(), score.totals)
}

fn of(expected: Option<(f64, f64)>, bound: Option<f64>, ratio: f64) -> (Vec<Wrong>, Totals) {
    scored(&[finished(vec![arrow(expected, bound, Outcome::Tried(0))], vec![tried("n=2", ratio)])])
}

#[test]
fn a_range_holds_if_the_interval_meets_it() {
    let (faults, totals) = of(Some((1.4, 1.6)), Some(1.7), 1.5);
    assert_eq!((faults, totals.ranges, totals.in_range), (vec![], 1, 1));
    assert!(of(Some((1.0, 1.1)), None, 1.12).0.is_empty(), "the interval begins at 1.098");
    assert!(of(Some((1.16, 1.3)), None, 1.14).0.is_empty(), "the interval ends at 1.163");
    for outside in [1.13, 1.3] {
        let (faults, totals) = of(Some((1.16, 1.27)), None, outside);
        assert_eq!((faults, totals.in_range), (vec![Wrong::OutOfRange], 0), "{outside}");
    }
    let (faults, totals) = of(None, None, 1.5);
    assert_eq!((faults, totals.followed, totals.ranges), (vec![], 1, 0), "no number, no range");
}

#[test]
fn a_step_must_not_make_the_program_slower() {
    assert!(of(None, None, 0.97).0.is_empty(), "the interval ends above 0.98");
    let (faults, totals) = of(None, None, 0.95);
    assert_eq!((faults, totals.harmful), (vec![Wrong::Harm], 1));
    assert_eq!(of(Some((1.2, 1.5)), None, 0.5).0, [Wrong::Harm, Wrong::OutOfRange]);
}

#[test]
fn a_bound_is_never_exceeded() {
    assert!(of(Some((1.2, 1.4)), Some(1.4), 1.42).0.is_empty(), "the interval begins below the bound");
    let (faults, totals) = of(Some((1.2, 1.4)), Some(1.4), 1.6);
    assert_eq!((faults, totals.bounds_exceeded), (vec![Wrong::BoundExceeded, Wrong::OutOfRange], 1));

    let bounded = |value| with_verdict(|told| told.bound = Some(Printed { value, unit: 0.1 }));
    assert!(!scored(&[bounded(1.4)]).0.contains(&Wrong::BoundExceeded), "1.4 is printed for up to 1.5");
    assert_eq!(scored(&[bounded(1.2)]).1.bounds_exceeded, 1);
    let mut other = bounded(1.2);
    other.tried[0].scheduling = false;
    assert_eq!(scored(&[other]).1.bounds_exceeded, 0, "more CPUs are no scheduling");
}

#[test]
fn a_known_change_that_gives_much_has_a_step() {
    let none = |ratio| scored(&[finished(Vec::new(), vec![tried("n=2", ratio)])]);
    assert_eq!((none(1.27).0, none(1.27).1.worth), (vec![], 0), "the interval begins below 1.25");
    let (faults, totals) = none(1.5);
    assert_eq!((faults, totals.worth, totals.missed), (vec![Wrong::Missed], 1, 1));

    let two = |outcome| {
        let tried = vec![tried("n=1", 1.4), tried("n=2", 1.9), tried("passive", 1.88)];
        scored(&[finished(vec![arrow(None, None, outcome)], tried)])
    };
    assert!(two(Outcome::Tried(1)).0.is_empty());
    assert!(two(Outcome::Tried(2)).0.is_empty(), "another change gives as much");
    assert_eq!(two(Outcome::Tried(0)).0, [Wrong::Missed], "the step gives less than the best change");
    assert_eq!(two(Outcome::NotFollowed("by hand".into())).0, [Wrong::Missed]);
}

#[test]
fn packing_must_not_make_a_program_slower() {
    let packed = |base_s: f64, ratio: f64| {
        let packed = Tried { base_s: vec![base_s; 5], ..tried("cox pack --cpus 0,1", ratio) };
        let (faults, totals) = scored(&[finished(Vec::new(), vec![packed])]);
        (faults, totals.packed, totals.slower_packed)
    };
    // 1.02 × 1 s + 15 ms: a ratio of 0.966. The interval ends 2 % above the ratio.
    assert_eq!(packed(1.0, 0.95), (vec![], 1, 0));
    assert_eq!(packed(1.0, 0.94), (vec![Wrong::SlowerPacked], 1, 1));
    assert_eq!(packed(0.4, 0.5), (vec![], 0, 0), "too short");
    assert_eq!(packed(1.0, 3.0), (vec![], 1, 0), "that it gains much is no reason for a step");
}

#[test]
fn headlines_are_compared_with_the_truth_table() {
    let all = [finished(Vec::new(), Vec::new())];
    let right = score(&all, |_| Some(&[Kind::Imbalance, Kind::TooManyThreadsSpinning]));
    assert_eq!((right.faults.len(), right.totals.headlines, right.totals.right), (0, 1, 1));
    let wrong = score(&all, |_| Some(&[Kind::Imbalance, Kind::LockConvoy]));
    assert_eq!((wrong.faults[0].wrong, wrong.totals.right), (Wrong::Headline, 0));
    assert_eq!(wrong.faults[0].promised, "imbalance or lock_convoy");
    assert_eq!(score(&all, |_| None).totals.headlines, 0);

    // Foreign programs that disturb the run make no claim; the other program of the situation is part of the truth.
    let disturbed = |loaded| {
        let finished = Finished { loaded, ..with_verdict(|told| told.others = 0.3) };
        score(&[finished], |_| Some(&[Kind::CpuHog])).totals.headlines
    };
    assert_eq!((disturbed(false), disturbed(true)), (0, 1));
}

#[test]
fn vagueness_does_not_win() {
    let ranged = |confidence, ranges: &[(f64, f64)]| {
        let arrows = ranges.iter().map(|range| arrow(Some(*range), None, Outcome::Unknown)).collect();
        let mut finished = finished(arrows, Vec::new());
        finished.verdict.as_mut().unwrap().confidence = confidence;
        finished
    };
    let all =
        [ranged(Confidence::High, &[(1.0, 1.2), (1.0, 1.4), (1.0, 1.6)]), ranged(Confidence::Medium, &[(2.0, 5.0)])];
    let totals = scored(&all).1;
    assert_eq!((totals.spread_at_high, totals.spread_most), (Some(1.4), Some(2.5)));
    assert_eq!(totals.unknown, 4, "and a step that cannot be read is a fault");
    assert_eq!(scored(&[]).1.spread_most, None);
}

#[test]
fn low_confidence_counts_for_long_runs_on_a_quiet_machine() {
    let low = |wall_s, others| {
        with_verdict(|told| {
            (told.confidence, told.wall_s, told.others) = (Confidence::Low, wall_s, others);
        })
    };
    let counts = |finished| {
        let totals = scored(&[finished]).1;
        (totals.long, totals.low)
    };
    assert_eq!(counts(low(2.5, 0.01)), (1, 1));
    assert_eq!(counts(low(1.5, 0.01)), (0, 0), "short");
    assert_eq!(counts(low(2.5, 0.2)), (0, 0), "not quiet");
    assert_eq!(counts(Finished { loaded: true, ..low(2.5, 0.01) }), (0, 0), "our own load");
    assert_eq!(counts(with_verdict(|told| told.confidence = Confidence::Medium)), (1, 0));
}

#[test]
fn what_could_not_be_measured_is_counted_apart() {
    let failed = Finished { failed: Some("killed".into()), verdict: None, ..finished(Vec::new(), Vec::new()) };
    let totals = scored(&[failed, finished(Vec::new(), Vec::new())]).1;
    assert_eq!((totals.programs, totals.situations, totals.failed), (1, 1, 1));
    let mut failing = finished(vec![arrow(Some((1.2, 1.4)), None, Outcome::Tried(0))], vec![tried("n=2", 1.3)]);
    failing.tried[0].speedup = None;
    assert_eq!(scored(&[failing]).1.followed, 0, "a change with which the program fails has no speed-up");
}

#[test]
fn the_limits_of_a_change_are_those_that_the_score_uses() {
    let bound = Some(Printed { value: 1.8, unit: 0.1 });
    let arrows = [arrow(Some((1.4, 1.6)), Some(1.7), Outcome::Tried(0)), arrow(None, None, Outcome::Unknown)];
    let known = tried("n=2", 1.5);
    let of = |bound, index, tried: &Tried| limits(&arrows, bound, index, tried);
    assert_eq!(of(bound, 0, &known), [HARM, 1.7, 1.4, 1.6, WORTH, 1.8 + 0.1]);
    assert_eq!(of(bound, 1, &Tried { scheduling: false, ..known.clone() }), [WORTH]);
    assert_eq!(of(None, 0, &Tried { known: false, ..known }), [HARM, 1.7, 1.4, 1.6]);
    let packed = Tried { base_s: vec![1.0; 5], ..tried("cox pack --cpus 0,1", 1.0) };
    assert_eq!(of(None, 1, &packed), [1.0 / 1.035]);
}
