//! `cox`: the command. One module per verb; the session they share.

mod choice;
mod cli;
mod complaint;
mod ebpf;
mod laps;
mod preload;
mod provenance;
mod session;
mod simulated;
mod surroundings;
mod verbs;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use cli::{Cli, PackVerb, Verb};

/// cox itself failed before the program ran, as env(1) and timeout(1) have it.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let _laps = laps::Laps::begin();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    if let Err(why) = arch::supported() {
        complaint::say(why);
        return ExitCode::from(FAILED);
    }
    changes::waiting::tell_by(complaint::say);
    let done = match cli.verb {
        Verb::Run(options) => verbs::run::run(&options),
        Verb::Compare(options) => verbs::compare::compare(&options),
        Verb::Report(options) => verbs::report::report(&options),
        Verb::Pack(options) => match &options.what {
            Some(PackVerb::Simulate(wanted)) => verbs::simulate::simulate(wanted),
            Some(PackVerb::Set(wanted)) => verbs::pack::set(wanted),
            None => verbs::pack::pack(&options),
        },
        Verb::Advise(options) => verbs::advise::advise(&options),
        Verb::Doctor(options) => verbs::doctor::doctor(&options),
        Verb::Explain(options) => verbs::explain::explain(&options),
        Verb::Changes(what) => verbs::changes::changes(&what),
        Verb::Schema { of } => verbs::pages::schema(of),
        Verb::Completions { shell } => verbs::pages::completions(shell),
        Verb::Man { folder } => verbs::pages::man(&folder),
        Verb::Bench { arguments } => verbs::bench::bench(&arguments),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        // As SIGPIPE would have ended it.
        Err(error) if outputs::has_no_reader(&error) => ExitCode::from(128 + libc::SIGPIPE as u8),
        Err(error) => {
            complaint::say(&complaint::chain(&error));
            ExitCode::from(session::launch_error(&error).map_or(FAILED, |launch| launch.exit_code() as u8))
        }
    }
}

/// Help and version are not errors. With a program to run, a bad command line is 125, so that the program's own exit
/// codes stay distinguishable; other verbs use 2.
fn usage(error: &clap::Error) -> ExitCode {
    let words: Vec<_> = std::env::args_os().take(3).collect();
    let verb = complaint::Named::of(&words);
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nothing to be done when the terminal is gone.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => {
            complaint::say(&complaint::about_usage(error, &verb));
            ExitCode::from(if verb.runs_a_program { FAILED } else { 2 })
        }
    }
}
