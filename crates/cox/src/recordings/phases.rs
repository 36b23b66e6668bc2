//! The phases of a program, from the JSON of `cox run --noise`, as the works of a forecast.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use report::noise::Phases;
use serde::Deserialize;

/// The parts of the document that are read.
#[derive(Deserialize)]
struct Document {
    noise: Option<Noise>,
}

#[derive(Deserialize)]
struct Noise {
    phases: Option<Phases>,
}

/// Reads the phases.
///
/// # Errors
/// If the file cannot be read, is not such a document, or has no phases; then with the reason that it states.
pub fn read(file: &Path) -> Result<Phases> {
    let shown = file.display();
    let bytes = fs::read(file).with_context(|| format!("cannot read '{shown}'"))?;
    let document: Document =
        serde_json::from_slice(&bytes).with_context(|| format!("'{shown}' is not a report of cox run --noise"))?;
    let phases = document.noise.and_then(|noise| noise.phases);
    let phases = phases.ok_or_else(|| anyhow!("'{shown}' has no phases: record with cox run --noise --json"))?;
    if let Some(why) = &phases.unknown {
        bail!("'{shown}' has no phases: {why}");
    }
    Ok(phases)
}
