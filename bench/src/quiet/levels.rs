//! What each level wins: `cox quiet measure` on each CPU that can become quiet.

use std::process::Command;

use anyhow::{Context, Result};
use machine::{CpuSet, Root};
use quiet::{Facts, Level, check};
use report::quiet::{AtLevel, LevelsReport};

use super::place::load;
use crate::noise::field::Field;
use crate::noise::findings::Findings;
use crate::stats::{Estimate, median, median_estimate, shown};
use crate::verdict::{Outcome, at_most};

/// How many times less must be stolen at level full than with pinned threads, and how much this kernel may take besides
/// ticks, as a share.
struct Limits {
    times: f64,
    kernel: f64,
}

/// For a CPU without an interrupt that cannot be moved, and for one with one.
const FREE: Limits = Limits { times: 15.0, kernel: 0.0005 };
const BOUND: Limits = Limits { times: 8.0, kernel: 0.003 };

/// On an idle machine, `full` must not be worse than pinned. A difference of this share of what a pinned thread loses
/// counts as none: that is 0.005 % of a CPU where ticks take 0.1 %, less than from one round to the next.
const MARGIN: f64 = 0.05;

/// Length of each measurement.
const LENGTH: &str = "3s";

/// Returns the CPUs that can become quiet alone, and whether an interrupt stays on them.
fn cpus() -> Result<Vec<(u32, bool)>> {
    let facts = Facts::read(&Root::live()).context("cannot examine this machine")?;
    let can = |cpu: &u32| check(&facts, &[*cpu].into_iter().collect()).is_ok();
    let is_bound =
        |cpu: u32| facts.interrupts.iter().any(|one| one.is_fixed && one.effective.contains(cpu) && one.number > 0);
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
            (Some(_), None) => "no significant difference".to_owned(),
            (Some(gain), Some(_)) => format!("{:+.3} %", 100.0 * gain.median),
        };
        let parts = [at.ticks, at.kernel, at.rest, at.steal]
            .map(|part| part.median)
            .map(|share| format!("{:.3}", 100.0 * share))
            .join(" | ");
        let bound = if at.slowdown_is_bound { "≥ " } else { "" };
        let slowdown = at.slowdown.map_or(0.0, |slowdown| slowdown.median);
        found.line(format!("  {:10} {} | {parts} | {step} | {bound}{slowdown:.3}", at.level, percent(&at.stolen)));
    }
}

fn percent(share: &Estimate) -> String {
    let hundred = |(low, high)| (100.0 * low, 100.0 * high);
    shown(&Estimate { median: 100.0 * share.median, interval: share.interval.map(hundred) }, 3)
}

/// Returns what a thread loses that is not pinned, as a share of its time: no attempt to make a CPU quiet.
fn no_attempt(field: &Field<'_>, cpu: u32, runs: u16) -> Result<Estimate> {
    let shares = (0..runs).map(|_| {
        let report = field.noise(&["--unpinned", "--no-causes", "--cpus", &cpu.to_string(), "--for", LENGTH])?;
        Ok(report.cpus.first().map_or(0.0, |thread| thread.stolen()))
    });
    Ok(median_estimate(&shares.collect::<Result<Vec<f64>>>()?))
}

/// Beside a load everywhere.
pub fn under_load(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    if !found.has("stress-ng") {
        return Ok(found);
    }
    for (cpu, is_bound) in cpus()? {
        let load = load(field)?;
        let unpinned = no_attempt(field, cpu, runs)?;
        let report = measure(field, cpu, runs)?;
        drop(load);
        table(&mut found, cpu, &report);
        found.line(format!("  no attempt {} (not pinned, measured before the levels)", percent(&unpinned)));
        let (pin, full) = (of(&report, Level::Pin)?, of(&report, Level::Full)?);
        let (limits, kind) = if is_bound { (BOUND, "with") } else { (FREE, "without") };
        let (outcome, ratio) = times_less(pin, full, limits.times);
        found.judge(
            outcome,
            format!(
                "CPU {cpu}, {kind} an interrupt that cannot be moved: stolen when pinned / at full: {} (limit {})",
                shown(&ratio, 1),
                limits.times
            ),
        );
        // This is what the levels can change.
        let without = |values: &[f64; 5]| values[2].max(1e-9);
        let own: Vec<f64> =
            pin.values.iter().zip(&full.values).map(|(pin, full)| without(pin) / without(full)).collect();
        found.line(format!("CPU {cpu}: of what this kernel takes besides ticks, {:.0} times less", median(&own)));
        found.judge(
            at_most(&full.kernel, limits.kernel),
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
        let (outcome, more) = no_worse(pin, full);
        found.judge(
            outcome,
            format!(
                "CPU {cpu}: at full, {} % of the CPU more than pinned (limit {:.4} %: {:.0} % of what is stolen when pinned)",
                percent(&more),
                100.0 * MARGIN * pin.stolen.median,
                100.0 * MARGIN
            ),
        );
    }
    Ok(found)
}

/// Judges by the interval how many times as much is stolen from a pinned thread as at full.
fn times_less(pin: &AtLevel, full: &AtLevel, least: f64) -> (Outcome, Estimate) {
    let ratio = |(pin, full): (&[f64; 5], &[f64; 5])| pin[0] / full[0];
    let ratio = median_estimate(&pin.values.iter().zip(&full.values).map(ratio).collect::<Vec<f64>>());
    // At least this much: the negative is at most the negative limit.
    let negative = ratio.interval.map(|(low, high)| (-high, -low));
    (at_most(&Estimate { median: -ratio.median, interval: negative }, -least), ratio)
}

/// Judges by the upper end of the interval whether at full no more is stolen than from a pinned thread: the noisier the
/// measurement, the harder it is to show.
fn no_worse(pin: &AtLevel, full: &AtLevel) -> (Outcome, Estimate) {
    let more = pin.values.iter().zip(&full.values).map(|(pin, full)| full[0] - pin[0]);
    let more = median_estimate(&more.collect::<Vec<f64>>());
    (at_most(&more, MARGIN * pin.stolen.median), more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(stolen: &[f64]) -> AtLevel {
        let nothing = Estimate { median: 0.0, interval: None };
        AtLevel {
            level: String::new(),
            stolen: median_estimate(stolen),
            ticks: nothing,
            kernel: nothing,
            rest: nothing,
            steal: nothing,
            gain: None,
            slowdown: None,
            slowdown_is_bound: false,
            housekeeping: None,
            values: stolen.iter().map(|stolen| [*stolen, 0.0, 0.0, 0.0, 0.0]).collect(),
        }
    }

    const PIN: [f64; 6] = [0.0100, 0.0101, 0.0099, 0.0100, 0.0102, 0.0098];

    #[test]
    fn noise_does_not_make_it_easier_to_be_no_worse() {
        let of = |more: [f64; 6]| {
            let full: Vec<f64> = PIN.iter().zip(more).map(|(pin, more)| pin + more).collect();
            no_worse(&level(&PIN), &level(&full)).0
        };
        assert_eq!(of([0.0001, -0.0001, 0.0002, 0.0, 0.0001, -0.0002]), Outcome::Pass);
        assert_eq!(of([0.004, -0.004, 0.003, -0.001, 0.002, 0.001]), Outcome::Undecided, "noisy");
        assert_eq!(of([0.004, 0.003, 0.003, 0.002, 0.002, 0.001]), Outcome::Fail);
    }

    #[test]
    fn the_whole_interval_must_be_above_the_limit() {
        let of = |times: [f64; 6]| {
            let full: Vec<f64> = PIN.iter().zip(times).map(|(pin, times)| pin / times).collect();
            times_less(&level(&PIN), &level(&full), 15.0).0
        };
        assert_eq!(of([16.0, 17.0, 18.0, 19.0, 20.0, 21.0]), Outcome::Pass);
        assert_eq!(of([14.0, 17.0, 18.0, 19.0, 20.0, 21.0]), Outcome::Undecided);
        assert_eq!(of([10.0, 11.0, 12.0, 13.0, 14.0, 14.5]), Outcome::Fail);
    }
}
