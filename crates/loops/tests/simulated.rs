//! What the policies gain on simulated machines.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use loops::last_slice::SLICE_NS;
use loops::sim::cpus::{CoRunner, Machine};
use loops::sim::load::Load;
use loops::sim::{Options, simulate};
use loops::{Schedule, Timing};

/// Returns the median of the ratio of time to ideal time.
fn ratio(text: &str, load: Load, speeds: &[f64], co_runner: CoRunner, options: Options) -> f64 {
    let schedule: Schedule = text.parse().unwrap();
    let mut ratios = [1, 32, 63, 94, 125, 156, 187].map(|seed| {
        let load = Load { seed, ..load };
        let length_ns = load.trips as f64 * load.mean_ns * f64::from(load.instances) * 4.0 / speeds.len() as f64;
        let machine = Machine::new(speeds, co_runner, length_ns, seed + 7);
        simulate(&schedule, &load, &machine, options).unwrap().ratio()
    });
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

const LOAD: Load = Load { trips: 2000, mean_ns: 40e3, variation: 0.3, instances: 40, request_ns: 500.0, seed: 0 };

const CO_RUNNERS: [CoRunner; 4] = [CoRunner::None, CoRunner::Bursts, CoRunner::Stays, CoRunner::Wanders(150)];

const EQUAL: [f64; 8] = [1.0; 8];
const TWO_SPEEDS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5];

/// Weighted blocks, the sharpest test of weights: nothing corrects a wrong one within the instance.
#[test]
fn both_factors_cost_little_and_gain_where_a_co_runner_wanders() {
    for speeds in [EQUAL, TWO_SPEEDS] {
        for co_runner in CO_RUNNERS {
            let [wall, cpu, both] = [Timing::Wall, Timing::Cpu, Timing::Both].map(|timing| {
                let options = Options { timing, slice_ns: None };
                ratio("static_weighted", LOAD, &speeds, co_runner, options)
            });
            println!("{speeds:?} {co_runner:?}: wall {wall:.3}, cpu {cpu:.3}, both {both:.3}");
            let most = if matches!(co_runner, CoRunner::Wanders(_)) { 0.95 } else { 1.02 };
            assert!(both <= most * wall, "{co_runner:?}: {both} {wall}");
            // Subtracting preempted time is wrong if the co-runner stays.
            assert!(co_runner != CoRunner::Stays || cpu > 1.5 * wall, "{cpu} {wall}");
        }
    }
}

/// A thread whose CPU is wanted gets no work in the last slice of a loop.
#[test]
fn stopping_at_the_end_gains_most_in_short_loops() {
    for threads in [8, 16, 64] {
        for (ms, instances, most) in [(2.5, 60, 0.85), (10.0, 30, 0.95), (40.0, 20, 1.0)] {
            let load = Load { trips: 250 * threads as u64, mean_ns: ms * 1e6 / 250.0, instances, ..LOAD };
            let [without, with] = [None, Some(SLICE_NS)].map(|slice_ns| {
                let options = Options { slice_ns, ..Options::default() };
                ratio("fac2", load, &vec![1.0; threads], CoRunner::Stays, options)
            });
            println!("{threads} threads, {ms} ms: {without:.3}, {with:.3}");
            assert!(with <= most * without, "{threads} threads, {ms} ms: {without} {with}");
        }
    }
}

/// Every schedule executes every loop; those that balance are faster than blocks on CPUs of two speeds.
#[test]
fn schedules_balance_cpus_of_two_speeds() {
    let load = Load { instances: 12, ..LOAD };
    let even = ratio("static", load, &TWO_SPEEDS, CoRunner::None, Options::default());
    assert!((1.45..1.6).contains(&even), "{even}");
    for (text, most) in [
        ("ss", 1.03),
        ("static_steal", 1.03),
        ("fac2", 1.03),
        ("tss", 1.06),
        ("mfsc", 1.15),
        ("hybrid,static=0.5", 1.03),
        ("static_weighted", 1.08),
        ("awf", 1.03),
        ("awf_b", 1.03),
        ("awf_c", 1.03),
        ("awf_d", 1.03),
        ("awf_e", 1.03),
        ("af", 1.03),
        ("maf", 1.03),
        ("bold", 1.45),
    ] {
        let ratio = ratio(text, load, &TWO_SPEEDS, CoRunner::None, Options::default());
        println!("{text}: {ratio:.3}");
        assert!(ratio < most, "{text}: {ratio}");
    }
}
