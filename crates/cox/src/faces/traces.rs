//! The traces and pages that the command line requests. They are opened before the session starts, and written when the recording is complete.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ledger::timeline::{Span, Timeline};
use noise::program::Taken;
use outputs::Output;
use report::{Document, html};
use trace::paraver::{self, Files};
use trace::{Recording, ReplayItem, perfetto, session};

use super::program_noise;
use crate::cli;

/// File name endings of a Paraver trace; views are additional files.
pub(super) const ENDINGS: [&str; 3] = ["prv", "pcf", "row"];

/// Returns the endings of all files for Paraver.
fn endings() -> impl Iterator<Item = &'static str> {
    ENDINGS.into_iter().chain(paraver::VIEWS)
}

/// Outputs for traces.
pub struct Traces {
    perfetto: Option<Output>,
    /// Outputs of a Paraver trace: `.prv`, `.pcf` and `.row`; then its views.
    paraver: Option<([Output; 3], Vec<Output>)>,
    html: Option<Output>,
}

/// Returns every option that writes a trace, with the file given for it (`None` if the option is not used).
pub fn named(wanted: &cli::Traces) -> Vec<(&'static str, Option<PathBuf>)> {
    let paraver =
        endings().map(|ending| ("--paraver", wanted.paraver.as_deref().map(|prefix| with_ending(prefix, ending))));
    let others = [("--trace", wanted.trace.clone()), ("--html", wanted.html.clone())];
    others.into_iter().chain(paraver).collect()
}

impl Traces {
    /// Opens the requested outputs.
    ///
    /// # Errors
    /// If an output cannot be opened for writing.
    pub fn open(wanted: &cli::Traces) -> Result<Traces> {
        let perfetto = Output::wanted(wanted.trace.as_deref())?;
        let paraver = match &wanted.paraver {
            Some(prefix) => {
                let open = |ending| Output::open(Some(&with_ending(prefix, ending)));
                let [prv, pcf, row] = ENDINGS.map(open);
                Some(([prv?, pcf?, row?], paraver::VIEWS.into_iter().map(open).collect::<Result<_>>()?))
            }
            None => None,
        };
        let html = Output::wanted(wanted.html.as_deref())?;
        Ok(Traces { perfetto, paraver, html })
    }

    /// Returns whether any trace is requested.
    pub fn are_wanted(&self) -> bool {
        self.perfetto.is_some() || self.paraver.is_some() || self.html.is_some()
    }

    /// Returns whether one of the traces goes to stdout.
    pub fn take_stdout(&self) -> bool {
        let mut all = self.perfetto.iter().chain(&self.html);
        all.any(|output| matches!(output, Output::Stdout))
    }

    /// Returns the folder for temporary data that does not fit into memory: the folder of the first trace.
    pub fn folder(&self) -> PathBuf {
        let mut all = self.perfetto.iter().chain(self.paraver.iter().flat_map(|(trace, _)| trace)).chain(&self.html);
        let first = all.find_map(Output::folder);
        first.map_or_else(std::env::temp_dir, Path::to_path_buf)
    }

    /// Writes the traces. `document` is the session's report, `taken` what interrupted the threads, if that was measured.
    ///
    /// # Errors
    /// If one cannot be written; the others are written nevertheless.
    pub fn write(self, recording: &Recording, document: &Document, taken: Option<&Taken>) -> Result<()> {
        let folder = self.folder();
        let measured = taken.zip(document.noise.as_ref()).filter(|(taken, _)| taken.blind.is_none());
        let interruptions = measured.map(|(taken, noise)| program_noise::interruptions(taken, noise));
        let perfetto = self.perfetto.map_or(Ok(()), |output| {
            let report = document.to_json().context("cannot make the JSON")?;
            output.write_with(|mut out| {
                perfetto::write(recording, interruptions.as_ref(), &mut out)?;
                session::write(recording, &report, &mut out)
            })
        });
        let paraver = self.paraver.map_or(Ok(()), |([prv, pcf, row], views)| {
            // The contents of `.pcf` and `.row` are known only after the trace has been written. Until then they are kept in memory.
            let (mut names, mut meanings) = (Vec::new(), Vec::new());
            prv.write_with(|out| {
                let mut files = Files { prv: out, pcf: &mut meanings as &mut dyn Write, row: &mut names };
                let provenance = document.account.provenance.as_ref();
                paraver::write(recording, interruptions.as_ref(), provenance, &mut files, &folder)
            })?;
            let views = views.into_iter().zip(paraver::views()).map(|(output, text)| output.write(text.as_bytes()));
            pcf.write(&meanings).and(row.write(&names)).and(views.collect())
        });
        let html = self.html.map_or(Ok(()), |output| {
            let timeline = timeline(recording, document).context("cannot read the trace")?;
            let over_time =
                measured.map(|(taken, _)| program_noise::over_time(taken, (recording.start_ns, recording.end_ns)));
            output.write(html::page(document, &timeline, over_time.as_ref()).as_bytes())
        });
        perfetto.and(paraver).and(html)
    }
}

/// Returns the events over time, for the diagrams of a page.
fn timeline(recording: &Recording, document: &Document) -> io::Result<Timeline> {
    let span = Span::new(recording.start_ns, recording.end_ns, html::COLUMNS);
    let mut timeline = Timeline::new(span, &html::shown(document));
    recording.tell(|told| -> io::Result<()> {
        match told {
            ReplayItem::TraceEvent(trace_event) => timeline.trace_event(trace_event),
            ReplayItem::Stretch(stretch) => timeline.stretch(stretch),
        }
        Ok(())
    })?;
    Ok(timeline.finish())
}

/// Returns the prefix, a dot and the ending, as in `PREFIX.prv`. A dot in the prefix is kept.
pub(super) fn with_ending(prefix: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(prefix);
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}
