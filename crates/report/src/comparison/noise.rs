//! The figures of a measurement of noise that are compared: means over the measured CPUs, for each second.

use std::collections::BTreeMap;

use advise::numbers::duration;

use crate::noise::{Cpu, Measurement, NoiseReport};

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

/// Returns the figures of a measurement, without those that it does not know: times of causes without the kernel's events, and detours if the loop has
/// none. What fixed time quanta lost is relative to the quantum with the most work.
pub(super) fn figures(report: &NoiseReport) -> BTreeMap<String, f64> {
    let has_detours = report.measurement.measuring != "ftq";
    let has_causes = has_detours && report.cpus.iter().all(|cpu| cpu.caused_ns.is_some());
    let mean_of = |of: &dyn Fn(&Cpu) -> f64| report.cpus.iter().map(of).sum::<f64>() / report.cpus.len().max(1) as f64;
    let mean = |of: &dyn Fn(&Cpu) -> f64| mean_of(&|cpu| of(cpu) / cpu.seconds());
    let of_class = |cpu: &Cpu, class: &str| -> f64 {
        let is_its =
            |at: u32| report.causes.get(at as usize).is_some_and(|cause| cause.class.replace(' ', "_") == class);
        cpu.by_cause.iter().filter(|taken| is_its(taken.cause)).map(|taken| taken.stolen_ns).sum::<u64>() as f64
    };
    let loss = || {
        let losses = report.cpus.iter().map(|cpu| cpu.loss.map(|loss| loss.mean)).collect::<Option<Vec<f64>>>()?;
        Some(losses.iter().sum::<f64>() / losses.len().max(1) as f64 * 1e9)
    };
    let figure = |name: &str| match name.trim_start_matches("noise.") {
        "stolen_ns" if !has_detours => loss(),
        _ if !has_detours => None,
        "stolen_ns" => Some(mean(&|cpu| cpu.fine.stolen_ns as f64)),
        "detours" => Some(mean(&|cpu| cpu.fine.count as f64)),
        "coarse_stolen_ns" => Some(mean(&|cpu| cpu.coarse.stolen_ns as f64)),
        "coarse_detours" => Some(mean(&|cpu| cpu.coarse.count as f64)),
        "longest_ns" => Some(report.cpus.iter().map(|cpu| cpu.fine.longest_ns).max().unwrap_or(0) as f64),
        class => {
            has_causes.then(|| mean_of(&|cpu| of_class(cpu, class.trim_end_matches("_ns")) / cpu.listed_seconds()))
        }
    };
    NAMES.iter().filter_map(|name| Some(((*name).to_owned(), figure(name)?))).collect()
}

/// Returns how it was measured: measurements that differ in this have different figures for the same noise.
pub(super) fn manner(report: &NoiseReport) -> Vec<(&'static str, String)> {
    let measurement = &report.measurement;
    let is_truncated = report.cpus.iter().any(|cpu| cpu.truncated);
    vec![
        ("loop", measurement.measuring.clone()),
        ("work of a quantum", measurement.work.clone().unwrap_or_else(|| "none".to_owned())),
        ("quantum", measurement.quantum_ns.map_or_else(|| "none".to_owned(), duration)),
        ("threshold", threshold(measurement)),
        ("threads", if measurement.pinned { "pinned" } else { "not pinned" }.to_owned()),
        ("detours listed", if is_truncated { "not all" } else { "all" }.to_owned()),
        ("causes", if report.events.blind.is_some() { "not known" } else { "known" }.to_owned()),
    ]
}

/// The threshold that `cox noise` chooses, in smallest gaps. The smallest gap differs a little from one measurement to the next.
const GAPS: u64 = 8;

fn threshold(of: &Measurement) -> String {
    let chosen = GAPS * of.smallest_gap_ns..=GAPS * (of.smallest_gap_ns + 1);
    if chosen.contains(&of.threshold_ns) { format!("{GAPS} smallest gaps") } else { duration(of.threshold_ns) }
}
