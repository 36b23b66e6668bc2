//! Judges `cox advise` with twelve kernels that have more threads than CPUs: its forecasts ([`forecasts`]), or the answers for which it tries the ways
//! ([`tried`]).

mod field;
mod forecasts;
mod kernels;
mod order;
mod tried;

use anyhow::Result;
use field::Bench;
pub use field::Options;
use kernels::KERNELS;

use crate::interrupt::Interrupt;

/// Measures all kernels and prints the results. Returns the exit code: 1 if a target was missed, 125 if a kernel could not be measured.
///
/// # Errors
/// When nothing can be measured, or the results cannot be written.
pub fn advise(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let bench = Bench::new(options, interrupt)?;
    let wanted = if options.kernels.is_empty() { KERNELS.iter().collect() } else { options.kernels.clone() };
    if options.tried { tried::judge(&bench, &wanted) } else { forecasts::judge(&bench, &wanted) }
}
