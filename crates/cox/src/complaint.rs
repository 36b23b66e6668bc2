//! What cox says when it cannot do its work: one line on stderr.

use std::io::{self, Write};

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Say `text` on stderr. A stderr that is full or gone changes nothing, least of all the exit code.
pub fn say(text: &str) {
    let _ = io::stderr().write_all(format!("cox: {}\n", one_line(text)).as_bytes());
}

/// What is wrong with the command line. `runs_a_program`: for a verb that takes one after `--`.
pub fn about_usage(error: &clap::Error, runs_a_program: bool) -> String {
    let page = error.to_string();
    // The paragraphs before the usage say what is wrong and what may have been meant.
    let told = page.split("\n\n").take_while(|p| !p.starts_with("Usage:") && !p.starts_with("For more information"));
    let told: Vec<String> = told.map(|p| p.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let told = told.join("; ");
    let told = told.strip_prefix("error: ").unwrap_or(&told);
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word))
            if runs_a_program && error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-') =>
        {
            format!("{told}; the program comes after --, as in: cox run -- {word}")
        }
        _ => format!("{told} (see {} --help)", if runs_a_program { "cox run" } else { "cox" }),
    }
}

/// File names may hold line ends and worse; a terminal gets them escaped.
fn one_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.trim_end().chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn complaint(command: &[&str]) -> String {
        about_usage(&Cli::try_parse_from(command).unwrap_err(), command.get(1) == Some(&"run"))
    }

    #[test]
    fn a_bad_command_line_takes_one_line() {
        for command in [
            &["cox", "run", "--nonsense", "--", "true"][..],
            &["cox", "run"],
            &["cox", "run", "--backend", "magic", "--", "true"],
            &["cox", "run", "--pid", "one"],
            &["cox", "run", "--for", "0", "--pid", "1"],
            &["cox", "run", "--pid", "1", "--wait-all"],
            &["cox", "dance"],
        ] {
            let text = complaint(command);
            assert!(!text.contains('\n') && !text.starts_with("error") && text.ends_with("--help)"), "{text}");
        }
        assert!(complaint(&["cox", "run", "--backend", "magic", "--", "x"]).contains("auto, bpf, perf, proc"));
    }

    #[test]
    fn a_forgotten_separator_is_pointed_out() {
        assert!(complaint(&["cox", "run", "./app", "x"]).ends_with("cox run -- ./app"));
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(one_line("cannot run 'a\nb\u{1b}[2J'\n"), "cannot run 'a\\nb\\u{1b}[2J'");
    }
}
