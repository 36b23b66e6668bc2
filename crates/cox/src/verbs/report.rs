//! `cox report`: reports on a recording of cox or of perf as text, JSON, page and traces.

use std::io::{BufRead, BufReader, Seek};

use anyhow::{Context, Result, bail};
use outputs::diagnostics::say;
use outputs::{Output, refuse_same};
use trace::session::FIRST_BYTE;

use crate::cli;
use crate::faces::print;
use crate::faces::traces::{self, Traces};
use crate::recordings::{self, Around, PIECE, kuhn, perf, timehist};

/// Runs `cox report` and returns the exit code.
pub fn report(options: &cli::Report) -> Result<u8> {
    let text = options.output.clone().filter(|_| !options.quiet);
    let named = [("--json", options.json.clone()), ("--output", text)];
    refuse_same(named.into_iter().chain(traces::named(&options.traces)))?;
    let file = recordings::open(&options.file).with_context(|| cannot(options))?;
    let around = Around { known: &recordings::known_formats, say: &say };
    report_on(options, BufReader::with_capacity(PIECE, file), &around)
}

fn cannot(options: &cli::Report) -> String {
    format!("cannot report on '{}'", options.file.display())
}

/// Reports on the recording in `file`.
pub(crate) fn report_on(
    options: &cli::Report,
    mut file: impl BufRead + Seek + Send,
    around: &Around<'_>,
) -> Result<u8> {
    let cannot = || cannot(options);
    let json = Output::wanted(options.json.as_deref())?;
    let traces = Traces::open(&options.traces)?;
    let text = match &options.output {
        _ if options.quiet => None,
        Some(path) => Some(Output::open(Some(path))?),
        // If JSON or a trace goes to stdout, the text report is not written there.
        None if matches!(json, Some(Output::Stdout)) || traces.take_stdout() => None,
        None => Some(Output::Stdout),
    };
    let is_ours = file.fill_buf().with_context(cannot)?.first() == Some(&FIRST_BYTE);
    if let Some(mode) = mode(options) {
        if is_ours {
            bail!("{}: {mode} needs a recording of perf, and this is a trace of cox", cannot());
        }
        let text = text.unwrap_or(Output::Stdout);
        return if mode == "--kuhn2022" {
            kuhn::write(file, options, text, around).with_context(cannot)
        } else {
            timehist::write(file, options, text, around).with_context(cannot)
        }
        .map(|()| 0);
    }
    let (recording, document) = if is_ours {
        let (recording, document) = recordings::read(&mut file, &traces.folder()).with_context(cannot)?;
        if options.latency && !document.account.sees().latencies_of_threads {
            (around.say)("the trace has no latency quantiles of threads: it was made without cox run --latency");
        }
        (Some(recording), document)
    } else {
        let folder = traces.are_wanted().then(|| traces.folder());
        perf::read(file, &options.file, folder.as_deref(), options.latency, around).with_context(cannot)?
    };
    if ledger::summary::is_empty(&document.account) {
        bail!("{}: it contains no thread", cannot());
    }
    let text = print(text, options.threads, |style| report::text::text(&document, style));
    let json =
        json.map_or(Ok(()), |output| output.write(document.to_json().context("cannot make the JSON")?.as_bytes()));
    let traces = recording.map_or(Ok(()), |recording| traces.write(&recording, &document, None));
    text.and(json).and(traces).map(|()| 0)
}

/// Returns the option that makes the report show perf's figures instead of cox's account, if such an option
/// is given.
pub(crate) fn mode(options: &cli::Report) -> Option<&'static str> {
    match options {
        cli::Report { kuhn2022: true, .. } => Some("--kuhn2022"),
        cli::Report { timehist: true, .. } => Some("--timehist"),
        _ => None,
    }
}
