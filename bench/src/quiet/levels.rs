//! What each level wins: `cox quiet measure` on each CPU that can become quiet.

use std::process::Command;

use anyhow::{Context, Result};
use machine::{CpuSet, Root};
use quiet::{Facts, Level, Movable, check};
use report::quiet::{AtLevel, LevelsReport};

use crate::noise::field::{Field, Injector};
use crate::noise::findings::Findings;
use crate::stats::{Estimate, median, median_estimate};
use crate::tools::in_path;
use crate::verdict::Outcome;

/// How many times less must be stolen at level full than with pinned threads, and how much this kernel may take besides ticks, as a share.
struct Limits {
    times: f64,
    kernel: f64,
}

/// For a CPU without an interrupt that cannot be moved, and for one with one.
const FREE: Limits = Limits { times: 15.0, kernel: 0.0005 };
const BOUND: Limits = Limits { times: 8.0, kernel: 0.003 };

/// Length of each measurement.
const LENGTH: &str = "3s";

/// The load: a computing thread on each of two CPUs, one that maps memory, one that writes to the disk.
const LOAD: [&str; 8] = ["--cpu", "2", "--vm", "1", "--hdd", "1", "--quiet", "--timeout"];

fn load(field: &Field<'_>) -> Result<Injector> {
    field.beside("stress-ng", &[&LOAD[..], &["3600"]].concat())
}

/// Returns the CPUs that can become quiet alone, and whether an interrupt stays on them.
fn cpus() -> Result<Vec<(u32, bool)>> {
    let facts = Facts::read(&Root::live()).context("cannot examine this machine")?;
    let can = |cpu: &u32| check(&facts, &[*cpu].into_iter().collect()).is_ok();
    let is_bound = |cpu: u32| {
        facts.interrupts.iter().any(|one| one.movable == Movable::No && one.effective.contains(cpu) && one.number > 0)
    };
    let cpus: CpuSet = facts.topology.online.iter().filter(can).collect();
    Ok(cpus.iter().map(|cpu| (cpu, is_bound(cpu))).collect())
}

fn measure(field: &Field<'_>, cpu: u32, runs: u16) -> Result<LevelsReport> {
    let json = field.file("levels.json");
    let mut command = Command::new(&field.cox);
    command.args(["quiet", "measure", "--for", LENGTH, "--cpus", &cpu.to_string(), "--rounds", &runs.to_string()]);
    field.done(command.arg("--json").arg(&json))?;
    let text = std::fs::read(&json).context("cox quiet measure wrote no JSON")?;
    Ok(serde_json::from_slice(&text)?)
}

fn of(report: &LevelsReport, level: Level) -> Result<&AtLevel> {
    report.levels.iter().find(|at| at.level == level.name()).with_context(|| format!("no level {level}"))
}

fn table(found: &mut Findings, cpu: u32, report: &LevelsReport) {
    found.line(format!(
        "CPU {cpu}: stolen %, medians of {} rounds (95 %) | ticks, net | this kernel otherwise, net | the rest | steal clock | the step wins | S({})",
        report.rounds, report.ranks
    ));
    for at in &report.levels {
        let step = match (at.gain, at.wins()) {
            (None, _) => "-".to_owned(),
            (Some(_), None) => "not told from noise".to_owned(),
            (Some(gain), Some(_)) => format!("{:+.3} %", 100.0 * gain.median),
        };
        let parts = [at.ticks, at.kernel, at.rest, at.steal]
            .map(|part| part.median)
            .map(|share| format!("{:.3}", 100.0 * share))
            .join(" | ");
        let slowdown = at.slowdown.map_or(0.0, |slowdown| slowdown.median);
        found.line(format!("  {:10} {} | {parts} | {step} | {slowdown:.3}", at.level, percent(&at.stolen)));
    }
}

fn percent(share: &Estimate) -> String {
    let ends =
        share.interval.map_or_else(String::new, |(low, high)| format!(" ({:.3} to {:.3})", 100.0 * low, 100.0 * high));
    format!("{:.3}{ends}", 100.0 * share.median)
}

/// Beside a load everywhere.
pub fn under_load(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    if in_path("stress-ng").is_none() {
        found.judge(Outcome::NotMeasured, "stress-ng is not installed");
        return Ok(found);
    }
    for (cpu, is_bound) in cpus()? {
        let load = load(field)?;
        let report = measure(field, cpu, runs)?;
        drop(load);
        table(&mut found, cpu, &report);
        let (pin, full) = (of(&report, Level::Pin)?, of(&report, Level::Full)?);
        let ratios: Vec<f64> = pin.values.iter().zip(&full.values).map(|(pin, full)| pin[0] / full[0]).collect();
        let (limits, kind) = if is_bound { (BOUND, "with") } else { (FREE, "without") };
        let ratio = median_estimate(&ratios);
        let ends = ratio.interval.map_or_else(String::new, |(low, high)| format!(" ({low:.1} to {high:.1})"));
        found.require(
            ratio.median >= limits.times,
            format!(
                "CPU {cpu}, {kind} an interrupt that cannot be moved: at full {:.1} times less{ends} than pinned (limit {})",
                ratio.median, limits.times
            ),
        );
        // This is what the levels can change.
        let without = |values: &[f64; 5]| values[2].max(1e-9);
        let own: Vec<f64> =
            pin.values.iter().zip(&full.values).map(|(pin, full)| without(pin) / without(full)).collect();
        found.line(format!("CPU {cpu}: of what this kernel takes besides ticks, {:.0} times less", median(&own)));
        found.require(
            full.kernel.median <= limits.kernel,
            format!(
                "CPU {cpu}: this kernel besides ticks {} % at full (limit {} %)",
                percent(&full.kernel),
                100.0 * limits.kernel
            ),
        );
    }
    Ok(found)
}

/// On an idle machine.
pub fn idle(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    for (cpu, _) in cpus()? {
        let report = measure(field, cpu, runs)?;
        table(&mut found, cpu, &report);
        let (pin, full) = (of(&report, Level::Pin)?, of(&report, Level::Full)?);
        let more: Vec<f64> = pin.values.iter().zip(&full.values).map(|(pin, full)| full[0] - pin[0]).collect();
        let more = median_estimate(&more);
        found.require(
            more.interval.map_or(more.median, |(low, _)| low) <= 0.0,
            format!("CPU {cpu}: at full, {} % of the CPU more than pinned (not told from 0, or less)", percent(&more)),
        );
    }
    Ok(found)
}
