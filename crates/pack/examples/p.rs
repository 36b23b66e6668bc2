use pack::live::*; use pack::policy::{regime::Turns, seating::Rules};
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let turns = match a[0].as_str() { "auto" => Turns::Adapted, us => Turns::Fixed(us.parse::<u64>().unwrap() * 1000) };
    let margin: u64 = a[1].parse().unwrap();
    let always = a[2] == "always";
    let mut child = std::process::Command::new(&a[3]).args(&a[4..]).spawn().unwrap();
    let plan = Plan { pids: vec![child.id()], children: true, cpus: vec![0, 1], capacities: vec![1024, 1024], turns, always, rules: Rules { margin_percent: margin, ..Rules::default() }, log: false, command: String::new() };
    let p = match Packer::start(plan) { Ok(p) => p, Err(e) => { eprintln!("{e}"); child.wait().unwrap(); return } };
    child.wait().unwrap();
    let s = p.finish();
    eprintln!("   own {:.1}% rot {:.2} xch {:.0}/s moves {:.0}/s spun {:.3} eff {:.3?} -> {:.3?} turn {} {:?}", s.own_ns as f64 / s.wall_ns as f64 * 100.0, s.rotating_ns as f64 / s.wall_ns as f64, s.exchanges as f64 / s.wall_ns as f64 * 1e9, s.moves as f64 / s.wall_ns as f64 * 1e9, s.spun_ns as f64 / (s.useful_ns + s.spun_ns) as f64, s.without, s.with, s.turn_ns, s.complaints);
}
