use pack::live::*; use pack::policy::{conductor::Settings, regime::Turns, seating::Rules};
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let turns = match a[0].as_str() { "auto" => Turns::Adapted, us => Turns::Fixed(us.parse::<u64>().unwrap() * 1000) };
    let margin: u64 = a[1].parse().unwrap();
    let always = a[2] == "always";
    let mut child = std::process::Command::new(&a[3]).args(&a[4..]).spawn().unwrap();
    let plan = Plan { pids: vec![child.id()], children: true, cpus: vec![0, 1], capacities: vec![1024, 1024], settings: Settings { turns, always, rules: Rules { margin_percent: margin, ..Rules::default() } }, log: false, command: String::new() };
    let p = match Packer::start(plan) { Ok(p) => p, Err(e) => { eprintln!("{e}"); child.wait().unwrap(); return } };
    child.wait().unwrap();
    let s = p.finish();
    let (t, w) = (s.totals, s.wall_ns as f64);
    eprintln!("   own {:.1}% rot {:.2} xch {:.0}/s moves {:.0}/s spun {:.3} eff {:.3?} -> {:.3?} turn {} {:?}", s.own_ns as f64 / w * 100.0, t.rotating_ns as f64 / w, t.seen.exchanges as f64 / w * 1e9, t.seen.moves as f64 / w * 1e9, t.seen.spinning as f64 / t.seen.samples as f64, s.without, s.with, t.turn_ns, s.complaints);
}
