//! Quiet CPUs: what each level wins, that a program is no slower, that everything comes back, and how fast.
//!
//! - [`levels`]: `cox quiet measure` on each CPU that can become quiet, beside a load everywhere and idle (the source's
//!   slides 15 to 18 and 21)
//! - [`interrupts`]: the interrupts of a CPU, with taskset and under `cox quiet`
//! - [`variability`]: a solver's steps at each level (slides 22 to 24)
//! - [`price`]: what quiet CPUs cost (slide 27)
//! - [`peers`]: taskset, tuna, cset and tuned beside cox
//! - [`program`]: a program under `cox quiet` and under taskset
//! - [`undo`]: the time until everything is back, after a normal end and after SIGKILL
//! - [`storm`]: 200 sessions beside forks, I/O and work items; then each thread has the CPUs that it had

mod interrupts;
mod levels;
mod peers;
mod place;
mod price;
mod program;
mod storm;
mod undo;
mod variability;

use anyhow::Result;
use clap::ValueEnum;

use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::noise::field::Field;
use crate::noise::findings::measure;

/// Options of `cox-bench quiet`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// What to measure (default: everything but peers)
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
    /// Interrupts of a CPU with taskset and under `cox quiet`
    Interrupts,
    /// Steps of a solver at each level
    Variability,
    /// The network of a program on a quiet CPU, and jobs on the others
    Price,
    /// What is stolen with taskset, tuna, cset, tuned and `cox quiet`, and what each leaves changed
    Peers,
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
    // The other tools keep no journal: only who asks for them gets them.
    let all: Vec<Part> = Part::value_variants().iter().copied().filter(|part| *part != Part::Peers).collect();
    let parts = if options.parts.is_empty() { &all } else { &options.parts };
    measure("quiet", parts, &options.common, |part| match part {
        Part::Load => levels::under_load(&field, options.runs),
        Part::Idle => levels::idle(&field, options.runs),
        Part::Interrupts => interrupts::interrupts(&field, options.runs),
        Part::Variability => variability::variability(&field, options.runs),
        Part::Price => price::price(&field, options.runs),
        Part::Peers => peers::peers(&field, options.runs),
        Part::Program => program::program(&field, options.runs),
        Part::Undo => undo::undo(&field, options.runs),
        Part::Storm => storm::storm(&field, options.sessions),
    })
}
