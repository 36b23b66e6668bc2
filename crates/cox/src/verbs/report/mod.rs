//! `cox report`: what was recorded earlier, by cox or by perf, as text, JSON, a page and traces.

mod kuhn;
#[cfg(test)]
mod mutations;
mod people;
mod perf;
mod timehist;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, Result, bail};
use outputs::diagnostics::say;
use outputs::{Output, refuse_same};
use report::Document;
use trace::{Recording, session};

use super::traces::{self, Traces};
use crate::cli;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// What is not in the file.
struct Around<'a> {
    /// Layouts of this machine's events, for a recording that lost its own.
    known: &'a dyn Fn() -> Vec<perfdata::Format>,
    /// Tells the user what a recording lacks.
    say: &'a dyn Fn(&str),
}

/// Report on a file.
pub fn report(options: &cli::Report) -> Result<u8> {
    let text = options.output.clone().filter(|_| !options.quiet);
    let named = [("--json", options.json.clone()), ("--output", text)];
    refuse_same(named.into_iter().chain(traces::named(&options.traces)))?;
    let file = open(&options.file).with_context(|| cannot(options))?;
    let around = Around { known: &known_formats, say: &say };
    report_on(options, BufReader::with_capacity(PIECE, file), &around)
}

fn cannot(options: &cli::Report) -> String {
    format!("cannot report on '{}'", options.file.display())
}

/// Report on what `file` has.
fn report_on(options: &cli::Report, mut file: impl BufRead + Seek + Send, around: &Around<'_>) -> Result<u8> {
    let cannot = || cannot(options);
    let json = Output::wanted(options.json.as_deref())?;
    let traces = Traces::open(&options.traces)?;
    let text = match &options.output {
        _ if options.quiet => None,
        Some(path) => Some(Output::open(Some(path))?),
        // What programs read is not mixed with what people do.
        None if matches!(json, Some(Output::Stdout)) || traces.take_stdout() => None,
        None => Some(Output::Stdout),
    };
    let is_ours = file.fill_buf().with_context(cannot)?.first() == Some(&session::FIRST_BYTE);
    if let Some(mode) = mode(options) {
        if is_ours {
            bail!("{}: {mode} is about what perf records, and this is a recording of cox", cannot());
        }
        let text = text.unwrap_or(Output::Stdout);
        return if mode == "--kuhn2022" {
            kuhn::write(file, options.rule, text, around).with_context(cannot)
        } else {
            timehist::write(file, options, text, around).with_context(cannot)
        }
        .map(|()| 0);
    }
    let (recording, document) = if is_ours {
        let (recording, document) = read(&mut file, &traces.folder()).with_context(cannot)?;
        (Some(recording), document)
    } else {
        let folder = traces.are_wanted().then(|| traces.folder());
        perf::read(file, &options.file, folder.as_deref(), around).with_context(cannot)?
    };
    if ledger::summary::is_empty(&document.account) {
        bail!("{}: no thread is in it", cannot());
    }
    let text = text.map_or(Ok(()), |output| {
        let page = report::text::text(&document, &super::style(Some(&output), options.threads));
        output.write(page.as_bytes())
    });
    let json = json.map_or(Ok(()), |output| output.write(document.to_json().context("making the JSON")?.as_bytes()));
    let traces = recording.map_or(Ok(()), |recording| traces.write(&recording, &document));
    text.and(json).and(traces).map(|()| 0)
}

/// The recording; `-` is stdin. What comes through a pipe is read as it comes.
fn open(path: &Path) -> io::Result<File> {
    if path == Path::new("-") { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) }
}

/// Whether perf's own figures are wanted instead of an account.
fn mode(options: &cli::Report) -> Option<&'static str> {
    match options {
        cli::Report { kuhn2022: true, .. } => Some("--kuhn2022"),
        cli::Report { timehist: true, .. } => Some("--timehist"),
        _ => None,
    }
}

/// A recording of cox's.
fn read(file: &mut impl BufRead, folder: &Path) -> Result<(Recording, Document)> {
    let (recording, report) = session::read(file, folder)?;
    Ok((recording, Document::read(&report)?))
}

/// Says what a recording of perf's lacks.
fn say_what_lacks(ending: &perfdata::Ending, around: &Around<'_>) {
    let say = around.say;
    let perfdata::Ending { cut, late, lost, switches, wakings, unclear, borrowed_formats, .. } = ending;
    if let Some(perfdata::Cut { at_bytes, why }) = cut {
        say(&format!("the recording is whole up to byte {at_bytes}, and this is about that part: {why}"));
    }
    if *borrowed_formats {
        say("the recording has no layouts of its events, being cut off; those of this machine's kernel were used");
    }
    if *lost > 0 {
        say(&format!("perf lost {lost} events while it recorded: times around them are wrong or unknown"));
    }
    if *unclear > 0 {
        say(&format!("{unclear} lines tell of switches and wake-ups in a form that cox does not know"));
    }
    if *switches == 0 {
        say("the recording has no switches (sched_switch): who ran when is unknown");
    }
    if *wakings == 0 {
        say("the recording has no wake-ups (sched_waking, sched_wakeup): how long they took is unknown");
    }
    if *late > 0 {
        say(&format!("{late} events of the recording came too late to be put in order"));
    }
}

/// Layouts of this machine's events, for a recording that lost its own.
fn known_formats() -> Vec<perfdata::Format> {
    let texts = machine::tracepoints::scheduler_formats(&machine::Root::live());
    texts.iter().filter_map(|text| perfdata::Format::parse(text)).collect()
}
