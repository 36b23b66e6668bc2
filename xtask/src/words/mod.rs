//! Finds retired words, so that one thing has one term in code, options, JSON and texts.
//!
//! `xtask/words.tsv` lists each retired word with its replacement and the kinds of names that must not contain it. Prose may use the word: comments
//! are never searched, and pages only if a word's row names them.

mod names;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace;

pub use names::{Kind, Name, of_page, of_rust};

/// A retired word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retired {
    /// One or more words in lower case, separated by spaces: `took cpu` matches `took_cpu` and `TookCpu`.
    pub word: Vec<String>,
    /// True if only names that consist of this word alone are hits.
    pub whole: bool,
    /// Replacement.
    pub instead: String,
    /// Kinds of names that must not contain the word.
    pub kinds: BTreeSet<Kind>,
    /// Paths below which the word is permitted.
    pub except: Vec<PathBuf>,
}

/// An occurrence of a retired word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Path relative to the workspace.
    pub file: PathBuf,
    /// The name that contains the word.
    pub name: Name,
    /// The word as in the table.
    pub word: String,
    /// Replacement.
    pub instead: String,
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Name { kind, text, line } = &self.name;
        let (file, word, instead) = (self.file.display(), &self.word, &self.instead);
        write!(f, "{file}:{line}: {kind} '{text}': write '{instead}' instead of '{word}'")
    }
}

/// Parses the table. Each row has a word, its replacement, the kinds of names that must not contain the word, and the paths below which the word is
/// permitted. Tabs separate these columns, and commas separate the entries of a list. A word after `=` is retired as a whole name: `=hot` is found in
/// `hot`, and not in `hot_functions`.
///
/// # Errors
/// When a row has another form, or names an unknown kind.
pub fn table(text: &str) -> Result<Vec<Retired>> {
    let rows = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    rows.map(|(at, line)| row(line).with_context(|| format!("line {} of the table of retired words", at + 1))).collect()
}

fn row(line: &str) -> Result<Retired> {
    let columns: Vec<&str> = line.split('\t').collect();
    let (word, instead, kinds, except) = match columns[..] {
        [word, instead, kinds] => (word, instead, kinds, ""),
        [word, instead, kinds, except] => (word, instead, kinds, except),
        _ => bail!("{} columns instead of 3 or 4", columns.len()),
    };
    let list =
        |text: &str| -> Vec<String> { text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect() };
    let kinds = list(kinds).into_iter().map(|kind| Kind::of(&kind).with_context(|| format!("unknown kind '{kind}'")));
    let (whole, word) = word.strip_prefix('=').map_or((false, word), |word| (true, word));
    Ok(Retired {
        whole,
        word: word.split(' ').map(str::to_owned).collect(),
        instead: instead.to_owned(),
        kinds: kinds.collect::<Result<_>>()?,
        except: list(except).into_iter().map(PathBuf::from).collect(),
    })
}

/// Returns the occurrences in the files below `root`, and the number of files that were searched.
///
/// # Errors
/// When a file cannot be read or is not valid Rust.
pub fn of_workspace(root: &Path, table: &[Retired]) -> Result<(Vec<Hit>, usize)> {
    let mut files = vec![root.join("README.md")];
    for folder in ["crates", "bench", "xtask", "docs"] {
        files.extend(workspace::files(&root.join(folder), &|file| {
            is_searched(file.strip_prefix(root).unwrap_or(file))
        })?);
    }
    files.sort();
    let mut hits = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(file);
        let names = match file.extension().and_then(|extension| extension.to_str()) {
            Some("md") => of_page(&text),
            _ => of_rust(name, &text).with_context(|| format!("reading {}", file.display()))?,
        };
        hits.extend(names.into_iter().flat_map(|found| hits_of(name, &found, table)));
    }
    Ok((hits, files.len()))
}

fn hits_of(file: &Path, name: &Name, table: &[Retired]) -> Vec<Hit> {
    let words = names::words_of(name);
    let applies = table.iter().filter(|retired| retired.kinds.contains(&name.kind));
    let applies = applies.filter(|retired| !retired.except.iter().any(|below| file.starts_with(below)));
    let found =
        applies.filter(|retired| is_in(&retired.word, &words) && (!retired.whole || retired.word.len() == words.len()));
    let hit = |retired: &Retired| Hit {
        file: file.to_owned(),
        name: name.clone(),
        word: retired.word.join(" "),
        instead: retired.instead.clone(),
    };
    found.map(hit).collect()
}

/// Returns whether `words` contains the `wanted` words, one directly after the other; the last one may be in the plural.
fn is_in(wanted: &[String], words: &[String]) -> bool {
    let same = |(at, (wanted_word, word)): (usize, (&String, &String))| {
        word == wanted_word || at + 1 == wanted.len() && word.strip_suffix('s') == Some(wanted_word)
    };
    words.windows(wanted.len()).any(|window| wanted.iter().zip(window).enumerate().all(same))
}

/// Returns whether a file, relative to the workspace, is searched: Rust sources and Markdown pages, but not tests, which may use any name.
fn is_searched(file: &Path) -> bool {
    let is_kind = file.extension().is_some_and(|extension| extension == "rs" || extension == "md");
    is_kind && !file.components().any(|part| part.as_os_str() == "tests")
}

#[cfg(test)]
mod tests;
