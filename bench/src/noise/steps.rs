//! The slowdown of two threads that meet at a barrier after each piece of work: forecast from quanta without barriers, and measured with them, in
//! turns. Without injected noise, and with 500 µs every 10 ms on both CPUs, at the same time and half a period apart (the source's slides 24 to 26).

use anyhow::{Context, Result};
use report::noise::NoiseReport;

use super::field::{CoRunner, Field};
use super::findings::Findings;
use crate::rounds::in_turns;
use crate::stats::{median, median_estimate};
use crate::verdict::Outcome;

/// Work between two barriers, ms.
const WORK_MS: [u32; 2] = [1, 4];
/// Largest difference of the slowdowns without injected noise.
const NEAR: f64 = 0.02;
/// Largest difference of what noise adds to the slowdown, with injected noise.
const NEAR_INJECTED: f64 = 0.15;
/// Length of a measurement, s.
const SECONDS: &str = "3s";

/// Injected noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Injected {
    None,
    InStep,
    OutOfStep,
}

impl Injected {
    const ALL: [Injected; 3] = [Injected::None, Injected::InStep, Injected::OutOfStep];

    fn name(self) -> &'static str {
        match self {
            Injected::None => "nothing injected",
            Injected::InStep => "500 us every 10 ms, in step",
            Injected::OutOfStep => "500 us every 10 ms, half a period apart",
        }
    }

    fn start(self, field: &Field<'_>) -> Result<Option<CoRunner>> {
        let cpus = format!("0,{}", field.cpu);
        let mut options = vec!["rt", "--cpu", &cpus, "--length-us", "500", "--period-us", "10000", "--seconds", "30"];
        match self {
            Injected::None => return Ok(None),
            Injected::InStep => {}
            Injected::OutOfStep => options.push("--stagger"),
        }
        field.start(&options).map(Some)
    }
}

pub fn steps(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    for work_ms in WORK_MS {
        let mut measured = Vec::new();
        for injected in Injected::ALL {
            let both = in_turns(2, runs.into(), |at| {
                let injector = injected.start(field)?;
                let slowdown = if at == 0 { forecast(field, work_ms) } else { by_barrier(field, work_ms) };
                drop(injector);
                slowdown
            })?;
            judge(&mut found, work_ms, injected, &both[0], &both[1]);
            measured.push(both);
        }
        let apart = |side: usize| {
            let [in_step, out_of_step] = [1, 2].map(|of| median_estimate(&measured[of][side]));
            let ends = in_step.interval.zip(out_of_step.interval);
            ends.is_some_and(|((_, high), (low, _))| high < low)
        };
        found.require(
            apart(0) && apart(1),
            format!("W = {work_ms} ms: the forecast and the barrier each tell in step from half a period apart"),
        );
    }
    Ok(found)
}

fn judge(found: &mut Findings, work_ms: u32, injected: Injected, forecast: &[f64], barrier: &[f64]) {
    let spread = |values: &[f64]| {
        let of = median_estimate(values);
        let ends = of.interval.map_or_else(String::new, |(low, high)| format!(" ({low:.4} to {high:.4})"));
        format!("{:.4}{ends}", of.median)
    };
    let (of_forecast, of_barrier) = (median(forecast), median(barrier));
    let is_near = match injected {
        Injected::None => (of_forecast - of_barrier).abs() <= NEAR,
        _ => (of_forecast - of_barrier).abs() <= NEAR_INJECTED * (of_barrier - 1.0),
    };
    let limit = if injected == Injected::None { "within 0.02" } else { "within 15 % of S - 1" };
    found.judge(
        if is_near { Outcome::Pass } else { Outcome::Fail },
        format!(
            "W = {work_ms} ms, {}: S(2) forecast {}, by the barrier {} ({limit})",
            injected.name(),
            spread(forecast),
            spread(barrier)
        ),
    );
}

fn both_cpus(field: &Field<'_>) -> String {
    format!("0,{}", field.cpu)
}

fn quiet_ns(report: &NoiseReport) -> Result<u64> {
    report.cpus.iter().filter_map(|cpu| cpu.quiet_ns).max().context("the quanta have no shortest one")
}

/// Forecasts from quanta without barriers.
fn forecast(field: &Field<'_>, work_ms: u32) -> Result<f64> {
    let (cpus, quantum) = (both_cpus(field), format!("{work_ms}ms"));
    let report =
        field.noise(&["--cpus", &cpus, "--loop", "fwq", "--quantum", &quantum, "--for", SECONDS, "--no-causes"])?;
    let work = format!("{}ns", quiet_ns(&report)?);
    let report = field.forecast(&["--ranks", "2", "--work", &work])?;
    let scale = report.works.first().and_then(|work| work.scales.first());
    scale.and_then(|scale| scale.slowdown).context("no forecast for two ranks")
}

/// Measures with barriers.
fn by_barrier(field: &Field<'_>, work_ms: u32) -> Result<f64> {
    let (cpus, quantum) = (both_cpus(field), format!("{work_ms}ms"));
    let report =
        field.noise(&["--cpus", &cpus, "--loop", "bsp", "--quantum", &quantum, "--for", SECONDS, "--no-causes"])?;
    let step_ns = report.cpus.iter().filter_map(|cpu| cpu.step_ns).fold(0.0, f64::max);
    Ok(step_ns / quiet_ns(&report)? as f64)
}
