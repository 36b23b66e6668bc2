//! Output of `cox run`: its report, JSON and traces.

use std::mem;
use std::path::PathBuf;

use anyhow::{Context, Result};
use noise::program::Taken;
use noise::{OfPhases, OfProgram};
use observe::{Observed, Observing, Recorder};
use outputs::Output;
use overlap::Overlapping;
use quiet::Quieting;
use report::Document;
use report::comparison::Run;
use report::pack::PackReport;
use report::style::Style;
use schedules::Scheduling;
use session::Findings;
use trace::Recording;

use super::document::{Session, document};
use super::print;
use super::traces::{self, Traces};
use crate::cli;

/// Destinations of the reports.
pub struct Outputs {
    text: Option<Output>,
    json: Option<Output>,
    traces: Traces,
}

/// Returns every option that names an output file, with the file given for it (`None` if the option is not used).
pub fn named(options: &cli::Run) -> Vec<(&'static str, Option<PathBuf>)> {
    let text = options.output.clone().filter(|_| !options.quiet);
    [("--json", options.json.clone()), ("--output", text)].into_iter().chain(traces::named(&options.traces)).collect()
}

impl Outputs {
    /// Opens the requested outputs.
    ///
    /// # Errors
    /// If an output cannot be opened for writing.
    pub fn open(options: &cli::Run) -> Result<Outputs> {
        let json = Output::wanted(options.json.as_deref())?;
        let text = if options.quiet { None } else { Some(Output::open(options.output.as_deref())?) };
        Ok(Outputs { text, json, traces: Traces::open(&options.traces)? })
    }

    /// Returns a recorder of scheduling events if one is needed: for traces, and for the figures of co-run programs.
    ///
    /// # Errors
    /// If the temporary file cannot be created.
    pub fn recorder(&self, options: &cli::Run) -> Result<Option<Recorder>> {
        let records = self.traces.are_wanted() || !options.co_run.is_empty();
        records.then(|| Recorder::new(&self.traces.folder(), options.room.trace_buffer)).transpose()
    }

    /// Writes the results of the session. `packed` is the report of the packer, if the program was packed. Returns the figures of the run.
    ///
    /// # Errors
    /// If there is no report, or an output could not be written.
    pub fn write(self, session: Session<'_>, findings: &mut Findings, packed: Option<PackReport>) -> Result<Run> {
        let (all_threads, is_last) = (session.options.threads, session.options.repeat == 1);
        if let Some(error) = findings.failure::<Observing>() {
            self.alone(packed)?;
            return Err(error.context("no report: observing failed"));
        }
        let mut observed = findings.section::<Observing>().context("nothing was observed")?;
        let counted = findings.section::<Overlapping>();
        let taken = findings.section::<OfProgram>();
        let phases = findings.section::<OfPhases>();
        let quiet = findings.section::<Quieting>();
        let parts = (taken.as_ref(), phases.as_ref());
        let (mut document, recorded) = document(session, &mut observed, packed, counted.as_ref(), parts)?;
        document.quiet = quiet;
        document.loops = findings.section::<Scheduling>();
        let written = self.write_document(&document, recorded, &observed, taken.as_ref(), all_threads);
        let figures = Run::of(&document);
        // The process usually ends now; freeing the accounts of 50,000 threads one by one would only take time.
        if is_last {
            mem::forget((observed, document));
        }
        written.map(|()| figures)
    }

    /// Writes all outputs; a failure of one does not stop the others.
    fn write_document(
        self,
        document: &Document,
        recorded: Option<Result<Recording>>,
        observed: &Observed,
        taken: Option<&Taken>,
        all_threads: bool,
    ) -> Result<()> {
        let text =
            print(self.text, all_threads, |style| report::text::text(document, style) + &afterwards(observed, style));
        let json = self
            .json
            .map_or(Ok(()), |output| output.write(document.to_json().context("cannot make the JSON")?.as_bytes()));
        let traces = recorded.map_or(Ok(()), |recording| self.traces.write(&recording?, document, taken));
        text.and(json).and(traces)
    }

    /// Writes only the section on packing, if there is no other report.
    fn alone(self, packed: Option<PackReport>) -> Result<()> {
        packed.map_or(Ok(()), |packed| print(self.text, false, |style| packed.text(style)))
    }
}

/// Returns remarks that follow the account: why a better backend was not used.
fn afterwards(observed: &Observed, style: &Style) -> String {
    // `passed_over` contains the reason why eBPF was not used, and then, if perf was not used either, the reason for perf.
    let backends = ["eBPF", "perf"].iter().zip(&observed.passed_over);
    let lines =
        backends.flat_map(|(backend, reason)| style.wrapped(&format!("{backend} not used: {reason}"), "  ", "    "));
    lines.map(|line| line + "\n").collect()
}
