use pack::policy::{conductor::Settings, regime::Turns, seating::Rules};
use pack::sim::*;
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let n: usize = a[0].parse().unwrap(); let c: usize = a[1].parse().unwrap();
    for (name, wait) in [("spin", Wait::Spin), ("spinfut", Wait::SpinThenBlock(350_000)), ("yield", Wait::Yield), ("futex", Wait::Block)] {
        if std::env::var("ONLY").is_ok_and(|o| o != name) { continue }
        for w in [200_000u64, 1_000_000, 10_000_000] {
            let rounds = 3_000_000_000 / w * 2 / 3;
            let p = Program { threads: n, rounds, work_ns: w, jitter: 0.0, wait };
            let ideal = (w * rounds * n as u64) as f64 / c as f64;
            let go = |pk: Packing| { let o = run(&p, &vec![1024; c], pk, Costs::default(), 1); o.elapsed_ns as f64 / ideal };
            let fixed = |t: u64, m: u64| Packing::Policy(Settings { rules: Rules { margin_percent: m, ..Rules::default() }, turns: Turns::Fixed(t), always: true });
            print!("{name:8} {:6} tp {:6.3} pin {:6.3} auto {:6.3} |", w / 1000, go(Packing::Kernel), go(Packing::Pinned), go(Packing::Policy(Settings::default())));
            for t in [125_000, 250_000, 500_000, 1_000_000, 2_000_000] { print!(" {:.3}/{:.3}", go(fixed(t, 50)), go(fixed(t, 0))); }
            println!();
            if std::env::var_os("V").is_some() {
                for t in [250_000u64, 500_000, 1_000_000] {
                    let Packing::Policy(st) = fixed(t, 50) else { continue };
                    let o = run(&p, &vec![1024; c], Packing::Policy(st), Costs::default(), 1);
                    let cap = o.elapsed_ns as f64 * c as f64;
                    println!("      {t} run {:.3} own {:.3} spun {:.3} xch/turn {:.2} moves {:.2} switches/turn {:.2} true {:.3}", o.run_ns.iter().sum::<u64>() as f64 / cap, o.own_ns as f64 / cap, o.totals.seen.spinning as f64 / o.totals.seen.samples as f64, o.totals.seen.exchanges as f64 * t as f64 / cap, o.totals.seen.moves as f64 * t as f64 / cap, o.switches as f64 * t as f64 / cap, ideal * c as f64 / cap);
                }
            }
        }
    }
}
