//! `cox run --noise` on a thread that only computes, against `cox noise` on the same CPU: the same causes must take the same time.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::field::Field;
use super::findings::Findings;
use crate::stats::median;

/// Pairs of measurements.
const PAIRS: usize = 5;
/// Causes with at least this many events in every measurement are compared by their time.
const FREQUENT: u64 = 400;
/// Length of each measurement, s.
const SECONDS: u32 = 10;

/// What a measurement tells about each cause: number of times, and µs in each second.
type Causes = BTreeMap<String, (u64, f64)>;

pub fn agreement(field: &Field<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let mut pairs: Vec<(Causes, Causes)> = Vec::new();
    for pair in 0..PAIRS {
        // The first one changes from pair to pair.
        let both = if pair % 2 == 0 {
            let ours = by_loop(field)?;
            (ours, by_events(field)?)
        } else {
            let theirs = by_events(field)?;
            (by_loop(field)?, theirs)
        };
        pairs.push(both);
    }
    let mut names: Vec<&String> = pairs.iter().flat_map(|(a, b)| a.keys().chain(b.keys())).collect();
    names.sort();
    names.dedup();
    let of = |side: &Causes, name: &str| side.get(name).copied().unwrap_or_default();
    for name in names {
        let sides =
            |side: fn(&(Causes, Causes)) -> &Causes| pairs.iter().map(|pair| of(side(pair), name)).collect::<Vec<_>>();
        let (loops, runs) = (sides(|pair| &pair.0), sides(|pair| &pair.1));
        let least = loops.iter().chain(&runs).map(|(count, _)| *count).min().unwrap_or(0);
        let middle = |side: &[(u64, f64)]| median(&side.iter().map(|(_, us)| *us).collect::<Vec<_>>());
        let counted = |side: &[(u64, f64)]| side.iter().map(|(count, _)| *count).sum::<u64>();
        let (us_loop, us_run) = (middle(&loops), middle(&runs));
        if least >= FREQUENT {
            let off = (us_run / us_loop - 1.0) * 100.0;
            found.require(
                off.abs() <= 10.0,
                format!("{name}: {us_loop:.1} us/s by the loop, {us_run:.1} by the run ({off:+.1} %, limit 10 %)"),
            );
        } else {
            let (a, b) = (counted(&loops) as f64, counted(&runs) as f64);
            let errors = (a - b).abs() / (a + b).sqrt().max(1.0);
            if a + b >= 10.0 {
                found
                    .require(errors <= 3.0, format!("{name}: {a} and {b} times ({errors:.1} Poisson errors, limit 3)"));
            }
        }
    }
    let total = |side: fn(&(Causes, Causes)) -> &Causes| {
        let sums = pairs.iter().map(|pair| side(pair).values().map(|(_, us)| us).sum::<f64>());
        median(&sums.collect::<Vec<_>>())
    };
    let (us_loop, us_run) = (total(|pair| &pair.0), total(|pair| &pair.1));
    let off = (us_run / us_loop - 1.0) * 100.0;
    found.require(
        off.abs() <= 10.0,
        format!("in total: {us_loop:.1} us/s by the loop, {us_run:.1} by the run ({off:+.1} %, limit 10 %)"),
    );
    Ok(found)
}

fn by_loop(field: &Field<'_>) -> Result<Causes> {
    let report = field.noise(&["--cpus", &field.cpu.to_string(), "--for", &format!("{SECONDS}s")])?;
    let cpu = &report.cpus[0];
    let mut causes = Causes::new();
    for taken in &cpu.by_cause {
        let cause = report.causes.get(taken.cause as usize).context("a cause has no name")?;
        if !["outside", "unknown"].contains(&cause.class.as_str()) {
            add(&mut causes, &cause.name, taken.count, taken.inside_ns as f64 / 1e3 / cpu.seconds());
        }
    }
    Ok(causes)
}

fn by_events(field: &Field<'_>) -> Result<Causes> {
    let cpu = field.cpu.to_string();
    let options = ["none", "--victim", &cpu, "--seconds", &SECONDS.to_string()];
    let report = field.run(&field.inject, &options)?;
    let noise = report.noise.context("no noise in the report")?;
    let victim =
        noise.threads.iter().find(|thread| thread.comm == "victim").context("the victim is not in the report")?;
    let programs = report.account.programs.iter().flat_map(|program| &program.processes);
    let of_victim = programs.flat_map(|process| &process.threads).find(|thread| thread.tid == victim.tid);
    let seconds = of_victim.context("the victim is not in the account")?.wall_ns as f64 / 1e9;
    let mut causes = Causes::new();
    for taken in &victim.by_cause {
        let cause = noise.causes.get(taken.cause as usize).context("a cause has no name")?;
        add(&mut causes, &cause.name, taken.count, taken.inside_ns as f64 / 1e3 / seconds);
    }
    Ok(causes)
}

/// Adds a cause under a name that is the same in each measurement: without thread ids.
fn add(causes: &mut Causes, name: &str, count: u64, us_per_s: f64) {
    let plain: String = name.split('(').next().unwrap_or(name).trim_end().to_owned();
    let of = causes.entry(plain).or_default();
    of.0 += count;
    of.1 += us_per_s;
}
