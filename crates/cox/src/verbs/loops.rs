//! `cox loops`: what the loops of a program do, with the schedules that it asks for.

use anyhow::{Result, anyhow};
use ledger::Provenance;
use outputs::diagnostics::{chain, say};
use report::loops::{LoopsDocument, SCHEMA_VERSION};
use schedules::Scheduling;
use schedules::engine::Asked;
use session::{Engines, Limits, provenance};

use crate::faces::print;
use crate::{cli, exit, targets};

/// Runs the program, reports, and returns the exit code.
pub fn loops(options: &cli::Loops) -> Result<u8> {
    let (text, json) = options.report.open([])?;
    let target = targets::of(&options.program, &[]);
    let provenance = provenance::here("cox", None);
    let asked = Asked::parse("as_written", None).map_err(|why| anyhow!(why))?;
    let engine = Scheduling::new(asked, !options.no_children, None).with_delays();
    let mut outcome = session::run(&target, Engines::new().with(engine), Limits::default())?;
    // The program has run. From here on, failures are reported, but do not change its exit code.
    let failures = outcome.findings.failures();
    failures.iter().for_each(|(_, error)| say(&chain(error)));
    let code = exit::after(&outcome.ended, !failures.is_empty(), &outcome.findings.unrestored());
    let Some(loops) = outcome.findings.section::<Scheduling>() else { return Ok(code) };
    let document = LoopsDocument {
        schema_version: SCHEMA_VERSION,
        cox_version: env!("CARGO_PKG_VERSION").to_owned(),
        provenance: Provenance { command: target.words(), ..provenance },
        length_ns: outcome.ended.end_ns.saturating_sub(outcome.ended.start_ns),
        loops,
    };
    let written = [
        print(text, false, |style| document.text(style)),
        json.map_or(Ok(()), |output| output.write(&serde_json::to_vec_pretty(&document)?)),
    ];
    written.into_iter().filter_map(Result::err).for_each(|error| say(&chain(&error)));
    Ok(code)
}
