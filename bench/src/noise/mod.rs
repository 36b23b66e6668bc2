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
pub mod solver;
mod steps;
mod truth;

use anyhow::Result;
use clap::ValueEnum;

use crate::common::Common;
use crate::interrupt::Interrupt;
use field::Field;
use findings::measure;

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

/// Measures all parts, and prints them. Returns the exit code: 1 if a criterion is not met.
///
/// # Errors
/// When a program is missing or fails, or the results cannot be written.
pub fn noise(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let field = Field::new(options.common.tools()?, interrupt)?;
    measure("noise", &options.parts, &options.common, |part| match part {
        Part::Audit => audit::audit(&field),
        Part::Truth => truth::truth(&field),
        Part::Agreement => agreement::agreement(&field),
        Part::Observer => observer::observer(&field, options.runs.max(observer::LEAST)),
        Part::Oslat => oslat::oslat(&field, options.runs.max(oslat::LEAST)),
        Part::Steps => steps::steps(&field, options.runs),
        Part::Solver => solver::solver(&field),
        Part::Slides => slides::slides(&field),
    })
}
