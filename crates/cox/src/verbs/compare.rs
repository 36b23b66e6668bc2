//! `cox compare`: compares the reports of several runs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use outputs::diagnostics::say;
use outputs::{Output, refuse_same};
use report::comparison::{Comparison, Run};
use report::heat::Heat;
use report::noise::NoiseReport;
use report::{Document, html};

use crate::cli;
use crate::faces::print;
use crate::groups::{Group, groups};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs `cox compare` and returns the exit code.
pub fn compare(options: &cli::Compare) -> Result<u8> {
    let cli::Compare { json, html, svg, output, csv, csv_runs, .. } = options;
    let named = [
        ("--json", json),
        ("--output", output),
        ("--svg", svg),
        ("--html", html),
        ("--csv", csv),
        ("--csv-runs", csv_runs),
    ];
    refuse_same(named.map(|(option, path)| (option, path.clone())))?;
    let groups = groups(&options.groups, &|path| path.is_file())?;
    let read = |group: Group| {
        let runs = group.files.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
        Ok((group.name, runs))
    };
    let groups = groups.into_iter().map(read).collect::<Result<Vec<(String, Vec<Run>)>>>()?;
    let all = || groups.iter().flat_map(|(_, runs)| runs);
    if all().any(Run::is_of_noise) && !all().all(Run::is_of_noise) {
        bail!("cannot compare measurements of cox noise with reports of cox run");
    }
    match &options.table {
        Some(figure) => tabled(options, figure, &groups),
        None => compared(options, &groups),
    }
}

/// Compares the other groups with the first. Outputs are opened after the inputs were read, here and in [`tabled`], so that an unreadable input
/// leaves no empty output file.
fn compared(options: &cli::Compare, groups: &[(String, Vec<Run>)]) -> Result<u8> {
    let json = Output::wanted(options.json.as_deref())?;
    let html = Output::wanted(options.html.as_deref())?;
    let csv = Output::wanted(options.csv.as_deref())?;
    let csv_runs = Output::wanted(options.csv_runs.as_deref())?;
    let stdout_is_taken = [&json, &html, &csv, &csv_runs].iter().any(|output| matches!(output, Some(Output::Stdout)));
    let text = Output::wanted(options.output.as_deref())?.or((!stdout_is_taken).then_some(Output::Stdout));
    let comparison = Comparison::new(VERSION, groups);
    let text = print(text, false, |style| comparison.text(style));
    let json =
        json.map_or(Ok(()), |output| output.write(comparison.to_json().context("cannot make the JSON")?.as_bytes()));
    let html = html.map_or(Ok(()), |output| output.write(html::compared(&comparison).as_bytes()));
    let csv = csv.map_or(Ok(()), |output| output.write(comparison.csv().as_bytes()));
    let csv_runs = csv_runs.map_or(Ok(()), |output| output.write(comparison.csv_of_runs().as_bytes()));
    text.and(json).and(html).and(csv).and(csv_runs).map(|()| 0)
}

/// Makes a table of applications × settings. Figures of different applications cannot be compared, so each setting is compared with the first setting
/// of the same application.
fn tabled(options: &cli::Compare, figure: &str, groups: &[(String, Vec<Run>)]) -> Result<u8> {
    let heat = Heat::new(figure, groups).map_err(anyhow::Error::msg)?;
    let svg = Output::wanted(options.svg.as_deref())?;
    let html = Output::wanted(options.html.as_deref())?;
    // The drawing does not show warnings.
    heat.warnings.iter().for_each(|warning| say(warning));
    let svg = svg.map_or(Ok(()), |output| output.write(heat.svg().as_bytes()));
    let html = html.map_or(Ok(()), |output| {
        output.write(html::tabled(VERSION, &heat, &heat.comparisons(VERSION, groups)).as_bytes())
    });
    svg.and(html).map(|()| 0)
}

/// Reads the figures of a report.
fn read(path: &Path) -> Result<Run> {
    let cannot = || format!("cannot compare '{}'", path.display());
    let text = fs::read_to_string(path).with_context(cannot)?;
    // Of all documents of cox, only those of `cox noise` have a member of this name.
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text)
        && value.get("measurement").is_some()
    {
        return Ok(Run::of_noise(&NoiseReport::read(value).map_err(anyhow::Error::msg).with_context(cannot)?));
    }
    let document = Document::read(&text).with_context(cannot)?;
    Ok(Run::of(&document))
}
