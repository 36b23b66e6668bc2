//! A program under `cox quiet` and under taskset, in turns, on the CPU that cox chooses.

use std::process::Command;

use anyhow::{Context, Result};
use quiet::Level;

use super::place::{Place, Under};
use crate::noise::field::Field;
use crate::noise::findings::Findings;
use crate::rounds::in_turns;
use crate::stats::median_estimate;
use crate::verdict::at_most;

/// The program's time may be longer by this share.
const LIMIT: f64 = 0.01;

/// The program: one thread that does a fixed number of loop iterations, and measures itself. So neither cox nor
/// taskset, nor the start of the program, is in its time.
const PROGRAM: &str = "barriers";
const OPTIONS: [&str; 8] = ["--threads", "1", "--rounds", "2000", "--work-us", "1000", "--iterations-per-us", "500"];

pub fn program(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    let place = Place::chosen()?;
    let under = [Under::Quiet(Level::Full), Under::Taskset];
    let times = in_turns(2, runs.into(), |at| time(field, &mut under[at].command(field, &place)))?;
    let ratios: Vec<f64> = times[0].iter().zip(&times[1]).map(|(quiet, taskset)| quiet / taskset - 1.0).collect();
    let more = median_estimate(&ratios);
    let ends =
        more.interval.map_or_else(String::new, |(low, high)| format!(" ({:+.2} to {:+.2})", 100.0 * low, 100.0 * high));
    found.judge(
        at_most(&more, LIMIT),
        format!("under cox quiet {:+.2} %{ends} of the time under taskset (limit +1 %)", 100.0 * more.median),
    );
    Ok(found)
}

/// Runs the program by a command that takes it at its end. Returns the time that the program has measured, s.
fn time(field: &Field<'_>, by: &mut Command) -> Result<f64> {
    by.arg(field.workload(PROGRAM)).args(OPTIONS).arg("--truth").arg(field.file("truth"));
    field.done(by)?;
    let elapsed_ns = field.truth()?["elapsed_ns"].as_f64().context("the program has not measured its time")?;
    Ok(elapsed_ns / 1e9)
}
