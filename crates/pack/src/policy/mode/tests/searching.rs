//! The search for the best period.

use random::Random;

use super::*;

/// A curve of efficiencies with its peak at this period, 4 % lost for each doubling or halving.
fn at(period: usize, peak: usize) -> f64 {
    0.95 - 0.04 * period.abs_diff(peak) as f64
}

/// Windows until the peak is used, and how many of the 60 after that use it.
fn search(peak: usize, noise: f64, seed: u64) -> (usize, usize) {
    let mut random = Random::new(seed);
    let mut mode = rotating(Periods::Adapted, 0.5);
    let (mut found, mut used) = (None, 0);
    for window in 0..100 {
        let period = period_of(&mode).expect("it is worth it");
        found = found.or_else(|| (period == peak).then_some(window));
        if found.is_some_and(|found| (found..found + 60).contains(&window)) {
            used += usize::from(period == peak);
        }
        next(&mut mode, &spinning(at(period, peak) + noise * (2.0 * random.unit() - 1.0)));
    }
    (found.unwrap_or(usize::MAX), used)
}

#[test]
fn finds_the_best_period() {
    for peak in 0..PERIODS_NS.len() {
        let (found, used) = search(peak, 0.0, 1);
        // A window for each step there, and one for each wrong neighbour.
        assert!(found <= 2 * peak.abs_diff(FIRST_PERIOD) + 2, "{peak}: found after {found}");
        assert!(used >= 50, "{peak}: used in {used} of 60");
    }
}

#[test]
fn periods_whose_cost_alone_is_too_much_are_not_tried() {
    let mut mode = rotating(Periods::Adapted, 0.5);
    let mut tried = [0; PERIODS_NS.len()];
    for _ in 0..100 {
        let period = period_of(&mode).expect("it is worth it");
        tried[period] += 1;
        // Ticks cost 6 % at the first period, and 2 % of the time is waited: a shorter period can only lose, a
        // longer one may win, and the one after that would be waited away.
        let own_ns = (SLOTS_NS / 25) * PERIODS_NS[FIRST_PERIOD] / PERIODS_NS[period];
        let waited = 0.02 * PERIODS_NS[period] as f64 / PERIODS_NS[FIRST_PERIOD] as f64;
        next(&mut mode, &Window { own_ns, ..spinning(1.0 - waited) });
    }
    assert_eq!(tried[..FIRST_PERIOD], [0; FIRST_PERIOD], "{tried:?}");
    assert_eq!(tried[FIRST_PERIOD + 2..], [0; PERIODS_NS.len() - FIRST_PERIOD - 2], "{tried:?}");
    assert!(tried[FIRST_PERIOD] > 0 && tried[FIRST_PERIOD + 1] > 0, "{tried:?}");
}

/// The period that is used most of the last of many windows of phases of 5 ms, where one CPU of two is taken up by so
/// much of the controller at the first period, and by 1.55 times as much at half of that.
fn used_in_long_phases(without: f64, own: f64, efficiency: impl Fn(usize) -> f64) -> usize {
    let mut mode = rotating(Periods::Adapted, without);
    let mut used = [0; PERIODS_NS.len()];
    for window in 0..100 {
        let period = period_of(&mode).expect("it is worth it");
        used[period] += usize::from(window >= 50);
        let own = own * 1.55f64.powf(FIRST_PERIOD as f64 - period as f64);
        let own_ns = (own * (SLOTS_NS / SLOTS as u64) as f64) as u64;
        let spun = 1.0 - efficiency(period) - own * 0.75;
        let phase_ns = Some(LONG_PHASE_NS);
        next(&mut mode, &Window { own_ns, phase_ns, run_ns: SLOTS_NS - own_ns, ..spinning(1.0 - spun) });
    }
    (0..PERIODS_NS.len()).max_by_key(|&period| used[period]).expect("periods")
}

#[test]
fn in_long_phases_a_little_efficiency_is_given_for_a_controller_that_costs_little() {
    let dearer = |without: f64, worse: f64| {
        used_in_long_phases(without, 0.06, |period| 0.9 - worse * period.abs_diff(FIRST_PERIOD) as f64)
    };
    assert_eq!(dearer(0.5, 0.04), FIRST_PERIOD + 1, "4 % of a CPU instead of 6 %, for 4 % of efficiency");
    assert_eq!(dearer(0.5, 0.06), FIRST_PERIOD, "not for 6 %");
    assert_eq!(dearer(0.84, 0.04), FIRST_PERIOD, "nor where rotation would not be worth it any more");
    let cheap = used_in_long_phases(0.5, 0.035, |period| 0.9 - 0.04 * period.saturating_sub(FIRST_PERIOD - 1) as f64);
    assert_eq!(cheap, FIRST_PERIOD, "5.4 % of a CPU instead of 3.5 % are too much for 4 % of efficiency");
}

#[test]
fn periods_become_short_at_once_where_nobody_works() {
    let mut mode = rotating(Periods::Adapted, 0.1);
    let mut periods = vec![period_of(&mode)];
    for efficiency in [0.02, 0.05] {
        next(&mut mode, &spinning(efficiency));
        periods.push(period_of(&mode));
    }
    assert_eq!(
        periods,
        [Some(FIRST_PERIOD), Some(FIRST_PERIOD - 2), Some(0)],
        "worse than without, and yet not given up"
    );
    next(&mut mode, &spinning(0.05));
    assert!(measures(&mode), "now they are short; but the program may only have been starting");
    let mut worked_before = mode.clone();
    settles(&mut mode, &spinning(0.1));
    next(&mut mode, &spinning(0.1));
    assert_eq!(mode.action(), Action::Rest, "it was not");
    settles(&mut worked_before, &spinning(0.01));
    assert_eq!(period_of(&worked_before), Some(0), "it was: 0.05 are five times as much as what the kernel does");
    for _ in 0..8 {
        next(&mut worked_before, &spinning(0.05));
    }
    assert!(rotates(&worked_before));
}

#[test]
fn one_thread_that_works_is_enough_on_many_slots() {
    let is_too_long = |efficiency: f64, spun: f64, slots: usize| {
        let mut search = search::Search::new(Periods::Adapted);
        search.note(Gave { efficiency, spun, slots, ..Gave::default() });
        search.is_too_long()
    };
    assert!(!is_too_long(0.05, 0.94, 16));
    assert!(is_too_long(0.05, 0.94, 2));
    assert!(is_too_long(0.02, 0.94, 16), "the controller works, but nobody else");
    assert!(!is_too_long(0.05, 0.3, 2), "they are asleep");
}

/// The thread for which all others wait may be asleep for a while.
#[test]
fn a_short_stop_says_nothing_of_periods_that_were_good() {
    let mut mode = rotating(Periods::Adapted, 0.5);
    let seen = |mode: &Mode| spinning(at(period_of(mode).expect("it is worth it"), FIRST_PERIOD));
    for _ in 0..40 {
        let window = seen(&mode);
        next(&mut mode, &window);
    }
    assert_eq!(period_of(&mode), Some(FIRST_PERIOD));
    let known = mode.efficiencies();
    next(&mut mode, &spinning(0.0));
    assert_eq!((period_of(&mode), mode.efficiencies()), (Some(FIRST_PERIOD), known));
    next(&mut mode, &spinning(0.0));
    assert_ne!(period_of(&mode), Some(FIRST_PERIOD), "the second in a row does");
    // And it was only a stop.
    let mut used = 0;
    for _ in 0..20 {
        used += usize::from(period_of(&mode) == Some(FIRST_PERIOD));
        let window = seen(&mode);
        next(&mut mode, &window);
    }
    assert!(used >= 12, "{used}");
}

#[test]
fn finds_the_best_period_in_noise() {
    for peak in 0..PERIODS_NS.len() {
        for seed in 0..20 {
            let (found, used) = search(peak, 0.02, seed);
            assert!(found <= 15, "{peak}, seed {seed}: found after {found}");
            assert!(used >= 35, "{peak}, seed {seed}: used in {used} of 60");
        }
    }
}

#[test]
fn the_search_follows_a_program_that_changes() {
    let mut mode = rotating(Periods::Adapted, 0.5);
    for (peak, windows) in [(1, 40), (5, 80), (2, 80)] {
        for _ in 0..windows {
            let period = period_of(&mode).expect("it is worth it");
            next(&mut mode, &spinning(at(period, peak)));
        }
        let period = period_of(&mode).expect("it is worth it");
        assert!(period.abs_diff(peak) <= 1, "{peak}: {period}");
    }
}

#[test]
fn a_program_that_no_longer_gains_is_let_go_soon() {
    let mut mode = rotating(Periods::Adapted, 0.7);
    for _ in 0..40 {
        let period = period_of(&mode).expect("it is worth it");
        next(&mut mode, &spinning(at(period, 4)));
    }
    // Every period that was good has to be seen bad before.
    let windows = given_up_after(&mut mode, 0.5);
    assert!(windows <= 16, "{windows}");
    assert_eq!(mode.action(), Action::Rest);
}
