//! `cox run --repeat`: several runs, one after another, and one report on them.
//!
//! Each run is a session of its own. The name of each output file must contain the run's number, so that no run overwrites another's file.

use std::path::Path;

use anyhow::{Result, bail};
use outputs::diagnostics::{chain, say};
use outputs::{Output, numbered};
use report::comparison::{Comparison, Run};

use super::once::once;
use crate::cli;
use crate::faces::print;

/// Runs the program repeatedly and reports. The exit code is the first one that is not 0.
pub fn run(options: &cli::Run) -> Result<u8> {
    refuse_overwriting(options)?;
    let text = if options.quiet { None } else { Some(Output::open(of_run(options, 1).output.as_deref())?) };
    let (mut code, mut runs) = (0, Vec::<Run>::new());
    let mut failed = Ok(());
    for number in 1..=options.repeat {
        let ran = match once(&cli::Run { quiet: true, output: None, ..of_run(options, number) }) {
            Ok(ran) => ran,
            Err(error) => {
                failed = Err(error);
                break;
            }
        };
        code = if code == 0 { ran.code } else { code };
        runs.extend(ran.figures);
        if ran.interrupted {
            break;
        }
    }
    if let Some(text) = text.filter(|_| !runs.is_empty()) {
        let words: Vec<_> = options.program.iter().map(|word| word.to_string_lossy()).collect();
        let comparison = Comparison::new(env!("CARGO_PKG_VERSION"), &[(words.join(" "), runs)]);
        // The program has run, so a failure to write the report does not change the exit code.
        if let Err(error) = print(Some(text), false, |style| comparison.text(style)) {
            say(&chain(&error));
        }
    }
    failed.map(|()| code)
}

/// Returns the options for one run of the series.
pub fn of_run(options: &cli::Run, number: u32) -> cli::Run {
    let mut options = options.clone();
    let cli::Traces { trace, paraver, html } = &mut options.traces;
    let files = [&mut options.json, &mut options.output, &mut options.save_schedules, trace, paraver, html];
    for path in files.into_iter().flatten() {
        *path = numbered(path, number);
    }
    options
}

fn refuse_overwriting(options: &cli::Run) -> Result<()> {
    let cli::Traces { trace, paraver, html } = &options.traces;
    let files = [
        ("--json", &options.json),
        ("--save-schedules", &options.save_schedules),
        ("--trace", trace),
        ("--paraver", paraver),
        ("--html", html),
    ];
    let same = |path: &&Path| numbered(path, 1) == numbered(path, 2);
    for (option, path) in files {
        if let Some(path) = path.as_deref().filter(same) {
            let path = path.display();
            bail!(
                "--repeat: each run would overwrite {option} '{path}'; put %n, the number of the run, into the name, as in run.%n.json"
            );
        }
    }
    Ok(())
}
