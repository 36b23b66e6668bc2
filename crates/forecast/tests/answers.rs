//! Checks whole answers on recordings the slowdown of which is known.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use forecast::{Cpu, Detour, Forecast, Kind, Question, Recording, Unanswerable, forecast};
use random::Random;

const MS: u64 = 1_000_000;
const LENGTH: u64 = 20_000 * MS;

/// CPUs with detours of `length` each 10 ms, from these offsets, with cause 0.
fn periodic(length_ns: u64, offsets: &[u64]) -> Recording {
    let lane = |offset: u64| {
        let starts = (offset..LENGTH - length_ns).step_by(10 * MS as usize);
        starts.map(|start_ns| Detour { start_ns, length_ns, cause: 0 }).collect()
    };
    let cpus =
        offsets.iter().enumerate().map(|(cpu, offset)| Cpu { cpu: cpu as u32, detours: lane(*offset) }).collect();
    Recording { length_ns: LENGTH, cpus, causes: vec!["tick".into(), "daemon".into(), "scrub".into()] }
}

/// Adds `number` detours at random times to a CPU.
fn add(recording: &mut Recording, cpu: usize, number: usize, length_ns: u64, cause: u16, random: &mut Random) {
    let detours = &mut recording.cpus[cpu].detours;
    for _ in 0..number {
        loop {
            let start_ns = random.below((LENGTH - length_ns) as usize) as u64;
            let overlaps = |d: &Detour| d.start_ns < start_ns + length_ns && start_ns < d.start_ns + d.length_ns;
            if !detours.iter().any(overlaps) {
                detours.push(Detour { start_ns, length_ns, cause });
                break;
            }
        }
    }
    detours.sort_unstable_by_key(|detour| detour.start_ns);
}

fn question(ranks: &[u64], ranks_per_node: u32, work_ns: &[u64]) -> Question {
    Question { ranks: ranks.to_vec(), ranks_per_node, work_ns: work_ns.to_vec(), sync_ns: 0, seed: 7 }
}

fn value(forecast: &Forecast, work: usize, scale: usize) -> f64 {
    forecast.works[work].scales[scale].estimate.unwrap().value
}

/// On two CPUs in step, a phase of 0.1 ms has a detour with probability 0.1/9.5, and both CPUs have it. If the CPUs are
/// taken as independent, as two nodes of one CPU are, it is twice as likely.
#[test]
fn independent_cpus_would_double_the_answer() {
    let recording = periodic(MS / 2, &[MS, MS]);
    let together = value(&forecast(&recording, &question(&[2], 2, &[MS / 10])).unwrap(), 0, 0) - 1.0;
    let apart = value(&forecast(&recording, &question(&[2], 1, &[MS / 10])).unwrap(), 0, 0) - 1.0;
    assert!((together / (0.5 / 9.5) - 1.0).abs() < 0.02, "{together}");
    assert!((1.95..2.1).contains(&(apart / together)), "{apart} {together}");
}

/// The figures of the issue: 0.5 ms of 9.5 in step, and of 4.5 half a period apart.
#[test]
fn cpus_half_a_period_apart_cost_twice_as_much() {
    for (offset, expected) in [(MS, 0.053), (6 * MS, 0.111)] {
        let forecast = forecast(&periodic(MS / 2, &[MS, offset]), &question(&[2], 2, &[MS])).unwrap();
        let slowdown = forecast.works[0].scales[0];
        assert_eq!((slowdown.nodes, slowdown.kind), (1, Kind::Measured));
        assert!((value(&forecast, 0, 0) - 1.0 - expected).abs() < 0.001, "{slowdown:?}");
        assert!(slowdown.at_least > 1.0 + 0.75 * expected && slowdown.at_least < 1.0 + expected, "{slowdown:?}");
        assert_eq!(forecast.works[0].co_scheduled.estimate, slowdown.estimate);
    }
}

/// At many nodes, each phase has the 0.5 ms; if they have it at the same time, one in 9.5 ms of work has.
#[test]
fn co_scheduled_noise_costs_no_more_than_on_one_node() {
    let forecast = forecast(&periodic(MS / 2, &[MS]), &question(&[1, 4096], 1, &[MS])).unwrap();
    let work = &forecast.works[0];
    assert!((value(&forecast, 0, 1) - 1.5).abs() < 0.001, "{work:?}");
    assert!((work.co_scheduled.estimate.unwrap().value - 1.0 - 0.5 / 9.5).abs() < 0.001);
    assert_eq!((work.co_scheduled.ranks, work.scales[1].kind), (4096, Kind::Extrapolated));
}

/// Each phase of 4,096 nodes has the whole detour: 0.5 ms in W. A synchronisation of 1 ms makes it a smaller part.
#[test]
fn the_shortest_work_is_worst_and_synchronisation_counts() {
    let mut question = question(&[4096], 1, &[5 * MS, MS / 10, MS]);
    let recording = periodic(MS / 2, &[MS]);
    let answer = forecast(&recording, &question).unwrap();
    assert_eq!(answer.worst, [1]);
    assert!((value(&answer, 1, 0) - 6.0).abs() < 0.05, "{:?}", answer.works[1]);
    question.sync_ns = MS;
    let answer = forecast(&recording, &question).unwrap();
    assert!((value(&answer, 2, 0) - 1.25).abs() < 0.01, "{:?}", answer.works[2]);
}

/// Ticks cost most on one node: 5 % of time, the daemon 2 %. On 512 nodes, nearly each phase has a daemon of 2 ms.
#[test]
fn the_worst_cause_depends_on_the_scale() {
    let mut random = Random::new(1);
    let mut recording = periodic(MS / 2, &[MS]);
    add(&mut recording, 0, 200, 2 * MS, 1, &mut random);
    add(&mut recording, 0, 3, MS / 100, 2, &mut random);
    let without = |ranks: u64| {
        let question = Question { ranks: vec![ranks], ..question(&[ranks], 1, &[2 * MS]) };
        forecast(&recording, &question).unwrap().without
    };
    let (small, large) = (without(1), without(512));
    assert_eq!(small.iter().map(|cause| cause.cause).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(large.iter().map(|cause| cause.cause).collect::<Vec<_>>(), [1, 0, 2]);
    let seen: Vec<(u64, bool)> = large.iter().map(|cause| (cause.times, cause.seldom)).collect();
    assert_eq!(seen[0], (200, false));
    assert_eq!(seen[2], (3, true));
    let slowdown = |cause: usize| large[cause].scales[0].estimate.unwrap().value;
    // Without the daemon, each phase has a tick.
    assert!((slowdown(0) - 1.25).abs() < 0.01, "{}", slowdown(0));
    assert!(slowdown(1) > 1.9 && slowdown(2) > slowdown(1), "{} {}", slowdown(1), slowdown(2));
}

/// Forecasts take as long as the number of causes: those with little time are counted only.
#[test]
fn only_the_largest_causes_are_left_out_one_by_one() {
    let mut recording = periodic(MS / 100, &[MS]);
    recording.causes = (0..40).map(|cause| format!("cause {cause}")).collect();
    for (at, detour) in recording.cpus[0].detours.iter_mut().enumerate() {
        detour.cause = (at % 40) as u16;
        detour.length_ns += u64::from(detour.cause);
    }
    let answer = forecast(&recording, &question(&[4], 1, &[MS])).unwrap();
    let mut causes: Vec<u16> = answer.without.iter().map(|without| without.cause).collect();
    causes.sort_unstable();
    assert_eq!((causes, answer.causes_left_out), ((8..40).collect(), 8));
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let mut random = Random::new(1);
    let mut recording = periodic(MS / 2, &[MS, 3 * MS]);
    add(&mut recording, 1, 300, MS / 7, 1, &mut random);
    let mut asked = question(&[1, 50, 100_000], 2, &Question::default_work(LENGTH));
    let text = |question: &Question| format!("{:?}", forecast(&recording, question).unwrap());
    let first = text(&asked);
    assert_eq!(first, text(&asked));
    // The answer for a work does not depend on the others.
    let whole = forecast(&recording, &asked).unwrap();
    asked.work_ns = vec![asked.work_ns[4]];
    assert_eq!(forecast(&recording, &asked).unwrap().works[0], whole.works[4]);
    asked.seed += 1;
    assert_ne!(forecast(&recording, &asked).unwrap().works[0], whole.works[4]);
}

#[test]
fn each_estimate_is_in_its_interval_and_grows_with_the_ranks() {
    let mut random = Random::new(2);
    let mut recording = periodic(MS / 50, &[MS, 2 * MS, 7 * MS]);
    for cpu in 0..3 {
        add(&mut recording, cpu, 100, MS, 1, &mut random);
    }
    let ranks = [1, 3, 12, 48, 300, 3_000, 30_000];
    let forecast = forecast(&recording, &question(&ranks, 3, &Question::default_work(LENGTH))).unwrap();
    let mut estimates = 0;
    for work in &forecast.works {
        let mut last = 1.0;
        for slowdown in &work.scales {
            assert!(slowdown.at_least >= 1.0, "{slowdown:?}");
            assert_eq!(slowdown.kind == Kind::None, slowdown.estimate.is_none());
            let Some(estimate) = slowdown.estimate else { continue };
            estimates += 1;
            assert!(estimate.low <= estimate.value && estimate.value <= estimate.high, "{slowdown:?}");
            assert!(estimate.value >= 0.97 * last, "{} ns: {slowdown:?} after {last}", work.work_ns);
            last = estimate.value;
        }
    }
    assert!(estimates > 100, "{estimates}");
}

#[test]
fn quiet_recordings_and_wrong_questions() {
    let quiet = Recording { causes: Vec::new(), ..periodic(1, &[LENGTH]) };
    let answer = forecast(&quiet, &question(&[1, 64], 1, &[MS])).unwrap();
    assert_eq!((value(&answer, 0, 0), value(&answer, 0, 1), answer.without.len()), (1.0, 1.0, 0));
    let recording = periodic(MS / 2, &[MS]);
    let fails = |question: &Question, sentence: &str| {
        let error = forecast(&recording, question).unwrap_err().to_string();
        assert!(error.contains(sentence), "{error}");
    };
    fails(&question(&[], 1, &[MS]), "at least 1");
    fails(&question(&[5], 2, &[MS]), "a node with 2 ranks: the recording has 1 CPU;");
    fails(&question(&[5], 1, &[0]), "at least 1 ns");
    fails(&question(&[5], 1, &[LENGTH + 1]), "longer than the recording of 20000000000 ns");
    let invalid = Recording { cpus: Vec::new(), ..recording.clone() };
    assert!(matches!(forecast(&invalid, &question(&[1], 1, &[MS])), Err(Unanswerable::Recording(_))));
    assert_eq!(Question::default_work(LENGTH).len(), 20);
    assert_eq!(Question::default_work(MS), [10_000, 18_330, 33_598, 61_585]);
}
