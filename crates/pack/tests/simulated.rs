//! The policy on simulated machines, compared with closed forms, with the kernel alone, and with live measurements.

mod bound;

use bound::Shape;
use pack::policy::assignment::{FULL_CAPACITY, moves_per_slice};
use pack::policy::controller::Settings;
use pack::policy::mode::Periods;
use pack::sim::{Costs, Outcome, Packing, Program, Wait, run};

/// A seed that is not special.
const SEED: u64 = 11;

fn equal(cpus: usize) -> Vec<u64> {
    vec![FULL_CAPACITY; cpus]
}

fn program(threads: usize, rounds: u64, work_ns: u64, wait: Wait) -> Program {
    Program { threads, rounds, work_ns, jitter: 0.0, wait }
}

fn adapted() -> Packing {
    Packing::Policy(Settings::default())
}

/// Rotation with this period from beginning to end.
fn rotation(period_ns: u64) -> Packing {
    Packing::Policy(Settings { periods: Periods::Fixed(period_ns), always: true, ..Settings::default() })
}

fn shape(threads: usize, cpus: usize) -> Shape {
    Shape::new(threads, cpus).expect("neither is 0")
}

/// How many times longer than the ideal it took.
fn slowdown(program: &Program, cpus: usize, outcome: &Outcome) -> f64 {
    let ideal_ns = shape(program.threads, cpus).ideal_phase_ns(program.work_ns as f64) * program.rounds as f64;
    outcome.elapsed_ns as f64 / ideal_ns
}

fn within(value: f64, expected: f64, part: f64) -> bool {
    (value / expected - 1.0).abs() <= part
}

fn numbers(outcome: &Outcome) -> (u64, Vec<u64>, u64, u64, u64, u64) {
    let totals = &outcome.totals;
    let (seen, waits) = (totals.seen.exchanges, outcome.longest_wait_ns);
    (outcome.elapsed_ns, outcome.run_ns.clone(), outcome.own_ns, seen, waits, outcome.switches)
}

#[test]
fn the_same_seed_is_the_same_run() {
    let program = Program { jitter: 0.2, ..program(5, 200, 1_000_000, Wait::Spin) };
    for packing in [Packing::Kernel, Packing::Pinned, adapted()] {
        let once = |seed| numbers(&run(&program, &equal(3), packing, Costs::default(), seed));
        assert_eq!(once(1), once(1), "{packing:?}");
        assert_ne!(once(1).0, once(2).0, "{packing:?}");
    }
}

#[test]
fn without_jitter_the_kernel_needs_no_dice() {
    let program = program(3, 50, 1_000_000, Wait::Spin);
    let once = |seed| numbers(&run(&program, &equal(2), Packing::Kernel, Costs::default(), seed));
    assert_eq!(once(1), once(2));
}

/// Threads that keep their CPUs take `ceil(N/C) * C/N`. Whoever waits in a loop does so for up to a tick of
/// the kernel longer than it need: phases are long.
#[test]
fn pinned_threads_take_what_the_formula_says() {
    for (threads, cpus) in [(3, 2), (4, 3), (8, 7), (16, 15)] {
        let expected = shape(threads, cpus).static_slowdown();
        for (wait, work_ns, part) in
            [(Wait::Spin, 200_000_000, 0.01), (Wait::Spin, 50_000_000, 0.03), (Wait::Block, 1_000_000, 0.001)]
        {
            let program = program(threads, 5, work_ns, wait);
            let outcome = run(&program, &equal(cpus), Packing::Pinned, Costs::NONE, SEED);
            let found = slowdown(&program, cpus, &outcome);
            assert!(within(found, expected, part), "{threads}/{cpus} {wait:?}: {found}, not {expected}");
        }
    }
}

#[test]
fn nothing_is_lost_where_each_thread_has_its_cpu() {
    for (threads, cpus) in [(1, 1), (2, 2), (15, 15), (2, 3)] {
        for packing in [Packing::Kernel, Packing::Pinned, adapted()] {
            let program = program(threads, 100, 1_000_000, Wait::Spin);
            let outcome = run(&program, &equal(cpus), packing, Costs::NONE, SEED);
            assert_eq!(outcome.elapsed_ns, 100_000_000, "{threads}/{cpus} {packing:?}");
        }
    }
}

/// CPU time is neither lost nor made up; threads that wait in loops use all there is.
#[test]
fn cpu_time_adds_up() {
    for (threads, cpus) in [(3, 2), (5, 2), (16, 15)] {
        for wait in [Wait::Spin, Wait::Yield, Wait::Block, Wait::SpinThenBlock(200_000), Wait::Never] {
            for packing in [Packing::Kernel, Packing::Pinned, adapted(), rotation(500_000)] {
                let program = Program { jitter: 0.1, ..program(threads, 100, 1_000_000, wait) };
                let name = format!("{threads}/{cpus} {wait:?} {packing:?}");
                let all = |outcome: &Outcome| (outcome.run_ns.iter().sum::<u64>(), outcome.elapsed_ns * cpus as u64);
                let (used_ns, there_ns) = all(&run(&program, &equal(cpus), packing, Costs::default(), SEED));
                assert!(used_ns <= there_ns, "{name}: {used_ns} of {there_ns}");
                let (used_ns, there_ns) = all(&run(&program, &equal(cpus), packing, Costs::NONE, SEED));
                assert!(used_ns <= there_ns, "{name}: {used_ns} of {there_ns}");
                if matches!(wait, Wait::Spin | Wait::Yield) {
                    assert_eq!(used_ns, there_ns, "{name}");
                }
            }
        }
    }
}

/// Shapes, periods and work for which rotation is run: every phase has at least 20 periods.
fn rotated(threads: usize, cpus: usize, wait: Wait) -> impl Iterator<Item = (u64, Program, Outcome)> {
    let cases = [(125_000, 20, 40), (500_000, 20, 40), (500_000, 100, 10), (2_000_000, 20, 20)];
    cases.into_iter().map(move |(period_ns, periods, rounds)| {
        let program = program(threads, rounds, period_ns * periods, wait);
        let outcome = run(&program, &equal(cpus), rotation(period_ns), Costs::NONE, SEED);
        (period_ns, program, outcome)
    })
}

/// `S - 1` of rotation is at most so many times that of the closed form.
fn assert_bound(threads: usize, cpus: usize, wait: Wait, times: f64) {
    let shape = shape(threads, cpus);
    for (period_ns, program, outcome) in rotated(threads, cpus, wait) {
        let bound = shape.rotation_slowdown(period_ns as f64, program.work_ns as f64);
        let found = slowdown(&program, cpus, &outcome);
        let work_ns = program.work_ns;
        assert!(
            found - 1.0 <= (bound - 1.0) * times,
            "{threads}/{cpus} {wait:?} {period_ns}/{work_ns}: {found}, {bound}"
        );
        assert!(found < shape.static_slowdown(), "{threads}/{cpus} {wait:?} {period_ns}/{work_ns}: {found}");
    }
}

/// The bound, with 5 % for what windows of a few phases vary.
#[test]
fn rotation_keeps_its_bound() {
    for (threads, cpus) in [(3, 2), (4, 3), (8, 7), (16, 15)] {
        for wait in [Wait::Spin, Wait::Block] {
            assert_bound(threads, cpus, wait, 1.05);
        }
    }
    for (threads, cpus) in [(16, 12), (64, 48)] {
        assert_bound(threads, cpus, Wait::Spin, 1.0);
    }
    for (threads, cpus) in [(5, 2), (7, 2)] {
        assert_bound(threads, cpus, Wait::Block, 1.2);
    }
}

/// The formula's slice is the time after which everybody has had its share. With `q` threads and more for
/// each CPU, which the kernel lets run one after the other, that takes `q` periods. Threads that spin beside
/// those that still work keep their share of the CPU, which the formula does not know: as much again, and a
/// fifth for what few phases vary.
#[test]
fn where_threads_share_slots_a_slice_is_several_periods() {
    for (threads, cpus) in [(5, 2), (7, 2), (10, 4), (7, 3)] {
        assert_bound(threads, cpus, Wait::Spin, 2.2 * (threads / cpus) as f64);
    }
}

/// Whoever waits for a CPU is run by the kernel within five times the time in which every thread could have
/// had a period. Within a slot it is the kernel that chooses, by slices of its own.
#[test]
fn nobody_starves_while_slots_rotate() {
    for (threads, cpus) in [(3, 2), (4, 3), (5, 2), (7, 2), (8, 7), (16, 15), (64, 48)] {
        for (period_ns, program, outcome) in rotated(threads, cpus, Wait::Spin) {
            let round_ns = period_ns as f64 * threads as f64 / cpus as f64;
            let rounds = outcome.longest_wait_ns as f64 / round_ns;
            assert!(rounds <= 5.0, "{threads}/{cpus} {period_ns} {}: {rounds}", program.work_ns);
        }
    }
}

#[test]
fn equal_threads_are_moved_no_more_than_equal_progress_needs() {
    for (threads, cpus) in [(3, 2), (4, 3), (5, 2), (7, 2), (8, 7), (16, 15), (64, 48)] {
        for (period_ns, _, outcome) in rotated(threads, cpus, Wait::Spin) {
            let periods = outcome.elapsed_ns as f64 / period_ns as f64;
            let (exchanges, moves) = (outcome.totals.seen.exchanges, outcome.totals.seen.moves);
            // Ticks come at irregular times, a period apart on average.
            assert!(exchanges as f64 <= periods * cpus as f64 * 1.02, "{threads}/{cpus} {period_ns}: {exchanges}");
            let needed = moves_per_slice(threads, cpus) as f64;
            assert!(moves as f64 / periods <= needed, "{threads}/{cpus} {period_ns}: {moves} in {periods}");
            assert!(exchanges > 0 && moves >= exchanges);
        }
    }
}

/// Where there is nothing to win the policy costs nothing.
#[test]
fn packing_does_no_harm() {
    for (threads, cpus) in [(3, 2), (4, 3), (8, 2), (16, 15), (2, 2)] {
        for wait in [Wait::Never, Wait::Block] {
            let program = program(threads, 10_000, 200_000, wait);
            let elapsed_ns = |packing| run(&program, &equal(cpus), packing, Costs::default(), SEED).elapsed_ns as f64;
            let (kernel, policy) = (elapsed_ns(Packing::Kernel), elapsed_ns(adapted()));
            assert!(policy <= kernel * 1.02, "{threads}/{cpus} {wait:?}: {}", policy / kernel);
        }
    }
}

/// Slow CPUs go round, so that all threads get on alike: keeping CPUs takes 1.375 of the ideal time at best.
#[test]
fn unequal_cpus_gain() {
    let mut capacities = vec![FULL_CAPACITY; 7];
    capacities.extend([FULL_CAPACITY / 2; 8]);
    let program = program(16, 200, 5_000_000, Wait::Spin);
    let elapsed_ns = |packing| run(&program, &capacities, packing, Costs::default(), SEED).elapsed_ns as f64;
    let ideal_ns = 16.0 / (7.0 + 8.0 / 2.0) * 5e6 * 200.0;
    assert!(elapsed_ns(Packing::Pinned) > ideal_ns * 1.37);
    assert!(elapsed_ns(adapted()) < ideal_ns * 1.2, "{}", elapsed_ns(adapted()) / ideal_ns);
}

/// A pack of 1,024 CPUs. Few rounds: every tick looks at every thread, and there are a thousand ticks a period.
#[test]
fn a_thousand_cpus() {
    let program = program(1100, 1, 5_000_000, Wait::Spin);
    let outcome = run(&program, &equal(1024), rotation(1_000_000), Costs::NONE, SEED);
    let found = slowdown(&program, 1024, &outcome);
    assert!(found < shape(1100, 1024).static_slowdown() * 0.75, "{found}");
}

/// A thread that was let go on a worker's CPU does not run, and looks as if it yielded still: sending work
/// to it won 1 % only.
#[test]
fn threads_that_yield_gain() {
    for (threads, most) in [(3, 1.2), (5, 1.15)] {
        let program = program(threads, 3000, 1_000_000, Wait::Yield);
        let always = Packing::Policy(Settings { always: true, ..Settings::default() });
        let outcome = run(&program, &equal(2), always, Costs::default(), SEED);
        let found = slowdown(&program, 2, &outcome);
        assert!(found < most, "{threads}/2: {found}");
    }
}

/// Three threads on two CPUs of the virtual machine on which the policy was developed: times the ideal, as
/// measured there.
///
/// Known to differ, because the live kernel also balances between CPUs while threads spin, and so not
/// here: the kernel alone with spinning phases of 1 ms (live 1.5, simulated 2.67) and 10 ms (1.38, 1.47),
/// and with sleeping ones of 10 ms (1.26, 1.07).
#[test]
fn as_measured_live() {
    let live = [
        (Packing::Kernel, Wait::Spin, 200, 13.4),
        (Packing::Kernel, Wait::Yield, 1_000, 1.33),
        (Packing::Kernel, Wait::Block, 200, 1.38),
        (Packing::Kernel, Wait::Block, 1_000, 1.34),
        (adapted(), Wait::Spin, 200, 1.76),
        (adapted(), Wait::Spin, 1_000, 1.33),
        (adapted(), Wait::Spin, 10_000, 1.12),
        (adapted(), Wait::SpinThenBlock(350_000), 1_000, 1.21),
        (adapted(), Wait::Yield, 1_000, 1.26),
        (adapted(), Wait::Block, 10_000, 1.10),
    ];
    for (packing, wait, work_us, measured) in live {
        let program = program(3, 3_000_000 / work_us, work_us * 1_000, wait);
        let outcome = run(&program, &equal(2), packing, Costs::default(), SEED);
        let found = slowdown(&program, 2, &outcome);
        assert!(within(found, measured, 0.2), "{packing:?} {wait:?} {work_us} us: {found}, live {measured}");
    }
}

/// The controller's CPU time, of one CPU.
fn own(outcome: &Outcome) -> f64 {
    outcome.own_ns as f64 / outcome.elapsed_ns as f64
}

/// Between two meetings periods may be long. What has to be short are the last ones, so that all arrive together.
#[test]
fn periods_follow_phases() {
    for (threads, wait, at_most) in
        [(3, Wait::Spin, 1.05), (3, Wait::Yield, 1.035), (3, Wait::Block, 1.035), (5, Wait::Spin, 1.065)]
    {
        let program = program(threads, 300, 10_000_000, wait);
        let periods = |packing| run(&program, &equal(2), packing, Costs::default(), SEED);
        let outcome = periods(Packing::Policy(Settings { always: true, ..Settings::default() }));
        let found = slowdown(&program, 2, &outcome);
        assert!(found <= at_most, "{threads}/2 {wait:?}: {found}");
        // A fixed period follows nothing.
        let (own, fixed) = (own(&outcome), own(&periods(rotation(outcome.totals.period_ns))));
        assert!(own <= 0.04 && own <= 0.8 * fixed, "{threads}/2 {wait:?}: {own} of a CPU, {fixed} without");
    }
}

/// Phases of a program that never meets at the same intervals say nothing, and periods are what they are.
#[test]
fn periods_do_not_follow_what_is_irregular() {
    let regular = program(3, 200, 10_000_000, Wait::Spin);
    let irregular = Program { jitter: 0.9, ..regular };
    let own = |program: &Program| own(&run(program, &equal(2), adapted(), Costs::default(), SEED));
    assert!(own(&irregular) > 1.5 * own(&regular), "{} {}", own(&irregular), own(&regular));
}
