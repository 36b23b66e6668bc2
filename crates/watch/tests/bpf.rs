//! The `bpf` backend on real processes. Needs root (CAP_BPF, CAP_PERFMON).

use std::io::Write;
use std::process::{Child, Command, Stdio};

use watch::{BpfObserver, Intake, Observer, Settings};
use wire::{Clock, Record};

fn settings() -> Settings {
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last: u32 = cpus.trim().rsplit(['-', ',']).next().unwrap().parse().unwrap();
    Settings {
        children: true,
        sample_period_ns: Settings::SAMPLE_PERIOD_NS,
        cpus_in_full_mask: last + 1,
        cpu_limit: last + 1,
    }
}

/// A shell that waits for a line before it becomes the command.
fn gated(script: &str) -> Child {
    Command::new("sh").args(["-c", &format!("read go; {script}")]).stdin(Stdio::piped()).spawn().unwrap()
}

fn observe(settings: &Settings, script: &str) -> Record {
    let mut child = gated(script);
    let mut observer = BpfObserver::new(settings).unwrap();
    observer.enrol(child.id()).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    child.wait().unwrap();
    let mut intake = Intake::default();
    observer.finish(&mut intake).unwrap()
}

fn named<'a>(record: &'a Record, comm: &str) -> Vec<&'a Clock> {
    record.clocks.iter().filter(|c| c.comm() == comm).collect()
}

#[test]
fn every_clock_is_whole_and_the_sleeper_slept() {
    let record = observe(&settings(), "sleep 0.3; exec sleep 0.2");
    for c in &record.clocks {
        println!("{} {} wall {} {c:?}", c.tid, c.comm(), c.since_ns - c.born_ns);
        assert!(c.is_whole(), "{c:?}");
        assert_eq!(c.impossible, 0);
    }
    println!("{:?} {:?} {:#?}", record.losses, record.events, record.cpus);
    println!("cost {:?} takers {:?} pairs {:?}", record.kernel_cost_ns, record.takers, record.pairs);
    assert_eq!(named(&record, "sleep").len(), 2);
}
