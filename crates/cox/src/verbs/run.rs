//! `cox run`: one run, or as many as `--repeat` says.

use anyhow::Result;
use outputs::refuse_same;

use super::once::once;
use super::series;
use crate::cli;
use crate::faces::run::named;

/// Observe what `options` name, report, and return the exit code to end with.
pub fn run(options: &cli::Run) -> Result<u8> {
    refuse_same(named(&series::of_run(options, 1)))?;
    if options.repeat > 1 { series::run(options) } else { once(&series::of_run(options, 1)).map(|ran| ran.code) }
}
