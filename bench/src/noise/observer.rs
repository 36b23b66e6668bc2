//! What it costs the measured CPU that cox asks the kernel for events: stolen time with events, minus without, in turns.

use anyhow::Result;
use report::noise::NoiseReport;

use super::field::Field;
use super::findings::Findings;
use crate::rounds::in_turns;
use crate::stats::median_estimate;
use crate::verdict::at_most;

/// The limit: share of the CPU.
const LIMIT: f64 = 0.001;
/// Detours longer than this are hardly the kernel's ticks, ns. They are left out of the second figure.
const LONGEST_TICK_NS: u64 = 100_000;

pub fn observer(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let cpu = field.cpu.to_string();
    let sides: [&[&str]; 2] = [&["--cpus", &cpu, "--for", "3s"], &["--cpus", &cpu, "--for", "3s", "--no-causes"]];
    let measured = in_turns(2, runs.into(), |at| field.noise(sides[at]))?;
    let mut found = Findings::default();
    type Figure = fn(&NoiseReport) -> f64;
    let figures: [(&str, Figure); 2] = [("all stolen time", stolen), ("detours of up to 100 us", short)];
    for (name, figure) in figures {
        let [with, without] = [0, 1].map(|at| measured[at].iter().map(figure).collect::<Vec<f64>>());
        let added: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with - without).collect();
        let (added, with, without) = (median_estimate(&added), median_estimate(&with), median_estimate(&without));
        let spread = added
            .interval
            .map_or_else(String::new, |(low, high)| format!(" ({:+.4} to {:+.4})", low * 100.0, high * 100.0));
        let text = format!(
            "{name}: {:.4} % with events, {:.4} % without: {:+.4} %{spread} of the CPU, limit {} %",
            with.median * 100.0,
            without.median * 100.0,
            added.median * 100.0,
            LIMIT * 100.0
        );
        found.judge(at_most(&added, LIMIT), text);
    }
    Ok(found)
}

fn stolen(report: &NoiseReport) -> f64 {
    report.cpus[0].stolen()
}

fn short(report: &NoiseReport) -> f64 {
    let cpu = &report.cpus[0];
    let listed = cpu.detours.iter().map(|(_, length, _)| *length).filter(|ns| *ns <= LONGEST_TICK_NS);
    listed.sum::<u64>() as f64 / cpu.length_ns.max(1) as f64
}
