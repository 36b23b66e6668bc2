//! The file of `cox ulp --mpmd`: which programs run, and how many copies of each.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Copies of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// How many.
    pub count: u32,
    /// The program and its arguments.
    pub words: Vec<OsString>,
}

/// Reads a file. Each line has a number, a program and its arguments, split as by a shell; empty lines and those that begin with `#` say nothing.
///
/// # Errors
/// When the file cannot be read, or a line is none of these; or no line has a program.
pub fn read(file: &Path) -> Result<Vec<Copies>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&text).with_context(|| format!("--mpmd {}", file.display()))
}

fn parse(text: &str) -> Result<Vec<Copies>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.trim().starts_with('#'));
    let all: Vec<Copies> =
        lines.map(|(at, line)| copies(line).with_context(|| format!("line {}", at + 1))).collect::<Result<_>>()?;
    if all.is_empty() {
        bail!("no line has a program");
    }
    Ok(all)
}

fn copies(line: &str) -> Result<Copies> {
    let mut words = shlex::split(line).context("unclosed quote")?.into_iter();
    let count = words.next().and_then(|word| word.parse().ok()).filter(|count| *count > 0);
    let count = count.context("a line begins with a number of copies, at least 1")?;
    let words: Vec<OsString> = words.map(OsString::from).collect();
    if words.is_empty() {
        bail!("there is no program behind the number");
    }
    Ok(Copies { count, words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_number_a_program_and_its_arguments() {
        let right = |count, words: &[&str]| Copies { count, words: words.iter().map(OsString::from).collect() };
        let text = "# two kinds\n\n1 ./server --name 'a b'\n  3 ./client\n";
        assert_eq!(parse(text).unwrap(), [right(1, &["./server", "--name", "a b"]), right(3, &["./client"])]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, part) in [
            ("1 a\nb 2", "line 2: a line begins with a number"),
            ("0 a", "line 1: a line begins with a number"),
            ("\n4", "line 2: there is no program"),
            ("1 'a", "line 1: unclosed quote"),
            ("# nothing", "no line has a program"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.starts_with(part), "{error}");
        }
    }
}
