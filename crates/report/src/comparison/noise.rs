//! The figures of a measurement of noise that are compared: means over the measured CPUs, for each second.

use std::collections::BTreeMap;

use crate::noise::{Cpu, NoiseReport};

/// Names of the figures, in the order in which they are compared. Times of causes are those of the detours that are charged to them.
pub(super) const NAMES: [&str; 16] = [
    "noise.stolen_ns",
    "noise.detours",
    "noise.coarse_stolen_ns",
    "noise.coarse_detours",
    "noise.longest_ns",
    "noise.tick_ns",
    "noise.timer_ns",
    "noise.device_ns",
    "noise.softirq_ns",
    "noise.ipi_ns",
    "noise.page_fault_ns",
    "noise.thread_ns",
    "noise.kworker_ns",
    "noise.other_interrupt_ns",
    "noise.outside_ns",
    "noise.unknown_ns",
];

/// Returns the figures of a measurement.
pub(super) fn figures(report: &NoiseReport) -> BTreeMap<String, f64> {
    let seconds = |cpu: &Cpu| cpu.length_ns.max(1) as f64 / 1e9;
    let mean = |of: &dyn Fn(&Cpu) -> f64| {
        report.cpus.iter().map(|cpu| of(cpu) / seconds(cpu)).sum::<f64>() / report.cpus.len().max(1) as f64
    };
    let of_class = |cpu: &Cpu, class: &str| -> f64 {
        let is_its =
            |at: u32| report.causes.get(at as usize).is_some_and(|cause| cause.class.replace(' ', "_") == class);
        cpu.by_cause.iter().filter(|taken| is_its(taken.cause)).map(|taken| taken.stolen_ns).sum::<u64>() as f64
    };
    let figure = |name: &str| match name.trim_start_matches("noise.") {
        "stolen_ns" => mean(&|cpu| cpu.fine.stolen_ns as f64),
        "detours" => mean(&|cpu| cpu.fine.count as f64),
        "coarse_stolen_ns" => mean(&|cpu| cpu.coarse.stolen_ns as f64),
        "coarse_detours" => mean(&|cpu| cpu.coarse.count as f64),
        "longest_ns" => report.cpus.iter().map(|cpu| cpu.fine.longest_ns).max().unwrap_or(0) as f64,
        class => mean(&|cpu| of_class(cpu, class.trim_end_matches("_ns"))),
    };
    NAMES.iter().map(|name| ((*name).to_owned(), figure(name))).collect()
}
