//! Quiet CPUs: what each level wins, that a program is no slower, that everything comes back, and how fast.
//!
//! - [`levels`]: `cox quiet measure` on each CPU that can become quiet, beside a load everywhere and idle (the source's
//!   slides 15 to 18 and 21)
//! - [`program`]: a program under `cox quiet` and under taskset
//! - [`undo`]: the time until everything is back, after a normal end and after SIGKILL
//! - [`storm`]: 200 sessions beside forks, I/O and work items; then each thread has the CPUs that it had

mod levels;
mod program;
mod storm;
mod undo;

use anyhow::Result;
use clap::ValueEnum;

use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::noise::field::Field;
use crate::noise::findings::measure;

/// Options of `cox-bench quiet`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// What to measure (default: everything)
    #[arg(value_enum, value_name = "PART")]
    parts: Vec<Part>,
    /// Rounds of the parts that compare in turns
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Sessions of the storm
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    sessions: u16,
    #[command(flatten)]
    common: Common,
}

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What each level wins, beside a load everywhere
    Load,
    /// What each level wins on an idle machine
    Idle,
    /// A program under `cox quiet` and under taskset
    Program,
    /// The time until everything is back
    Undo,
    /// Many sessions beside forks, I/O and work items
    Storm,
}

/// Measures all parts, and prints them. Returns the exit code: 1 if a criterion is not met.
///
/// # Errors
/// When a program is missing or fails, or the results cannot be written.
pub fn quiet(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let field = Field::new(options.common.tools()?, interrupt)?;
    measure("quiet", &options.parts, &options.common, |part| match part {
        Part::Load => levels::under_load(&field, options.runs),
        Part::Idle => levels::idle(&field, options.runs),
        Part::Program => program::program(&field, options.runs),
        Part::Undo => undo::undo(&field, options.runs),
        Part::Storm => storm::storm(&field, options.sessions),
    })
}
