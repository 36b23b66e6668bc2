//! Measurements of `cox noise`, made by hand.

#![allow(dead_code, reason = "each test file uses its own part")]

use ledger::Provenance;
use report::noise::{
    Above, Cause, Check, Clock, Cpu, Events, Loss, Measurement, NoiseReport, Peak, Spectrum, Taken, TickGroup, TickPart,
};

/// A cause of each class, in the order of the classes; the last one is a thread with a name that is markup.
pub const CLASSES: [(&str, &str); 11] = [
    ("timer tick", "tick"),
    ("timer: hrtimer_wakeup", "timer"),
    ("device interrupt 38 (virtio2-input.0)", "device"),
    ("softirq SCHED", "softirq"),
    ("IPI: TLB flush by java(991), munmap", "ipi"),
    ("page fault", "page fault"),
    (HOSTILE, "thread"),
    ("kworker: vmstat_update", "kworker"),
    ("NMI: perf_event_nmi_handler", "other interrupt"),
    ("outside this kernel", "outside"),
    ("unknown", "unknown"),
];

/// The name of a thread that would be markup.
pub const HOSTILE: &str = "thread </title></svg><b onmouseover=\"x\">(7)";

fn cause((name, class): (&str, &str)) -> Cause {
    let knob = (class == "tick").then(|| "nohz_full=CPUS at boot".to_owned());
    Cause { name: name.to_owned(), class: class.to_owned(), knob, call_site: None }
}

/// A measurement by a loop, on CPU 1, for two seconds.
pub fn measured(measuring: &str) -> NoiseReport {
    let work = measuring != "detour";
    NoiseReport {
        schema_version: 1,
        cox_version: "0.1.0".into(),
        provenance: Provenance { host: Some("vm".into()), ..Provenance::default() },
        measurement: Measurement {
            measuring: measuring.to_owned(),
            work: work.then(|| "integer".to_owned()),
            quantum_ns: work.then_some(1_000_000),
            pinned: true,
            length_ns: 2_000_000_000,
            ended_early: false,
            guest: Some(true),
            threshold_ns: 100,
            coarse_threshold_ns: 10_000,
            smallest_gap_ns: 12,
            begin_ns: 1_000,
            online_cpus: 2,
        },
        clock: Clock { source: Some("tsc".into()), ticks_per_us: 2_000.0, error_ppm: 3.0, changed_ppm: None },
        events: Events {
            blind: None,
            count: 1_234,
            lost: 0,
            without: Vec::new(),
            switches: Some([7, 7]),
            page_faults: Some([0, 0]),
        },
        causes: CLASSES.map(cause).into(),
        cpus: vec![cpu(1, if measuring == "ftq" { Vec::new() } else { detours(500) }, work.then_some(990_000))],
    }
}

/// Detours of all causes, most of them ticks, each for itself; of quanta, `quiet_ns` is added.
pub fn detours(number: u64) -> Vec<(u64, u64, u32)> {
    let detour = |at: u64| {
        let cause = if at.is_multiple_of(3) { (at / 3 % CLASSES.len() as u64) as u32 } else { 0 };
        let length = if cause == 6 { 4_000_000 + at * 17 } else { 500 + at * 7_919 % 30_000 };
        (at * 2_000_000_000 / number, length, cause)
    };
    (0..number).map(detour).collect()
}

fn cpu(number: u32, detours: Vec<(u64, u64, u32)>, quiet_ns: Option<u64>) -> Cpu {
    let sum = |of: &dyn Fn(u32) -> bool| -> u64 {
        detours.iter().filter(|(.., cause)| of(*cause)).map(|(_, ns, _)| ns).sum()
    };
    let taken = |cause: u32| {
        let mut lengths: Vec<u64> = detours.iter().filter(|(.., of)| *of == cause).map(|(_, ns, _)| *ns).collect();
        lengths.sort_unstable();
        let (count, stolen_ns) = (lengths.len() as u64, lengths.iter().sum());
        let [median_ns, longest_ns] =
            [lengths.get(lengths.len() / 2), lengths.last()].map(|ns| ns.copied().unwrap_or(0));
        Taken { cause, count, inside_ns: stolen_ns, stolen_ns, median_ns, longest_ns }
    };
    let mut by_cause: Vec<Taken> = (0..CLASSES.len() as u32).map(taken).filter(|taken| taken.count > 0).collect();
    by_cause.sort_by_key(|taken| std::cmp::Reverse(taken.stolen_ns));
    let longest_ns = detours.iter().map(|(_, ns, _)| *ns).max().unwrap_or(0);
    Cpu {
        cpu: number,
        tid: 4711,
        begin_ns: 0,
        length_ns: 2_000_000_000,
        listed_ns: 2_000_000_000,
        readings: 2_000,
        quiet_ns,
        step_ns: None,
        fine: Above { count: detours.len() as u64, stolen_ns: sum(&|_| true), longest_ns },
        coarse: Above::default(),
        truncated: false,
        caused_ns: Some(sum(&|cause| cause < 9)),
        outside_ns: Some(sum(&|cause| cause == 9)),
        unknown_ns: Some(sum(&|cause| cause == 10)),
        by_cause,
        check: Check { rows: vec![("LOC".into(), 500, Some(500))], agreeing: 1, not_seen: Vec::new() },
        steal_ns: 0,
        detours: detours.iter().map(|(begin, ns, cause)| (*begin, ns + quiet_ns.unwrap_or(0), *cause)).collect(),
        ticks: Vec::new(),
        lengths: None,
        quanta: None,
        steps: None,
        until_barrier: None,
        loss: None,
        spectrum: None,
    }
}

/// What ticks did: 450 alone, 50 with two more causes.
pub fn ticks() -> Vec<TickGroup> {
    let part = |what: &str, class: &str, sum_ns| TickPart { what: what.to_owned(), class: class.to_owned(), sum_ns };
    vec![
        TickGroup {
            what: "tick alone".into(),
            count: 450,
            sum_ns: 900_000,
            median_ns: 1_900,
            max_ns: 9_000,
            parts: vec![part("tick function", "tick", 600_000), part("entry and exit", "entry", 300_000)],
        },
        TickGroup {
            what: "tick + softirq SCHED + other threads".into(),
            count: 50,
            sum_ns: 450_000,
            median_ns: 8_500,
            max_ns: 15_000,
            parts: vec![
                part("tick function", "tick", 70_000),
                part("softirq SCHED", "softirq", 30_001),
                part("other threads", "thread", 309_999),
                part("entry and exit", "entry", 40_000),
            ],
        },
    ]
}

/// What each quantum of `ftq` lost: a tick of 250 Hz.
pub fn of_ftq() -> NoiseReport {
    let mut report = measured("ftq");
    let cpu = &mut report.cpus[0];
    cpu.loss = Some(Loss { most_units: 20_000, mean: 0.0021, max: 0.42 });
    let amplitudes = (0..=512).map(|at| if at == 256 { 0.0021 } else { 0.000_03 + f64::from(at % 7) * 1e-6 }).collect();
    let peak = |hz, amplitude, above_floor| Peak { hz, amplitude, above_floor };
    let peaks = vec![peak(250.01, 0.0021, 64.0), peak(499.9, 0.0009, 27.0)];
    cpu.spectrum = Some(Spectrum { step_hz: 0.976_562_5, segments: 7, amplitudes, peaks });
    report
}
