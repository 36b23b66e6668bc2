//! Recordings of noise for a forecast: the JSON of `cox noise`, and noise traces of netgauge.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use forecast::{Cpu, Detour, Recording};
use report::noise::NoiseReport;
use trace::netgauge;

/// Largest overlap of two detours by rounding, ns.
const ROUNDING_NS: u64 = 1000;

/// A recording and the node that it is of.
pub struct Noise {
    /// The recording.
    pub recording: Recording,
    /// Length of the measurement, which is longer than the recording if there was no room for all detours.
    pub measured_ns: u64,
    /// Number of CPUs of the node.
    pub cpus_total: u32,
}

/// Reads a recording.
///
/// # Errors
/// If the file cannot be read, or is not a recording; for traces, the line.
pub fn read(file: &Path) -> Result<Noise> {
    let shown = file.display();
    let bytes = fs::read(file).with_context(|| format!("cannot read '{shown}'"))?;
    let first = bytes.iter().copied().find(|byte| !byte.is_ascii_whitespace());
    match first {
        Some(b'{') => of_json(&bytes).with_context(|| format!("'{shown}' is not a recording of cox noise")),
        _ => of_netgauge(&bytes).with_context(|| format!("'{shown}' is not a noise trace of netgauge")),
    }
}

fn of_json(bytes: &[u8]) -> Result<Noise> {
    of_report(NoiseReport::of_json(bytes).map_err(anyhow::Error::msg)?)
}

/// Makes a recording of a report of `cox noise`.
///
/// # Errors
/// If its loop finds no detours.
pub fn of_report(report: NoiseReport) -> Result<Noise> {
    if report.measurement.measuring == "ftq" {
        bail!("fixed time quanta have no detours; record with --loop detour or fwq");
    }
    // What comes behind the last listed detour of a CPU was not silent: nothing is known about it. All CPUs are replayed together.
    let length_ns = report.cpus.iter().map(|cpu| cpu.begin_ns.saturating_add(cpu.listed_ns())).min().unwrap_or(0);
    let measured_ns = report.cpus.iter().map(|cpu| cpu.begin_ns.saturating_add(cpu.length_ns)).min().unwrap_or(0);
    let cpus = report.cpus.iter().map(|cpu| {
        let quiet_ns = cpu.quiet_ns.unwrap_or(0);
        let detours =
            cpu.detours.iter().map(|(start, length, cause)| (*start, length.saturating_sub(quiet_ns), *cause));
        Cpu { cpu: cpu.cpu, detours: apart(detours, length_ns) }
    });
    let cpus = cpus.collect();
    let causes = report.causes.into_iter().map(|cause| cause.name).collect();
    let recording = Recording { length_ns, cpus, causes };
    Ok(Noise { recording, measured_ns, cpus_total: report.measurement.online_cpus })
}

fn of_netgauge(bytes: &[u8]) -> Result<Noise> {
    let trace = netgauge::read(bytes)?;
    let length_ns = trace.facts.period_ns.unwrap_or(0).max(trace.end_ns());
    let detours = apart(trace.detours.iter().map(|(start, length)| (*start, *length, 0)), length_ns);
    let recording =
        Recording { length_ns, cpus: vec![Cpu { cpu: 0, detours }], causes: vec!["not recorded".to_owned()] };
    Ok(Noise { recording, measured_ns: length_ns, cpus_total: 1 })
}

/// Makes detours that neither overlap, nor end after the recording, nor are empty: rounding of times can cause either.
fn apart(detours: impl Iterator<Item = (u64, u64, u32)>, end_ns: u64) -> Vec<Detour> {
    let mut all: Vec<Detour> = Vec::new();
    for (start, length, cause) in detours {
        let free = all.last().map_or(0, |last| last.start_ns + last.length_ns);
        // A larger overlap is not rounding: it stays, and the recording is refused.
        let start_ns = if free.saturating_sub(start) <= ROUNDING_NS { start.max(free) } else { start };
        let end = start.saturating_add(length).min(end_ns);
        if end > start_ns {
            let cause = u16::try_from(cause).unwrap_or(u16::MAX);
            all.push(Detour { start_ns, length_ns: end - start_ns, cause });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_times_do_not_make_detours_overlap() {
        let detours = [(0, 10, 0), (9, 5, 1), (9, 2, 1), (95, 10, 0), (200, 5, 0)];
        let all = apart(detours.into_iter(), 100);
        let times: Vec<(u64, u64)> = all.iter().map(|detour| (detour.start_ns, detour.length_ns)).collect();
        assert_eq!(times, [(0, 10), (10, 4), (95, 5)]);
        let out_of_order = apart([(50_000, 10, 0), (9, 5, 1)].into_iter(), 100_000);
        assert_eq!(out_of_order[1].start_ns, 9, "not moved, so that the check refuses it");
    }
}
