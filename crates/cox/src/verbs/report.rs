//! `cox report`: what was recorded earlier, as text, JSON, a page and traces.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use report::Document;
use trace::{Recording, session};

use super::traces::Traces;
use crate::cli;
use crate::outputs::Output;

/// Report on a file.
pub fn report(options: &cli::Report) -> Result<u8> {
    let json = options.json.as_deref().map(|path| Output::open(Some(path))).transpose()?;
    let text = match &options.output {
        _ if options.quiet => None,
        Some(path) => Some(Output::open(Some(path))?),
        None => Some(Output::Stdout),
    };
    let traces = Traces::open(&options.traces)?;
    let (recording, document) = read(&options.file, &traces.folder())?;
    let text = text.map_or(Ok(()), |output| {
        let page = report::text::text(&document, &super::style(Some(&output), options.threads));
        output.write(page.as_bytes())
    });
    let json = json.map_or(Ok(()), |output| output.write(document.to_json().context("making the JSON")?.as_bytes()));
    let traces = traces.write(&recording, &document);
    text.and(json).and(traces).map(|()| 0)
}

fn read(path: &Path, folder: &Path) -> Result<(Recording, Document)> {
    let cannot = || format!("cannot report on '{}'", path.display());
    let file = File::open(path).with_context(cannot)?;
    let (recording, report) = session::read(&mut BufReader::new(file), folder).with_context(cannot)?;
    let document = serde_json::from_str(&report).with_context(cannot)?;
    Ok((recording, document))
}
