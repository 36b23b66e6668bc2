//! `cox`: the command-line program. Each command has a module in `verbs`. If the command runs or observes a program, the module makes the session's
//! engines from the options: the parts that observe, pack, or run tasks. It then runs the session and writes the output.

mod cli;
mod engines;
mod exit;
mod faces;
mod forecasts;
mod groups;
mod laps;
mod manual;
mod mpmd;
#[cfg(test)]
mod mutations;
mod prefixed;
mod python;
mod recordings;
mod run_context;
mod simulated;
mod targets;
mod usage;
mod verbs;

use std::process::ExitCode;

use clap::error::ErrorKind;
use cli::{NoiseVerb, PackVerb, UlpVerb, Verb};
use exit::FAILED;
use outputs::diagnostics::{chain, say};
use usage::Refused;

fn main() -> ExitCode {
    let _laps = laps::Laps::begin();
    let cli = match usage::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(refused) => return refuse(&refused),
    };
    if let Err(why) = arch::supported() {
        say(why);
        return ExitCode::from(FAILED);
    }
    changes::waiting::tell_by(say);
    let done = match cli.verb {
        Verb::Run(options) => verbs::run::run(&options),
        Verb::Compare(options) => verbs::compare::compare(&options),
        Verb::Report(options) => verbs::report::report(&options),
        Verb::Pack(options) => match &options.what {
            Some(PackVerb::Simulate(wanted)) => verbs::simulate::simulate(wanted),
            Some(PackVerb::Set(wanted)) => verbs::pack::set(wanted),
            None => verbs::pack::pack(&options),
        },
        Verb::Noise(options) => match &options.what {
            Some(NoiseVerb::Forecast(wanted)) => verbs::forecast::forecast(wanted),
            None => verbs::noise::noise(&options),
        },
        Verb::Ulp(options) => match &options.what {
            Some(UlpVerb::Ps) => verbs::ulp_ps::ps(),
            None => verbs::ulp::ulp(&options),
        },
        Verb::Check(options) => verbs::check::check(&options),
        Verb::Advise(options) => verbs::advise::advise(&options),
        Verb::Loops(what) => verbs::loops::loops(&what),
        Verb::Quiet(what) => verbs::quiet::quiet(&what),
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
        // If the reader of the output is gone, cox ends with the exit code of a process that SIGPIPE ended.
        Err(error) if outputs::has_no_reader(&error) => ExitCode::from(128 + libc::SIGPIPE as u8),
        Err(error) => {
            say(&chain(&error));
            ExitCode::from(session::launch_error(&error).map_or(FAILED, |launch| launch.exit_code() as u8))
        }
    }
}

/// Prints a refusal and returns the exit code. Help and version are not errors. If the command runs a program, a bad command line is 125, so that it
/// differs from the program's own exit codes; otherwise it is 2.
fn refuse(refused: &Refused) -> ExitCode {
    match refused.error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // If the terminal is gone, nothing can be done.
            let _ = refused.error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = refused.error.print();
            ExitCode::from(2)
        }
        _ => {
            say(&refused.line());
            ExitCode::from(if refused.runs_a_program() { FAILED } else { 2 })
        }
    }
}
