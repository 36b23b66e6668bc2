//! `cox compare`: reports of several runs, side by side.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use outputs::diagnostics::say;
use outputs::{Output, numbered, refuse_same};
use report::comparison::{Comparison, Run};
use report::heat::Heat;
use report::{Document, html};

use crate::cli;
use crate::faces::style;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// More runs a group than this make no answer clearer, and chances long to count.
const MOST_RUNS: usize = 100;

/// A group on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    name: String,
    files: Vec<PathBuf>,
}

/// Compare what `options` name.
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
    match &options.table {
        Some(figure) => tabled(options, figure, &groups),
        None => compared(options, &groups),
    }
}

/// Groups beside the first. Outputs are opened behind the inputs, here and in [`tabled`]: nothing takes long, and what cannot
/// be read leaves no empty file.
fn compared(options: &cli::Compare, groups: &[(String, Vec<Run>)]) -> Result<u8> {
    let json = Output::wanted(options.json.as_deref())?;
    let html = Output::wanted(options.html.as_deref())?;
    let csv = Output::wanted(options.csv.as_deref())?;
    let csv_runs = Output::wanted(options.csv_runs.as_deref())?;
    let stdout_is_taken = [&json, &html, &csv, &csv_runs].iter().any(|output| matches!(output, Some(Output::Stdout)));
    let text = Output::wanted(options.output.as_deref())?.or((!stdout_is_taken).then_some(Output::Stdout));
    let comparison = Comparison::new(VERSION, groups);
    let text = text.map_or(Ok(()), |output| {
        let page = comparison.text(&style(Some(&output), false));
        output.write(page.as_bytes())
    });
    let json = json.map_or(Ok(()), |output| output.write(comparison.to_json().context("making the JSON")?.as_bytes()));
    let html = html.map_or(Ok(()), |output| output.write(html::compared(&comparison).as_bytes()));
    let csv = csv.map_or(Ok(()), |output| output.write(comparison.csv().as_bytes()));
    let csv_runs = csv_runs.map_or(Ok(()), |output| output.write(comparison.csv_of_runs().as_bytes()));
    text.and(json).and(html).and(csv).and(csv_runs).map(|()| 0)
}

/// Applications × settings. A table has many cells and no first one to compare all others with, so each application is compared
/// by itself.
fn tabled(options: &cli::Compare, figure: &str, groups: &[(String, Vec<Run>)]) -> Result<u8> {
    let heat = Heat::new(figure, groups).map_err(anyhow::Error::msg)?;
    let svg = Output::wanted(options.svg.as_deref())?;
    let html = Output::wanted(options.html.as_deref())?;
    // A drawing has no place for them.
    heat.warnings.iter().for_each(|warning| say(warning));
    let svg = svg.map_or(Ok(()), |output| output.write(heat.svg().as_bytes()));
    let html = html.map_or(Ok(()), |output| {
        output.write(html::tabled(VERSION, &heat, &heat.comparisons(VERSION, groups)).as_bytes())
    });
    svg.and(html).map(|()| 0)
}

/// What the words mean. `is_file` is asked for files whose names have an equals sign, a comma or `%n` in them.
fn groups(words: &[String], is_file: &dyn Fn(&Path) -> bool) -> Result<Vec<Group>> {
    let mut groups = Vec::with_capacity(words.len());
    for word in words {
        let whole = is_file(Path::new(word));
        let (name, list) = word.split_once('=').filter(|_| !whole).map_or((None, word.as_str()), |(n, l)| (Some(n), l));
        let parts: Vec<&str> = if whole { vec![list] } else { list.split(',').collect() };
        if parts.iter().any(|part| part.is_empty()) || name.is_some_and(str::is_empty) {
            bail!("'{word}': a group is [NAME=]FILE[,FILE]...");
        }
        let mut files = Vec::new();
        for part in &parts {
            files.extend(series(Path::new(part), is_file)?);
        }
        if files.len() > MOST_RUNS {
            bail!("'{word}' has {} runs; at most {MOST_RUNS} a group can be compared", files.len());
        }
        groups.push(Group { name: name.map_or_else(|| short(parts[0]), str::to_owned), files });
    }
    let distinct: BTreeSet<&String> = groups.iter().map(|group| &group.name).collect();
    if distinct.len() < groups.len() {
        let named = words.iter().any(|word| word.contains('=') && !is_file(Path::new(word)));
        if named {
            bail!("two groups have the same name; name them apart: NAME=FILE,...");
        }
        groups.iter_mut().zip(words).for_each(|(group, word)| group.name.clone_from(word));
    }
    Ok(groups)
}

/// The files of a name: with `%n`, runs 1, 2, … as far as there are any.
fn series(name: &Path, is_file: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    if is_file(name) || numbered(name, 1) == name {
        return Ok(vec![name.to_owned()]);
    }
    let runs: Vec<PathBuf> = (1..).map(|run| numbered(name, run)).take_while(|path| is_file(path)).collect();
    if runs.is_empty() {
        bail!("there are no runs '{}': '{}' is not there", name.display(), numbered(name, 1).display());
    }
    Ok(runs)
}

/// What a file's name says: `before` of `runs/before.%n.json`.
fn short(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.strip_suffix(".json").unwrap_or(name);
    name.strip_suffix("%n").map_or(name, |name| name.trim_end_matches(['.', '-', '_'])).to_owned()
}

/// The figures of a report.
fn read(path: &Path) -> Result<Run> {
    let cannot = || format!("cannot compare '{}'", path.display());
    let text = fs::read_to_string(path).with_context(cannot)?;
    let document = Document::read(&text).with_context(cannot)?;
    Ok(Run::of(&document))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str], files: &[&str]) -> Result<Vec<(String, Vec<String>)>> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let groups = groups(&words, &|path| files.iter().any(|file| Path::new(file) == path))?;
        let text = |path: PathBuf| path.display().to_string();
        Ok(groups.into_iter().map(|group| (group.name, group.files.into_iter().map(text).collect())).collect())
    }

    fn group(name: &str, files: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), files.iter().map(|file| (*file).to_owned()).collect())
    }

    #[test]
    fn groups_are_lists_series_and_names() {
        let files = ["r/b.1.json", "r/b.2.json", "r/b.4.json", "x=1,2.json"];
        let parsed = parse(&["a.json,c.json", "new=d.json", "r/b.%n.json", "x=1,2.json"], &files).unwrap();
        let expected = [
            group("a", &["a.json", "c.json"]),
            group("new", &["d.json"]),
            group("b", &["r/b.1.json", "r/b.2.json"]),
            group("x=1,2", &["x=1,2.json"]),
        ];
        assert_eq!(parsed, expected);
        let same = parse(&["one/a.json", "two/a.json"], &[]).unwrap();
        assert_eq!(same, [group("one/a.json", &["one/a.json"]), group("two/a.json", &["two/a.json"])]);
    }

    #[test]
    fn what_is_no_group() {
        let refused = [
            ("", "a group is"),
            ("a=", "a group is"),
            ("=a", "a group is"),
            ("a,,b", "a group is"),
            ("x.%n.json", "x.1.json"),
        ];
        for (word, clue) in refused {
            let error = parse(&[word], &[]).unwrap_err().to_string();
            assert!(error.contains(clue), "{word}: {error}");
        }
        assert!(parse(&["n=a.json", "n=b.json"], &[]).unwrap_err().to_string().contains("same name"));
        let many = vec!["a.json"; 101].join(",");
        assert!(parse(&[&many], &[]).unwrap_err().to_string().contains("at most 100"));
    }
}
