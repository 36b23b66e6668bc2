//! What selection costs, with simulated times of instances: schedules have fixed mean times, and an instance takes that
//! time multiplied by chance.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use loops::selection::auto::Auto;
use loops::selection::exhaustive::Exhaustive;
use loops::selection::expert::Expert;
use loops::selection::random::Chance;
use loops::selection::{PORTFOLIO, Record, Requests, Select};
use random::Random;

/// Times of 13 schedules, relative to the fastest, as heat maps of such studies show them; and the part of the loss
/// that is imbalance. The rest is lost by requests or locality.
const LOOPS: [([f64; 13], f64); 5] = [
    // A balanced loop: all are alike, single iterations are dear.
    ([1.0, 1.0, 1.0, 1.01, 1.01, 1.02, 1.6, 1.03, 1.05, 1.03, 1.05, 1.04, 1.04], 0.0),
    // An unbalanced loop: blocks are slow.
    ([1.9, 1.1, 1.25, 1.4, 1.05, 1.1, 1.0, 1.05, 1.03, 1.05, 1.03, 1.02, 1.02], 1.0),
    // Cheap iterations: every request costs.
    ([1.0, 1.1, 1.08, 1.15, 1.2, 1.3, 6.0, 1.4, 1.9, 1.4, 1.9, 2.4, 2.4], 0.0),
    // CPUs of two speeds: adaptive ones are fastest.
    ([1.4, 1.08, 1.15, 1.3, 1.06, 1.05, 1.04, 1.01, 1.0, 1.01, 1.01, 1.02, 1.02], 1.0),
    // Locality: blocks of data stay in a cache, and imbalance is the smaller part.
    ([1.02, 1.3, 1.25, 1.2, 1.22, 1.0, 1.6, 1.25, 1.3, 1.25, 1.3, 1.2, 1.2], 0.3),
];

/// `auto` for a team of 8 threads.
fn auto(seed: u64) -> Auto {
    Auto::new(&PORTFOLIO.map(|kind| Requests::of(kind, 1)), 8, seed)
}

/// Returns the mean time of `instances` instances, relative to the fastest schedule.
fn cost(select: &mut dyn Select, of: &([f64; 13], f64), instances: usize, random: &mut Random) -> f64 {
    let (times, imbalance) = of;
    let mut sum = 0.0;
    for _ in 0..instances {
        let time = times[select.select()];
        sum += time;
        // Every twentieth instance is disturbed.
        let disturbed = if random.below(20) == 0 { 1.5 } else { 1.0 };
        let time_ns = 1e6 * time * (0.97 + 0.06 * random.unit()) * disturbed;
        let lib = 0.01 + imbalance * (1.0 - 1.0 / time) * (0.8 + 0.4 * random.unit());
        let dispatch = 0.005 + (1.0 - imbalance) * (1.0 - 1.0 / time);
        select.record(&Record { trips: 1000, time_ns, lib, dispatch });
    }
    sum / instances as f64
}

#[test]
fn auto_is_close_to_the_fastest_and_better_than_its_peers() {
    let mut random = Random::new(1);
    let mut sums = [0.0; 4];
    for of in &LOOPS {
        let mut means = [0.0; 4];
        for seed in 0..200 {
            let mut peers: [Box<dyn Select>; 4] = [
                Box::new(auto(seed)),
                Box::new(Expert::new(13)),
                Box::new(Exhaustive::new(13)),
                Box::new(Chance::new(13, seed)),
            ];
            for (mean, select) in means.iter_mut().zip(&mut peers) {
                *mean += cost(&mut **select, of, 200, &mut random) / 200.0;
            }
        }
        println!("auto, expert, exhaustive, random: {means:.4?}");
        for (sum, mean) in sums.iter_mut().zip(means) {
            *sum += mean / LOOPS.len() as f64;
        }
        assert!(means[0] < 1.05, "{means:?}");
    }
    println!("{sums:.4?}");
    assert!(sums[1..].iter().all(|peer| sums[0] < *peer), "{sums:?}");
}

/// A machine so busy that every second instance takes four times as long. No duel is clear, and trials of slow schedules must not cost much.
#[test]
fn on_a_busy_machine_auto_stays_with_what_is_good() {
    let play = |select: &mut dyn Select, times: &[f64; 13], seed: u64| {
        let mut random = Random::new(seed);
        let mut sum = 0.0;
        for _ in 0..200 {
            let time = times[select.select()];
            sum += time;
            let time_ns = 1e6 * time * if random.below(2) == 0 { 1.0 } else { 4.0 };
            select.record(&Record { trips: 1000, time_ns, lib: 0.2 + 0.6 * random.unit(), dispatch: 0.0 });
        }
        sum / 200.0
    };
    let mean = |times: &[f64; 13], begin: &dyn Fn(u64) -> Box<dyn Select>| {
        (0..200).map(|seed| play(&mut *begin(seed), times, seed)).sum::<f64>() / 200.0
    };
    let of = |first: f64, others: f64| {
        let times = std::array::from_fn(|place| if place == 0 { first } else { others });
        let auto = mean(&times, &|seed| Box::new(auto(seed)));
        let exhaustive = mean(&times, &|_| Box::new(Exhaustive::new(13)));
        println!("busy: auto {auto:.3}, exhaustive {exhaustive:.3}");
        (auto, exhaustive)
    };
    let (auto, exhaustive) = of(1.0, 1.5);
    assert!(auto < 1.25 && auto < exhaustive - 0.1, "{auto}, {exhaustive}");
    // The first is bad: what is clear in the mean is found in spite of the noise.
    assert!(of(1.5, 1.0).0 < 1.1);
}

#[test]
fn a_changed_loop_is_tried_again() {
    let mut auto = auto(3);
    let mut random = Random::new(2);
    cost(&mut auto, &LOOPS[2], 150, &mut random);
    assert_eq!(auto.verdict().map(|verdict| verdict.schedule), Some(0));
    // Now blocks are unbalanced.
    cost(&mut auto, &LOOPS[1], 250, &mut random);
    let selected = auto.verdict().unwrap().schedule;
    assert!(LOOPS[1].0[selected] < 1.06, "{selected}");
}
