//! A program under `cox quiet` and under taskset, in turns, on the CPU that cox chooses.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use machine::Root;
use quiet::{Facts, choose};
use report::quiet::QuietReport;

use crate::noise::field::Field;
use crate::noise::findings::Findings;
use crate::rounds::in_turns;
use crate::stats::median_estimate;
use crate::verdict::at_most;

/// The program's time may be longer by this share.
const LIMIT: f64 = 0.01;

/// A shell that counts: it computes, and makes no system call meanwhile.
const PROGRAM: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 3000000 ]; do i=$((i+1)); done"];

pub fn program(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    let facts = Facts::read(&Root::live()).context("cannot examine this machine")?;
    let cpu = choose(&facts, 1)?.cpus.to_string();
    let times =
        in_turns(2, runs.into(), |at| if at == 0 { under_quiet(field, &cpu) } else { under_taskset(field, &cpu) })?;
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

/// Returns the program's time, without that of cox before and after it, s.
fn under_quiet(field: &Field<'_>, cpu: &str) -> Result<f64> {
    let json = field.file("quiet.json");
    let mut command = Command::new(&field.cox);
    command.args(["quiet", "--quiet", "--cpus", cpu, "--json"]).arg(&json).arg("--").args(PROGRAM);
    field.done(&mut command)?;
    let report: QuietReport = serde_json::from_slice(&std::fs::read(&json)?)?;
    Ok(report.length_ns as f64 / 1e9)
}

fn under_taskset(field: &Field<'_>, cpu: &str) -> Result<f64> {
    let start_ns = arch::monotonic_ns();
    let mut command = Command::new("taskset");
    field.done(command.args(["-c", cpu]).args(PROGRAM).stdout(Stdio::null()))?;
    Ok((arch::monotonic_ns() - start_ns) as f64 / 1e9)
}
