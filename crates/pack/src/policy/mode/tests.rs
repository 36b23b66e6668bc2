//! Whether to rotate.

mod searching;
mod verifying;

use super::search::FIRST_PERIOD;
use super::*;

const SLOTS: usize = 2;
const SLOTS_NS: u64 = 1_000_000_000;
const SAMPLES: u64 = 100_000;

/// Threads that wait in loops, and leave so much useful time, of 1.
fn spinning(efficiency: f64) -> Window {
    let spinning = (SAMPLES as f64 * (1.0 - efficiency)).round() as u64;
    let seen = Seen { samples: SAMPLES, spinning, ..Seen::default() };
    Window {
        seen,
        run_ns: SLOTS_NS,
        blocks: 0,
        meets: 0,
        slots_ns: SLOTS_NS,
        own_ns: 0,
        active: SLOTS + 1,
        phase_ns: None,
    }
}

/// What is seen of threads that yield in their loops.
fn yielding(efficiency: f64) -> Seen {
    let seen = spinning(efficiency).seen;
    Seen { yielding: seen.spinning, ..seen }
}

/// Threads that sleep after running for so long, and leave so much of the slots' time unused.
fn blocking(efficiency: f64, burst_ns: u64) -> Window {
    let run_ns = (SLOTS_NS as f64 * efficiency) as u64;
    let seen = Seen { samples: SAMPLES, ..Seen::default() };
    Window {
        seen,
        run_ns,
        blocks: run_ns / burst_ns,
        meets: 0,
        slots_ns: SLOTS_NS,
        own_ns: 0,
        active: SLOTS + 1,
        phase_ns: None,
    }
}

fn adapted() -> Mode {
    Mode::new(0, Periods::Adapted, false)
}

/// A window ends; says what comes next and for how long.
fn next(mode: &mut Mode, window: &Window) -> (Action, u64) {
    let now_ns = mode.until_ns();
    mode.decide(now_ns, SLOTS, window);
    (mode.action(), mode.until_ns() - now_ns)
}

fn rotates(mode: &Mode) -> bool {
    matches!(mode.action(), Action::Rotate { .. })
}

fn measures(mode: &Mode) -> bool {
    matches!(mode.action(), Action::Measure { .. })
}

/// The kernel settles, while this is seen; says what comes next and for how long.
fn settles(mode: &mut Mode, window: &Window) -> (Action, u64) {
    let soon = next(mode, window);
    if measures(mode) { next(mode, window) } else { soon }
}

/// The period's place in [`PERIODS_NS`].
fn period_of(mode: &Mode) -> Option<usize> {
    match mode.action() {
        Action::Rotate { period_ns } => PERIODS_NS.iter().position(|&period| period == period_ns),
        Action::Rest | Action::Measure { .. } => None,
    }
}

/// A mode that has measured this and rotates.
fn rotating(periods: Periods, without: f64) -> Mode {
    let mut mode = Mode::new(0, periods, false);
    while !rotates(&mode) {
        next(&mut mode, &spinning(without));
    }
    mode
}

#[test]
fn measures_first_and_lets_the_kernel_settle() {
    let mut mode = adapted();
    assert!(measures(&mode));
    assert_eq!(mode.efficiencies(), (None, None));
    assert_eq!(settles(&mut mode, &spinning(0.8)), (Action::Measure { look_ns: LOOK_NS }, MEASURE_NS));
    assert_eq!(mode.efficiencies().0, None, "what was seen while settling does not count");
    assert_eq!(next(&mut mode, &spinning(0.9)).0, Action::Rotate { period_ns: PERIODS_NS[FIRST_PERIOD] });
    assert_eq!(mode.efficiencies(), (Some(0.9), None));
}

/// Samples cost threads that meet often more than they tell where nobody spins.
#[test]
fn samples_are_seldom_while_nobody_waits_in_loops() {
    let look = |mode: &Mode| match mode.action() {
        Action::Measure { look_ns } => look_ns,
        other => panic!("{other:?}"),
    };
    let asleep = blocking(0.9, LONG_BURST_NS / 2);
    let mut mode = adapted();
    assert_eq!(look(&mode), LOOK_NS, "nothing is known yet");
    next(&mut mode, &asleep);
    assert_eq!(look(&mode), LOOK_SELDOM_NS);
    next(&mut mode, &spinning(0.9));
    assert_eq!(look(&mode), LOOK_NS, "now they wait in loops");
    let mut mode = adapted();
    settles(&mut mode, &asleep);
    assert_eq!(look(&mode), LOOK_SELDOM_NS);
    next(&mut mode, &spinning(0.8));
    assert_eq!((look(&mode), mode.efficiencies().0), (LOOK_NS, None), "too few samples for a figure");
    next(&mut mode, &spinning(0.8));
    assert_eq!(mode.efficiencies().0, Some(0.8));
    let mut mode = adapted();
    settles(&mut mode, &Window { active: SLOTS, ..asleep });
    assert_eq!(look(&mode), LOOK_NS, "it may only be starting");
}

#[test]
fn rotates_at_once_for_spinners_that_leave_no_doubt() {
    // After the first half of the time only when it is worse.
    for (looks, limit) in [(1, NO_DOUBT_SOON), (2, NO_DOUBT)] {
        for (window, rotated) in [
            (spinning(limit - 0.01), true),
            (spinning(limit + 0.01), false),
            (Window { seen: yielding(limit - 0.01), ..spinning(limit) }, false),
            // The program is starting: little is done, and some of that is waiting.
            (Window { run_ns: SLOTS_NS / 2, ..spinning(limit + 0.1) }, false),
            // As little useful time, but asleep: nobody suffers.
            (blocking(limit - 0.01, 10 * LONG_BURST_NS), false),
        ] {
            let mut mode = adapted();
            for _ in 0..looks {
                next(&mut mode, &window);
            }
            assert_eq!(rotates(&mode), rotated, "{looks} {window:?}");
        }
    }
}

#[test]
fn rests_where_nothing_can_be_won() {
    let few = Window { active: SLOTS, ..spinning(0.3) };
    let cases = [
        ("no more threads than slots", few, Kind::Free),
        ("efficient enough", blocking(GOOD_ENOUGH + 0.005, 10 * LONG_BURST_NS), Kind::Free),
        ("short bursts", blocking(0.7, LONG_BURST_NS / 2), Kind::Blocking(LONG_BURST_NS / 2)),
    ];
    for (name, window, kind) in cases {
        let mut mode = adapted();
        settles(&mut mode, &window);
        assert!(measures(&mode), "{name}");
        assert_eq!(next(&mut mode, &window), (Action::Rest, REST_NS.0), "{name}");
        assert_eq!(Kind::of(&window, SLOTS), kind, "{name}");
    }
}

#[test]
fn rotates_where_something_can_be_won() {
    let most = (1.0 - LEAST_COST) / WORTH;
    for (window, rotated) in [
        (blocking(0.7, 2 * LONG_BURST_NS), true),
        (spinning(0.8), true),
        (spinning(most - 0.001), true),
        (spinning(most + 0.001), false),
    ] {
        let mut mode = adapted();
        settles(&mut mode, &window);
        next(&mut mode, &window);
        assert_eq!(rotates(&mode), rotated, "{window:?}");
    }
}

#[test]
fn threads_that_divide_evenly_are_spread_and_measured_again() {
    let even = |efficiency| Window { active: 2 * SLOTS, ..spinning(efficiency) };
    // Else there would be no doubt.
    let yields = |window: Window| Window { seen: Seen { yielding: window.seen.spinning, ..window.seen }, ..window };
    for (again, kept) in [(0.93, false), (0.8, true)] {
        let mut mode = adapted();
        for first in [0.8, 0.3] {
            settles(&mut mode, &yields(even(first)));
            next(&mut mode, &even(first));
            assert!(rotates(&mode));
            next(&mut mode, &even(0.9));
            assert!(measures(&mode), "one window of rotation leaves them spread");
            assert_eq!(mode.efficiencies().0, None, "what was measured before does not count");
            settles(&mut mode, &even(again));
            next(&mut mode, &even(again));
            assert_eq!(rotates(&mode), kept, "{again}");
            if kept {
                break;
            }
            // They may be somewhere else after a rest.
            next(&mut mode, &even(again));
        }
        if kept {
            next(&mut mode, &even(0.9));
            assert!(rotates(&mode), "once is enough");
        }
    }
}

#[test]
fn what_did_not_win_is_not_tried_again_soon() {
    // Where there is doubt, and where there is none.
    for (without, with) in [(0.8, 0.75), (0.3, 0.29)] {
        let mut mode = rotating(Periods::Adapted, without);
        let mut rests = 0;
        for _ in 0..2 {
            assert_eq!(given_up_after(&mut mode, with), 2);
            while !rotates(&mode) {
                rests += usize::from(mode.action() == Action::Rest);
                next(&mut mode, &spinning(without));
            }
        }
        assert_eq!(rests, 10, "{without}");
    }
    let mut mode = rotating(Periods::Adapted, 0.8);
    // The kernel does worse than before: what was not enough then would be now.
    assert_eq!(given_up_after(&mut mode, 0.75), 2);
    next(&mut mode, &spinning(0.5));
    while measures(&mode) {
        next(&mut mode, &spinning(0.5));
    }
    assert!(rotates(&mode));
}

#[test]
fn measures_again_after_each_rest_and_the_rest_doubles() {
    let mut mode = adapted();
    let mut rests = Vec::new();
    for _ in 0..7 {
        settles(&mut mode, &blocking(0.7, 1000));
        rests.push(next(&mut mode, &blocking(0.7, 1000)).1 / REST_NS.0);
        assert_eq!(mode.action(), Action::Rest);
        next(&mut mode, &blocking(0.7, 1000));
        assert!(measures(&mode));
    }
    assert_eq!(rests, [1, 2, 4, 8, 16, 16, 16]);
}

/// Windows of rotation at this efficiency until it is given up, at most 40.
fn given_up_after(mode: &mut Mode, efficiency: f64) -> usize {
    let mut windows = 0;
    while rotates(mode) && windows < 40 {
        next(mode, &spinning(efficiency));
        windows += 1;
    }
    windows
}

#[test]
fn backs_out_where_rotation_does_not_win() {
    let without = 0.8;
    for (with, windows) in [(0.85 * without, 1), (0.95 * without, 2), (1.04 * without, 4), (1.06 * without, 40)] {
        let mut mode = rotating(Periods::Adapted, without);
        assert_eq!(given_up_after(&mut mode, with), windows, "{with}");
        assert_eq!(rotates(&mode), windows == 40, "{with}");
        if windows < 40 {
            assert_eq!(mode.action(), Action::Rest);
        }
    }
}

/// Threads that pass so many barriers in the window.
fn meeting(window: Window, meets: u64) -> Window {
    Window { meets, ..window }
}

/// Threads that lose their caches are busy, and still slower.
#[test]
fn backs_out_where_the_program_advances_no_faster() {
    for (meets, windows) in [(820, 1), (920, 2), (1010, 40)] {
        let mut mode = adapted();
        while !rotates(&mode) {
            next(&mut mode, &meeting(spinning(0.8), 1000));
        }
        let mut count = 0;
        while rotates(&mode) && count < 40 {
            next(&mut mode, &meeting(spinning(0.95), meets));
            count += 1;
        }
        assert_eq!(count, windows, "{meets}");
    }
    // Blocks tell the same of threads that sleep.
    for (burst_ns, kept) in [(2 * LONG_BURST_NS, true), (3 * LONG_BURST_NS, false)] {
        let mut mode = adapted();
        while !rotates(&mode) {
            next(&mut mode, &blocking(0.7, 2 * LONG_BURST_NS));
        }
        for _ in 0..2 {
            next(&mut mode, &blocking(0.9, burst_ns));
        }
        assert_eq!(rotates(&mode), kept, "{burst_ns}");
    }
}

#[test]
fn what_comes_after_the_trial_is_no_loss() {
    let mut mode = adapted();
    while !rotates(&mode) {
        next(&mut mode, &meeting(spinning(0.8), 1000));
    }
    for window in 0..20 {
        // The program goes on with longer phases.
        next(&mut mode, &meeting(spinning(0.95), if window < TRIAL { 1200 } else { 300 }));
        assert!(rotates(&mode), "{window}");
    }
}

#[test]
fn threads_that_yield_in_short_phases_are_left_to_the_kernel() {
    let phases = |phase_ns: u64| SLOTS_NS / SLOTS as u64 / phase_ns;
    for (phase_ns, seen, rested) in [
        (LONG_BURST_NS / 2, yielding(0.5), true),
        (LONG_BURST_NS * 2, yielding(0.5), false),
        (LONG_BURST_NS / 2, spinning(0.5).seen, false),
    ] {
        let window = meeting(Window { seen, ..spinning(0.5) }, phases(phase_ns));
        let mut mode = adapted();
        assert_eq!(settles(&mut mode, &window).0 == Action::Rest, rested, "{phase_ns}");
    }
    // Nothing is known of the phases.
    let window = Window { seen: yielding(0.5), ..spinning(0.5) };
    assert_eq!(Kind::of(&window, SLOTS), Kind::Spinning);
}

#[test]
fn each_failure_doubles_the_rest_and_a_success_makes_it_short_again() {
    let mut mode = rotating(Periods::Adapted, 0.8);
    let mut rests = Vec::new();
    while rests.len() < 12 {
        let efficiency = if rotates(&mode) { 0.7 } else { 0.8 };
        let (action, lasts_ns) = next(&mut mode, &spinning(efficiency));
        if action == Action::Rest {
            rests.push(lasts_ns / REST_NS.0);
        }
    }
    assert_eq!(rests, [1, 2, 4, 8, 16, 16, 16, 16, 16, 16, 16, 16]);
    while !rotates(&mode) {
        next(&mut mode, &spinning(0.8));
    }
    for _ in 0..30 {
        next(&mut mode, &spinning(0.95));
    }
    assert!(rotates(&mode));
    let few = Window { active: SLOTS, ..spinning(0.95) };
    assert_eq!(next(&mut mode, &few), (Action::Rest, REST_NS.0));
}

#[test]
fn efficiency_without_rotation_has_the_range_of_its_windows() {
    let mut mode = adapted();
    assert_eq!(mode.measured(), None);
    let few = |efficiency: f64| {
        let spinning = (100.0 * (1.0 - efficiency)).round() as u64;
        Window { seen: Seen { samples: 100, spinning, ..Seen::default() }, ..self::spinning(efficiency) }
    };
    settles(&mut mode, &few(0.8));
    assert_eq!(mode.measured(), None, "what was seen while settling does not count");
    next(&mut mode, &few(0.8));
    let one = mode.measured().unwrap();
    // Two standard errors of 100 samples, a fifth of which spin.
    assert!((one.low - 0.72).abs() < 1e-9 && (one.high - 0.88).abs() < 1e-9, "{one:?}");
    assert_eq!(one.ns, SLOTS_NS / SLOTS as u64);
    let both = one.and(Measured { low: 0.7, high: 0.8, ns: 5 });
    assert_eq!((both.low, both.high, both.ns), (0.7, one.high, one.ns + 5));
    // Many samples do not make a program the same at all times.
    let exact = Measured::of(&spinning(0.5), SLOTS);
    assert!((exact.low - 0.485).abs() < 1e-3 && (exact.high - 0.515).abs() < 1e-3, "{exact:?}");
}

/// The controller's own time and what was spun are not useful.
#[test]
fn efficiency_is_useful_time_of_the_slots() {
    let own = Window { own_ns: SLOTS_NS / 10, ..spinning(0.8) };
    assert!((efficiency(&own) - 0.75).abs() < 1e-9);
    assert_eq!(efficiency(&Window { own_ns: 2 * SLOTS_NS, ..spinning(0.8) }), 0.0);
    assert_eq!(efficiency(&Window { slots_ns: 0, ..spinning(0.8) }), 0.0);
    assert!((efficiency(&blocking(0.6, LONG_BURST_NS)) - 0.6).abs() < 1e-6);
}

#[test]
fn fixed_periods_never_change() {
    let mut mode = rotating(Periods::Fixed(777_000), 0.5);
    for window in 0..60 {
        assert_eq!(mode.action(), Action::Rotate { period_ns: 777_000 }, "{window}");
        next(&mut mode, &spinning(if window % 2 == 0 { 0.9 } else { 0.8 }));
    }
}

#[test]
fn always_never_rests() {
    let mut mode = Mode::new(0, Periods::Adapted, true);
    let few = Window { active: 0, ..spinning(0.0) };
    for window in [few, spinning(0.0), blocking(1.0, 1000)] {
        // Longer than the longest time between verifications.
        while mode.until_ns() < 3 * VERIFY_NS.1 {
            assert!(rotates(&mode));
            next(&mut mode, &window);
        }
        mode = Mode::new(0, Periods::Adapted, true);
    }
}

#[test]
fn a_window_has_enough_periods() {
    for (period_ns, window_ns) in [(100_000, WINDOW_NS), (4_000_000, WINDOW_PERIODS * 4_000_000)] {
        let mode = Mode::new(0, Periods::Fixed(period_ns), true);
        assert_eq!(mode.until_ns(), window_ns);
    }
}

/// Half of the CPUs' time went to somebody else: the threads do not wait for one another, and no period would
/// give it back.
#[test]
fn threads_that_hardly_block_are_free_however_little_they_get() {
    let seldom = Window { blocks: 8, ..blocking(0.5, 10_000_000) };
    assert_eq!(Kind::of(&seldom, SLOTS), Kind::Free);
    let often = Window { blocks: 9, ..seldom };
    assert!(matches!(Kind::of(&often, SLOTS), Kind::Blocking(_)));
}
