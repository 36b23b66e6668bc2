//! Compares the law of a node among N with direct simulations of N nodes with chained phases.

use forecast::nodes::{Instants, NodeLaw};
use forecast::observed::law as observed;
use forecast::recording::{Cpu, Detour, Recording};
use forecast::replay::{Delays, replay};
use forecast::timeline::Timeline;
use random::Random;

const LENGTH: u64 = 20_000_000_000;

/// A source of detours: mean time between them, length, and whether they are periodic.
#[derive(Clone, Copy)]
struct Source {
    period: u64,
    length: u64,
    regular: bool,
}

fn exponential(random: &mut Random) -> f64 {
    -(1.0 - random.unit()).ln()
}

/// One CPU with these sources. A detour that begins within another is put at its end.
fn recording(sources: &[Source], random: &mut Random) -> Recording {
    let mut starts = Vec::new();
    for source in sources {
        let mut at = random.unit() * source.period as f64;
        while at < (LENGTH - 50_000_000) as f64 {
            starts.push((at as u64, source.length));
            at += source.period as f64 * if source.regular { 1.0 } else { exponential(random) };
        }
    }
    starts.sort_unstable();
    let mut free = 0;
    let detours = starts.into_iter().map(|(start, length_ns)| {
        let start_ns = start.max(free);
        free = start_ns + length_ns;
        Detour { start_ns, length_ns, cause: 0 }
    });
    Recording { length_ns: LENGTH, cpus: vec![Cpu { cpu: 0, detours: detours.collect() }], causes: vec!["x".into()] }
}

/// Mean delay of chained phases of nodes with offsets of their own, and its standard error.
fn simulated(timeline: &Timeline, nodes: usize, work: u64, random: &mut Random) -> (f64, f64) {
    let mut batches = Vec::new();
    let phases = (3_000_000 / nodes as u64).max(60_000) / 20;
    for _ in 0..20 {
        let offsets: Vec<u64> = (0..nodes).map(|_| random.below(LENGTH as usize) as u64).collect();
        let delay = |now: u64| {
            let delays = offsets.iter().map(|offset| timeline.delay((now + offset) % LENGTH, work));
            delays.max().unwrap()
        };
        let mut now = 0;
        for _ in 0..phases / 20 {
            now += work + delay(now);
        }
        let mut sum = 0;
        for _ in 0..phases {
            let delay = delay(now);
            sum += delay;
            now += work + delay;
        }
        batches.push(sum as f64 / phases as f64);
    }
    let mean = batches.iter().sum::<f64>() / 20.0;
    let variance = batches.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 19.0;
    (mean, (variance / 20.0).sqrt())
}

#[test]
#[ignore]
fn explore() {
    let source = |period, length, regular| Source { period, length, regular };
    let cases: [(&str, Vec<Source>); 5] = [
        ("poisson 3ms/100ms", vec![source(100_000_000, 3_000_000, false)]),
        ("periodic .5ms/10ms", vec![source(10_000_000, 500_000, true)]),
        ("ticks 5us/1ms", vec![source(1_000_000, 5_000, true)]),
        ("ticks + 3ms/1s", vec![source(1_000_000, 5_000, true), source(1_000_000_000, 3_000_000, false)]),
        ("poisson 50us/2ms + 1ms/50ms", vec![source(2_000_000, 50_000, false), source(50_000_000, 1_000_000, false)]),
    ];
    for (name, sources) in cases {
        let mut random = Random::new(1);
        let recording = recording(&sources, &mut random);
        recording.check().unwrap();
        let timeline = Timeline::new(&recording, 1);
        let instants = Instants::new(&timeline, &mut random);
        for work in [10_000, 30_000] {
            let mut delays = Delays::default();
            replay(&timeline, work, &mut random, &mut delays);
            let alone = observed(&delays);
            let law = NodeLaw::new(alone, &instants, &timeline, work);
            for nodes in [32, 64, 256] {
                let (truth, error) = simulated(&timeline, nodes, work, &mut random);
                let s = |delay: f64| delay / work as f64;
                let n = nodes as f64;
                let among = s(law.among(n).unwrap_or(law.alone().clone()).expected_maximum(n));
                println!(
                    "{name:28} W {work:9} N {nodes:4}  S-1 true {:9.4} ±{:6.4}  alone {:9.4}  among {among:9.4}  {:+.1} % of S",
                    s(truth),
                    s(error),
                    s(law.alone().expected_maximum(n)),
                    100.0 * (among - s(truth)) / (1.0 + s(truth)),
                );
            }
        }
    }
}
