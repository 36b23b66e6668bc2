//! One module per verb.

use std::io::IsTerminal;

use ::report::Style;

use crate::outputs::Output;

pub mod advise;
pub mod bench;
pub mod changes;
pub mod compare;
pub mod doctor;
pub mod explain;
pub mod overlap;
pub mod pack;
pub mod pages;
pub mod report;
pub mod run;
pub mod series;
pub mod simulate;
pub mod traces;

/// How the reader's terminal wants it. A file gets UTF-8 without colour.
pub fn style(output: Option<&Output>, all_threads: bool) -> Style {
    let terminal = matches!(output, Some(Output::Stderr)) && std::io::stderr().is_terminal()
        || matches!(output, Some(Output::Stdout)) && std::io::stdout().is_terminal();
    // As the C library chooses a locale: the first of these that is set and not empty.
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    let utf8 = locale.is_some_and(|l| {
        let l = l.to_ascii_lowercase();
        l.contains("utf-8") || l.contains("utf8")
    });
    Style {
        color: terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        unicode: utf8 || matches!(output, Some(Output::File(..))),
        all_threads,
        ..Style::default()
    }
}
