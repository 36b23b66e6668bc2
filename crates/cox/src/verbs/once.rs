//! One run of `cox run`: observes a program and reports. If requested, also packs it, or runs its tasks in
//! cox's runtime (`--overlap`).

use anyhow::{Error, Result};
use outputs::diagnostics::{chain, say};
use outputs::has_no_reader;
use pack::engine::Packing;
use report::comparison;
use session::{Limits, provenance};

use crate::faces::document::Session;
use crate::faces::run::Outputs;
use crate::run_context::RunContext;
use crate::{cli, engines, exit, targets};

/// How a run ended, for the next run of a series.
pub struct Ran {
    /// The exit code to end with.
    pub code: u8,
    /// True if a signal to cox ended the session.
    pub interrupted: bool,
    /// Figures of the run, if there is a report.
    pub figures: Option<comparison::Run>,
}

/// Observes the target once and reports; `--repeat` has no effect here.
pub fn once(options: &cli::Run) -> Result<Ran> {
    let target = targets::of_run(options)?;
    let schedules = engines::schedules(options)?;
    // Outputs are opened first, so that a bad path is refused before the program starts.
    let outputs = Outputs::open(options)?;
    let recorder = outputs.recorder(options)?;
    let _together = engines::expected(options, recorder.as_ref());
    let engines = engines::of_run(options, recorder, schedules);
    let run_context = RunContext::read(target.attached_to());
    let provenance = provenance::here("cox", target.attached_to());
    let limits = Limits { length: options.length, wait_all: options.wait_all, ..Limits::default() };
    let outcome = session::run(&target, engines, limits)?;

    // The program has run. From here on, failures are reported, but do not change its exit code.
    let (ended, mut findings) = (outcome.ended, outcome.findings);
    let packed = findings.section::<Packing>().map(|packed| packed.report);
    let session = Session { options, target: &target, ended: &ended, run_context: &run_context, provenance };
    let (figures, unwritten) = match outputs.write(session, &mut findings, packed) {
        Ok(figures) => (Some(figures), None),
        Err(error) => (None, Some(error)),
    };
    let failed: Vec<Error> = findings.failures().into_iter().map(|(_, error)| error).chain(unwritten).collect();
    for error in failed.iter().filter(|error| !has_no_reader(error)) {
        say(&chain(error));
    }
    let code = exit::after(&ended, !failed.is_empty(), &findings.unrestored());
    Ok(Ran { code, interrupted: ended.interrupted, figures })
}
