//! Prints how long a forecast for a million ranks takes, from a recording with a million detours.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use forecast::{Cpu, Detour, Question, Recording, forecast};
use random::Random;

/// Eight CPUs with ticks at irregular times, each thousandth of them replaced by a long detour with one of seven causes.
fn recording(cpus: u64, length_ns: u64) -> Recording {
    let number = 1_000_000 / cpus;
    let step = length_ns / number;
    let mut random = Random::new(1);
    let mut detour = |at: u64| {
        let start_ns = at * step + random.below((step / 2) as usize) as u64;
        let is_long = random.below(1000) == 0;
        let cause = if is_long { 1 + random.below(7) as u16 } else { 0 };
        Detour { start_ns, length_ns: if is_long { step / 3 } else { 2_000 + random.below(3_000) as u64 }, cause }
    };
    let cpus = (0..cpus).map(|cpu| Cpu { cpu: cpu as u32, detours: (0..number).map(&mut detour).collect() }).collect();
    Recording { length_ns, cpus, causes: (0..8).map(|cause| cause.to_string()).collect() }
}

/// CPU time of this thread, in seconds.
fn cpu_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

#[test]
#[ignore = "prints a time"]
fn a_million_ranks() {
    for (cpus, seconds) in [(1, 60), (8, 60), (64, 60), (8, 600)] {
        let length_ns = seconds * 1_000_000_000;
        let recording = recording(cpus, length_ns);
        let work_ns = Question::default_work(length_ns);
        let question =
            Question { ranks: vec![1_000_000], ranks_per_node: cpus as u32, work_ns, sync_ns: 5_000, seed: 1 };
        let start = cpu_time();
        let forecast = forecast(&recording, &question).unwrap();
        let (works, causes) = (forecast.works.len(), forecast.without.len());
        println!("{cpus} CPUs, {seconds} s, {works} works, {causes} causes: {:.2} s", cpu_time() - start);
    }
}
