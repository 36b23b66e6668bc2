//! A random sample of comments and messages, for a reader who does not know the code: `cargo xtask sample`.
//!
//! The seed is the commit that is judged, so that nobody chooses what is read, and everybody draws the same sample.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use random::Random;

use crate::words::{Kind, of_rust};
use crate::workspace;

/// Draws comments and messages at random, and prints each with its place.
///
/// A comment is all lines of a block; the line of code below it is printed with it. A message is a string in a program's code. Texts of fewer than
/// three words and texts in tests are not drawn.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sample")]
pub struct Options {
    /// Number of comments
    #[arg(long, default_value_t = 240)]
    comments: usize,
    /// Number of messages
    #[arg(long, default_value_t = 60)]
    messages: usize,
    /// The seed in hexadecimal; default: the first 8 digits of the commit that is checked out
    #[arg(long, value_parser = |text: &str| u64::from_str_radix(text, 16))]
    seed: Option<u64>,
}

/// A comment or message, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text {
    /// Path of the file, relative to the workspace.
    file: PathBuf,
    line: usize,
    text: String,
}

/// Draws comments and messages, and prints them.
///
/// # Errors
/// When git fails to print the commit, or a source cannot be read.
pub fn run(options: &Options) -> Result<bool> {
    let root = workspace::root();
    let seed = options.seed.map_or_else(|| commit(&root), Ok)?;
    let (comments, messages) = texts(&root)?;
    let mut random = Random::new(seed);
    for (kind, count, mut all) in [("comments", options.comments, comments), ("messages", options.messages, messages)] {
        let total = all.len();
        random.shuffle(&mut all);
        all.truncate(count);
        println!("# {} of {total} {kind}, seed {seed:08x}\n", all.len());
        for (number, Text { file, line, text }) in all.iter().enumerate() {
            println!("## {} {}:{line}\n{text}\n", number + 1, file.display());
        }
    }
    Ok(true)
}

fn commit(root: &Path) -> Result<u64> {
    let output = Command::new("git").args(["rev-parse", "--short=8", "HEAD"]).current_dir(root).output()?;
    ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr).trim());
    let digits = String::from_utf8(output.stdout)?;
    let first: String = digits.trim().chars().take(8).collect();
    u64::from_str_radix(&first, 16).with_context(|| format!("{digits:?} is not a commit"))
}

/// Returns all comments and all messages, in the order of files and lines.
fn texts(root: &Path) -> Result<(Vec<Text>, Vec<Text>)> {
    let (mut comments, mut messages) = (Vec::new(), Vec::new());
    for folder in ["crates", "bench", "xtask"] {
        for path in workspace::files(&root.join(folder), &is_source)? {
            let source = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let file = path.strip_prefix(root).unwrap_or(&path);
            if is_test(file) {
                continue;
            }
            let place = |(line, text)| Text { file: file.to_owned(), line, text };
            comments.extend(comments_of(before_tests(&source)).into_iter().map(place));
            if path.extension().is_some_and(|extension| extension == "rs") {
                let names = of_rust(file, &source).with_context(|| format!("reading {}", path.display()))?;
                let names = names.into_iter().filter(|name| name.kind == Kind::Message && is_a_sentence(&name.text));
                messages.extend(names.map(|name| place((name.line, name.text))));
            }
        }
    }
    Ok((comments, messages))
}

fn is_source(path: &Path) -> bool {
    path.extension().and_then(|extension| extension.to_str()).is_some_and(|e| ["rs", "c", "h"].contains(&e))
}

/// Returns whether a file is for tests only.
fn is_test(file: &Path) -> bool {
    file.starts_with("crates/testkit")
        || file
            .components()
            .any(|part| ["tests", "tests.rs", "benches", "examples"].iter().any(|t| part.as_os_str() == *t))
}

/// Returns the part of a source before its module of tests, which is the last item of the file.
fn before_tests(source: &str) -> &str {
    source.split_once("\n#[cfg(test)]\nmod ").map_or(source, |(before, _)| before)
}

/// Returns whether a text has at least three words. Shorter texts are mostly names.
fn is_a_sentence(text: &str) -> bool {
    text.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count() >= 3
}

/// Returns each block of comment lines: the number of its first line, and its text with the line of code below.
fn comments_of(source: &str) -> Vec<(usize, String)> {
    let (mut found, mut block, mut is_inside) = (Vec::new(), Vec::new(), false);
    for (at, line) in source.lines().chain([""]).enumerate() {
        let text = line.trim();
        let is_comment = is_inside || text.starts_with("//") || text.starts_with("/*");
        is_inside = (is_inside || text.starts_with("/*")) && !text.contains("*/");
        if is_comment {
            block.push(text);
        } else if !block.is_empty() {
            let words = block.concat();
            let first = at + 1 - block.len();
            if is_a_sentence(&block.join(" ")) && !words.contains("SPDX-License-Identifier") {
                block.push(text);
                found.push((first, block.join("\n")));
            }
            block.clear();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_comments_are_found_with_the_code_below() {
        let source = "// SPDX-License-Identifier: MIT OR Apache-2.0\n//! What this is\n//! and does.\n\nfn f() {\n    // why it is\n    g();\n    // two words\n}\n\
                      /* a comment\n * of C here */\nint x;\n";
        let wanted = [(6, "// why it is\ng();".to_owned()), (10, "/* a comment\n* of C here */\nint x;".to_owned())];
        assert_eq!(comments_of(source), wanted);
        let without_licence = source.split_once('\n').unwrap().1;
        assert_eq!(comments_of(without_licence)[0], (1, "//! What this is\n//! and does.\n".to_owned()));
    }

    #[test]
    fn this_workspace_has_enough_of_both_and_none_from_tests() {
        let (comments, messages) = texts(&workspace::root()).unwrap();
        assert!(
            comments.len() > 2400 && messages.len() > 600,
            "{} comments, {} messages",
            comments.len(),
            messages.len()
        );
        assert!(comments.iter().chain(&messages).all(|text| !is_test(&text.file)));
    }

    #[test]
    fn the_commit_is_the_seed() {
        assert!(commit(&workspace::root()).unwrap() <= u64::from(u32::MAX));
    }
}
