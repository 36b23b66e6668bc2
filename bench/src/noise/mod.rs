//! Noise: whether the events of `cox noise` are complete and true, what it costs to ask for them, and how its loop compares with oslat's.
//!
//! - [`audit`]: events against the kernel's counters, idle and under load
//! - [`truth`]: events against injected noise
//! - [`agreement`]: `cox run --noise` on a computing thread against `cox noise` on the same CPU
//! - [`observer`]: what is stolen with the events and without
//! - [`oslat`]: rates of detours, ours and oslat's
//! - [`steps`]: the slowdown of two threads that meet at barriers, forecast from quanta and measured
//! - [`solver`]: a conjugate-gradient solver, measured here and forecast for the source's 236 nodes
//! - [`slides`]: the figures of the source (Akkan et al.): interrupts, ticks by what they did, quanta pinned and not pinned

mod agreement;
mod audit;
pub mod field;
pub mod findings;
mod observer;
mod oslat;
mod slides;
mod solver;
mod steps;
mod truth;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::json;
use crate::verdict::Outcome;
use field::Field;
use findings::Findings;

/// Options of `cox-bench noise`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// What to measure (default: everything)
    #[arg(value_enum, value_name = "PART")]
    parts: Vec<Part>,
    /// Rounds of the parts that compare in turns
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    #[command(flatten)]
    common: Common,
}

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Events against the kernel's counters
    Audit,
    /// Events against injected noise
    Truth,
    /// `cox run --noise` against `cox noise`
    Agreement,
    /// What the events cost
    Observer,
    /// The loop against oslat's
    Oslat,
    /// The slowdown of two threads with barriers, forecast and measured
    Steps,
    /// A solver with two sums in each step, measured and forecast
    Solver,
    /// The source's figures
    Slides,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: json::Header,
    parts: Vec<(String, Findings)>,
}

/// Measures all parts, and prints them. Returns the exit code: 1 if a criterion is not met.
///
/// # Errors
/// When a program is missing or fails, or the results cannot be written.
pub fn noise(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let field = Field::new(options.common.tools()?, interrupt)?;
    let mut report = Report { header: json::Header::new("noise")?, parts: Vec::new() };
    let all = Part::value_variants();
    let parts = if options.parts.is_empty() { all } else { &options.parts };
    for part in parts {
        let findings = match part {
            Part::Audit => audit::audit(&field),
            Part::Truth => truth::truth(&field),
            Part::Agreement => agreement::agreement(&field),
            Part::Observer => observer::observer(&field, options.runs.max(observer::LEAST)),
            Part::Oslat => oslat::oslat(&field, options.runs.max(oslat::LEAST)),
            Part::Steps => steps::steps(&field, options.runs),
            Part::Solver => solver::solver(&field),
            Part::Slides => slides::slides(&field),
        }?;
        let name = part.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        findings.print(&name, &options.common)?;
        report.parts.push((name, findings));
    }
    options.common.write(&report)?;
    let has_failed = report.parts.iter().flat_map(|(_, part)| &part.verdicts).any(|v| v.outcome == Outcome::Fail);
    Ok(u8::from(has_failed))
}
