use super::*;

fn record(time_ns: f64, lib: f64) -> Record {
    Record { trips: 1000, time_ns, lib, dispatch: 0.0 }
}

/// Executes instances whose times and imbalances depend on schedule and instance; returns how many each schedule had.
fn run(auto: &mut Auto, instances: usize, of: impl Fn(usize, usize) -> (f64, f64)) -> Vec<usize> {
    let mut counts = vec![0; auto.requests.len()];
    for instance in 0..instances {
        let schedule = auto.select();
        counts[schedule] += 1;
        let (time_ns, lib) = of(schedule, instance);
        auto.record(&record(time_ns, lib));
    }
    counts
}

fn few(schedules: usize) -> Vec<Requests> {
    vec![Requests::Few; schedules]
}

#[test]
fn a_challenger_stands_between_two_instances_of_the_champion() {
    let mut auto = Auto::new(&few(3), 2, 1);
    let order: Vec<usize> = (0..5)
        .map(|_| {
            let schedule = auto.select();
            assert_eq!(auto.select(), schedule, "asking changes nothing");
            auto.record(&record(1e6, 0.3));
            schedule
        })
        .collect();
    assert_eq!(order, [0, 1, 0, 2, 0]);
}

#[test]
fn the_fastest_is_selected_and_slow_ones_are_tried_once() {
    let times = [1.3e6, 1.2e6, 1.0e6, 5.0e6];
    let mut auto = Auto::new(&few(4), 2, 1);
    let counts = run(&mut auto, 100, |schedule, _| (times[schedule], 0.2));
    let verdict = auto.verdict().unwrap();
    assert_eq!((verdict.schedule, verdict.reason, verdict.selections), (2, Reason::Fastest, 1));
    assert_eq!(counts[3], 1, "{counts:?}");
    assert!(counts[2] > 85, "{counts:?}");
    let (second, factor) = verdict.second.unwrap();
    assert!(second == 1 && (factor - 1.2).abs() < 0.01, "{verdict:?}");
}

/// A drift of 1 % for each instance is as large as the differences.
#[test]
fn a_steady_drift_decides_nothing() {
    let mut auto = Auto::new(&few(3), 2, 1);
    run(&mut auto, 60, |schedule, instance| ([1.02e6, 1e6, 1.04e6][schedule] * 1.01f64.powi(instance as i32), 0.2));
    assert_eq!(auto.verdict().unwrap().schedule, 1);
}

#[test]
fn similar_schedules_are_said_to_be() {
    let mut auto = Auto::new(&few(3), 2, 1);
    run(&mut auto, 60, |schedule, _| (1e6 + schedule as f64, 0.2));
    let verdict = auto.verdict().unwrap();
    assert_eq!((verdict.schedule, verdict.reason), (0, Reason::Similar));
}

#[test]
fn a_balanced_loop_needs_no_trial_of_dearer_schedules() {
    let mut auto = Auto::new(&few(5), 2, 1);
    let counts = run(&mut auto, 50, |schedule, _| if schedule == 0 { (1.3e6, 0.4) } else { (1e6, 0.01) });
    let verdict = auto.verdict().unwrap();
    assert_eq!((verdict.schedule, verdict.reason), (1, Reason::Balanced));
    assert_eq!(counts[2..], [0, 0, 0], "{counts:?}");
}

/// The thread with less work lost its CPU for as long as the other one had more to do.
/// Times differ by factors, but imbalance says what is better.
#[test]
fn a_challenger_that_balances_twice_needs_no_clear_times() {
    let mut auto = Auto::new(&few(5), 2, 1);
    // 1.0, 3.0, 0.7 … times what the schedule takes: neighbours are never alike.
    let of = |schedule: usize, instance: usize| {
        let (time, lib) = if schedule == 0 { (1.2e6, 0.35) } else { (1e6, 0.01) };
        (time * [1.0, 3.0, 0.7, 1.1, 2.0][instance % 5], lib)
    };
    let counts = run(&mut auto, 40, of);
    assert_eq!(auto.verdict().unwrap().reason, Reason::Balanced);
    assert!(counts[0] < 10, "{counts:?}");
}

#[test]
fn balance_by_chance_ends_no_trial() {
    let mut auto = Auto::new(&few(3), 2, 1);
    let libs = [0.01, 0.3, 0.3, 0.3, 0.3, 0.3];
    run(&mut auto, 6, |_, instance| (1e6, libs[instance]));
    assert!(auto.verdict().is_none_or(|verdict| verdict.reason != Reason::Balanced));
}

/// The first schedule balances at first, and no longer when the work of iterations begins to differ.
#[test]
fn a_loop_that_is_no_longer_balanced_is_tried_again() {
    let drifting = |schedule: usize, instance: usize| {
        let lib = if schedule == 0 { (instance as f64 / 200.0).min(0.5) } else { 0.0 };
        (1e6 / (1.0 - lib / 2.0), lib)
    };
    let mut auto = Auto::new(&few(4), 2, 1);
    run(&mut auto, 4, drifting);
    assert_eq!(auto.verdict().unwrap().schedule, 0);
    let counts = run(&mut auto, 196, drifting);
    let verdict = auto.verdict().unwrap();
    assert_eq!((verdict.schedule, verdict.reason, verdict.selections), (1, Reason::Balanced, 2), "{counts:?}");
    // Until imbalance costs 4 %, which it does in the sixteenth instance; its median is a little later.
    assert!(counts[0] < 28, "{counts:?}");
}

#[test]
fn requests_that_cost_more_than_imbalance_are_not_tried() {
    let requests = [Requests::Few, Requests::Chunks(1), Requests::Chunks(1000)];
    let mut auto = Auto::new(&requests, 2, 1);
    // Requests for each of 1000 iterations take two threads at least 15 µs; imbalance takes 10.
    let counts = run(&mut auto, 20, |_, _| (1e5, 0.2));
    assert!(counts[1] == 0 && counts[2] > 0, "{counts:?}");
    let mut auto = Auto::new(&requests, 2, 1);
    let counts = run(&mut auto, 20, |_, _| (1e6, 0.2));
    assert!(counts[1] > 0, "{counts:?}");
}

#[test]
fn during_trials_the_champion_leads_after_the_first_pass() {
    let mut auto = Auto::new(&few(3), 2, 1);
    let noisy =
        |schedule: usize, instance: usize| ([1.05e6, 1e6, 1.02e6][schedule] * [1.0, 1.6, 0.7][instance % 3], 0.3);
    run(&mut auto, 3, noisy);
    assert_eq!(auto.verdict(), None);
    run(&mut auto, 5, noisy);
    assert_eq!(auto.verdict().unwrap().reason, Reason::Leading);
}

#[test]
fn one_schedule_is_selected_without_trials() {
    let mut auto = Auto::new(&[], 2, 1);
    assert_eq!(run(&mut auto, 5, |_, _| (1e6, 0.5)), [5]);
    assert_eq!(auto.verdict().unwrap().reason, Reason::Fastest);
}
