//! speed
use forecast::forecast;
use forecast::question::Question;
use forecast::recording::{Cpu, Detour, Recording};
use random::Random;

#[test]
#[ignore]
fn million() {
    for (cpus, secs) in [(8u64, 60u64), (8, 60), (8, 60)] {
        let length_ns = secs * 1_000_000_000;
        let per = 1_000_000 / cpus;
        let mut random = Random::new(1);
        let lane = |cpu: u64, random: &mut Random| {
            let step = length_ns / per;
            let detours = (0..per).map(|at| {
                let start_ns = at * step + random.below((step / 2) as usize) as u64;
                let long = random.below(1000) == 0;
                let cause = if long { 1 + random.below(7) as u16 } else { 0 };
                let length_ns = if long { step / 3 } else { 2_000 + random.below(3000) as u64 };
                Detour { start_ns, length_ns, cause }
            });
            Cpu { cpu: cpu as u32, detours: detours.collect() }
        };
        let recording = Recording {
            length_ns,
            cpus: (0..cpus).map(|cpu| lane(cpu, &mut random)).collect(),
            causes: (0..8).map(|cause| cause.to_string()).collect(),
        };
        for ranks in [vec![1_000_000]] {
            let question = Question {
                ranks,
                ranks_per_node: cpus as u32,
                work_ns: Question::default_work(length_ns),
                sync_ns: 5000,
                seed: 1,
            };
            let start = cpu();
            let f = forecast(&recording, &question).unwrap();
            println!(
                "{cpus} CPUs, {secs} s, {} N, {} works: {:.3} s",
                question.ranks.len(),
                question.work_ns.len(),
                cpu() - start
            );
            if question.ranks.len() == 1 {
                for w in &f.works {
                    println!(
                        "{:?} {:?} {:?} {}",
                        w.work_ns,
                        w.tail_shape,
                        w.scales[0].estimate.map(|e| (e.low, e.value, e.high)),
                        w.scales[0].at_least
                    )
                }
            }
        }
    }
}

fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
