//! Output that is generated from the definitions of the command line and of the reports.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use outputs::to_stdout;
use schemars::schema_for;

use crate::cli::{Cli, SchemaOf};
use crate::manual;

/// Prints the JSON schema of a command's output.
pub fn schema(of: SchemaOf) -> Result<u8> {
    let schema = match of {
        SchemaOf::Run => schema_for!(report::Document),
        SchemaOf::QuietMeasure => schema_for!(report::quiet::LevelsReport),
        SchemaOf::Loops => schema_for!(report::loops::LoopsDocument),
        SchemaOf::Quiet => schema_for!(report::quiet::QuietReport),
        SchemaOf::Pack => schema_for!(report::pack::PackReport),
        SchemaOf::Advise => schema_for!(report::advice::Advice),
        SchemaOf::Compare => schema_for!(report::comparison::Comparison),
        SchemaOf::NoiseForecast => schema_for!(report::noise::ForecastReport),
        SchemaOf::Noise => schema_for!(report::noise::NoiseReport),
        SchemaOf::Ulp => schema_for!(report::ulp::UlpReport),
        SchemaOf::PackSimulate => schema_for!(report::simulation::Simulation),
    };
    let text = serde_json::to_string_pretty(&schema).context("cannot print the schema")?;
    to_stdout(|out| writeln!(out, "{text}"))?;
    Ok(0)
}

/// Prints completions for a shell.
pub fn completions(shell: clap_complete::Shell) -> Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cox", &mut text);
    to_stdout(|out| out.write_all(&text))?;
    Ok(0)
}

/// Writes `cox.1` and one page per command into `folder`.
pub fn man(folder: &Path) -> Result<u8> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create '{}'", folder.display()))?;
    manual::write(Cli::command(), folder)
        .with_context(|| format!("cannot write man pages to '{}'", folder.display()))?;
    Ok(0)
}
