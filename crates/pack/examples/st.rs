use watch::Stands;
fn main() {
    let s = Stands::new(true).unwrap();
    let a: Vec<String> = std::env::args().skip(1).collect();
    let mut c = std::process::Command::new(&a[0]).args(&a[1..]).spawn().unwrap();
    s.enrol(c.id()).unwrap();
    for _ in 0..6 { std::thread::sleep(std::time::Duration::from_millis(200));
    for n in 0..s.given() { let st = s.table().read(n); let now = arch::monotonic_ns(); if let Some(st) = st { println!("{} run {} since {} state {} cpu {} pre {} blk {}", st.tid, watch::stands::run_ns(&st, now) / 1000, st.since_ns, st.state, st.cpu, st.preempts, st.blocks); } } }
    c.wait().unwrap();
}
