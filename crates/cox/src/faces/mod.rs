//! The output of the commands: what they show, and where they write it.

pub mod changes;
pub mod doctor;
pub mod document;
pub mod forecast;
pub mod moves;
pub mod noise;
pub mod noise_outputs;
pub mod program_noise;
pub mod quiet;
pub mod run;
pub mod traces;

use std::io::IsTerminal;
use std::os::fd::AsFd;

use ::report::Style;
use anyhow::Result;
use outputs::Output;

/// Writes a text to an output, if there is one. `text` makes the text in the style of the output.
///
/// # Errors
/// When the text cannot be written.
pub fn print(output: Option<Output>, all_threads: bool, text: impl FnOnce(&Style) -> String) -> Result<()> {
    let Some(output) = output else { return Ok(()) };
    let text = text(&style(&output, all_threads));
    output.write(text.as_bytes())
}

/// Returns the style for the output's terminal. A file gets UTF-8 without colour.
pub fn style(output: &Output, all_threads: bool) -> Style {
    let columns = match output {
        Output::Stderr => terminal_columns(&std::io::stderr()),
        Output::Stdout => terminal_columns(&std::io::stdout()),
        Output::File(_) => None,
    };
    // The C library chooses a locale in the same way: the first of these variables that is set and not empty.
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    let utf8 = locale.is_some_and(|l| {
        let l = l.to_ascii_lowercase();
        l.contains("utf-8") || l.contains("utf8")
    });
    Style {
        color: columns.is_some() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        unicode: utf8 || matches!(output, Output::File(_)),
        all_threads,
        width: Style::default().width.min(columns.unwrap_or(usize::MAX)),
    }
}

/// Returns the width of the stream's terminal in columns: `None` if the stream is not a terminal, `usize::MAX` if the terminal does not know its
/// width.
fn terminal_columns(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = || rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col));
    stream.is_terminal().then(|| size().filter(|columns| *columns > 0).unwrap_or(usize::MAX))
}
