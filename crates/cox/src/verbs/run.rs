//! `cox run`: one run, or several with `--repeat`.

use anyhow::Result;
use outputs::refuse_same;

use super::once::once;
use super::series;
use crate::cli;
use crate::faces::run::named;

/// Runs `cox run` and returns the exit code.
pub fn run(options: &cli::Run) -> Result<u8> {
    refuse_same(named(&series::of_run(options, 1)))?;
    if options.repeat > 1 { series::run(options) } else { once(&series::of_run(options, 1)).map(|ran| ran.code) }
}
