use testkit::Random;
use wire::latency::BUCKETS;

use super::*;

/// Lengths of all magnitudes.
fn any(random: &mut Random) -> u64 {
    random.number() >> random.below(64)
}

/// The nearest-rank quantile.
fn exact(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

fn histogram(lengths: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    lengths.iter().for_each(|ns| histogram.take(*ns));
    histogram
}

fn of_seed(seed: u64, below: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let number = 1 + random.below(300);
    (0..number).map(|_| any(&mut random) % below).collect()
}

#[test]
fn a_bucket_is_where_its_middle_is_and_buckets_follow_one_another() {
    for at in 0..BUCKETS {
        assert_eq!(bucket(middle_ns(at)), at);
    }
    for ns in 1..200_000 {
        let step = bucket(ns) - bucket(ns - 1);
        assert!(step <= 1 && (step == 1 || ns >= 64), "{ns} ns");
    }
    for ns in (0..200_000).chain((0..48).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1])) {
        assert!(middle_ns(bucket(ns)).abs_diff(ns) as f64 <= ns as f64 * ERROR, "{ns} ns");
    }
    assert_eq!([bucket(1 << 48), bucket(u64::MAX)], [BUCKETS - 1; 2]);
}

#[test]
fn the_kernels_buckets_are_the_same() {
    let mut random = Random::new(testkit::seed());
    let powers = (0..64).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]);
    let some = (0..testkit::times(1_000_000)).map(|_| any(&mut random));
    for ns in (0..1_000_000).chain(powers).chain([u64::MAX]).chain(some) {
        assert_eq!(testkit::native::latency_bucket(ns), bucket(ns) as u64, "{ns} ns");
    }
}

#[test]
fn quantiles_are_the_exact_ones_within_the_error() {
    let (seed, times) = (testkit::seed(), testkit::times(2_000));
    for seed in seed..seed + times {
        let mut lengths = of_seed(seed, 1 << 48);
        let histogram = histogram(&lengths);
        lengths.sort_unstable();
        assert_eq!(histogram.count(), lengths.len() as u64);
        for percent in [0, 1, 50, 90, 99, 100] {
            let (told, exact) = (histogram.quantile_ns(percent as u64), exact(&lengths, percent));
            assert!(
                told.abs_diff(exact) as f64 <= exact as f64 * ERROR,
                "seed {seed}: {percent} %: {told}, {exact} ns"
            );
        }
        assert_eq!(histogram.quantiles().max_ns, exact(&lengths, 100));
    }
}

#[test]
fn several_histograms_are_one_of_all_intervals_however_they_are_carried() {
    let (seed, times) = (testkit::seed(), testkit::times(500));
    for seed in seed..seed + times {
        let (one, two) = (of_seed(seed, u64::MAX), of_seed(!seed, u64::MAX));
        let all = histogram(&[one.clone(), two.clone()].concat());
        let mut sum = histogram(&one);
        sum.add(&histogram(&two));
        assert_eq!(sum, all, "seed {seed}");
        let both = [one, two].map(|lengths| {
            Histograms([Histogram::default(), histogram(&lengths), Histogram::default(), Histogram::default()])
        });
        let carried: Vec<LatencyCount> = both.iter().flat_map(|one| one.counts(7)).collect();
        assert_eq!(Histograms::read(&carried)[&7].0[1], all, "seed {seed}");
    }
}

#[test]
fn what_is_longer_than_all_buckets_is_the_longest() {
    let histogram = histogram(&[5, u64::MAX - 1]);
    assert_eq!([histogram.quantile_ns(50), histogram.quantile_ns(51)], [5, u64::MAX - 1]);
    assert_eq!(Histogram::default().quantiles(), Quantiles::default());
}

#[test]
fn threads_beyond_the_room_are_counted_with_the_program() {
    let mut kept = Kept::new(true);
    let mut clocks = vec![Clock::default(); PLACES as usize + 3];
    for clock in &mut clocks {
        kept.take(clock, Closed::default());
        let place = clock.place();
        kept.take(clock, [Some((Interval::Slice, 40)), None]);
        kept.take(clock, [Some((Interval::Slice, 50)), None]);
        assert_eq!(clock.place(), place);
    }
    assert_eq!(clocks.iter().filter(|clock| clock.place().is_none()).count(), 3);
    let read = Histograms::read(&kept.counts());
    assert_eq!(read[&0].0[Interval::Slice as usize].count(), 6);
    let last = clocks.iter().filter_map(Clock::place).max().expect("most have one");
    assert_eq!(read[&LatencyCount::of_place(last)].0[Interval::Slice as usize].count(), 2);
    assert_eq!(read.len(), PLACES as usize + 1);
}
