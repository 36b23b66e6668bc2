//! Parses the command line. If it is invalid, composes a single line with the error and a suggestion.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches};

use crate::cli::{Cli, PROGRAM};

/// A command line that was not accepted.
#[derive(Debug)]
pub struct Refused {
    /// The error. For clap, requests for help and version are errors, too.
    pub error: clap::Error,
    /// The full name of the command whose arguments were being parsed, as in `cox pack set`.
    command: String,
    /// Definition of the command whose arguments were being parsed.
    refuses: Command,
}

/// Parses a command line whose first word is cox's own name.
///
/// # Errors
/// If the command line is invalid, or asks for help or the version.
#[allow(clippy::result_large_err, reason = "it is read once, and refused at most once")]
pub fn parse(words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Cli, Refused> {
    let mut definition = Cli::command();
    let matches = definition.try_get_matches_from_mut(words);
    let cli = matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    cli.map_err(|error| {
        let (command, refuses) = entered(definition.get_name().to_owned(), &definition);
        Refused { error, command, refuses: refuses.clone() }
    })
}

/// Returns the command whose arguments were parsed last, with its full name. The parser sets the `bin_name` of each command that it enters.
fn entered(name: String, definition: &Command) -> (String, &Command) {
    match definition.get_subcommands().find(|command| command.get_bin_name().is_some()) {
        Some(command) => entered(format!("{name} {}", command.get_name()), command),
        None => (name, definition),
    }
}

impl Refused {
    /// Returns whether the command runs a program, that is, whether its definition has the argument for one.
    pub fn runs_a_program(&self) -> bool {
        self.refuses.get_arguments().any(|argument| argument.get_id() == PROGRAM)
    }

    /// Returns one line with the error and a suggestion.
    pub fn line(&self) -> String {
        let hint = match (
            self.error.kind(),
            self.error.get(ContextKind::InvalidArg),
            self.error.get(ContextKind::InvalidSubcommand),
        ) {
            (ErrorKind::UnknownArgument, Some(ContextValue::String(word)), _) => self.hint_for_argument(word),
            (ErrorKind::InvalidSubcommand, _, Some(ContextValue::String(word))) if is_program(word) => {
                Some(format!("to run a program: cox run -- {word}"))
            }
            _ => None,
        };
        let page = self.error.to_string();
        // clap prints the error and its own suggestion ("tip:") before the usage. If there is a hint of ours, it replaces the suggestion.
        let told =
            page.split("\n\n").take_while(|p| !p.starts_with("Usage:") && !p.starts_with("For more information"));
        let told = told.filter(|p| hint.is_none() || !p.trim_start().starts_with("tip:"));
        let told: Vec<String> = told.map(|p| p.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let told = told.join("; ");
        let told = told.strip_prefix("error: ").unwrap_or(&told);
        match hint {
            Some(hint) => format!("{told}; {hint}"),
            None => format!("{told} (see {} --help)", self.command),
        }
    }

    /// Returns a suggestion for an unknown argument.
    fn hint_for_argument(&self, word: &str) -> Option<String> {
        let name = &self.command;
        if !word.starts_with('-') {
            return self.runs_a_program().then(|| format!("the program comes after --, as in: {name} -- {word}"));
        }
        let meant = HABITS.iter().find(|(short, _)| word == *short)?.1;
        let is_known = self.refuses.get_arguments().any(|argument| argument.get_long() == Some(meant));
        is_known.then(|| format!("did you mean --{meant}? (see {name} --help)"))
    }
}

/// Short options of perf, taskset, strace and time, with the corresponding option of cox.
const HABITS: [(&str, &str); 8] = [
    ("-p", "pid"),
    ("-t", "threads"),
    ("-o", "output"),
    ("-j", "json"),
    ("-r", "repeat"),
    ("-c", "cpus"),
    ("-n", "ncpus"),
    ("-G", "cgroup"),
];

/// Returns whether a word on the command line names a program: a path, or a file in a folder of PATH.
fn is_program(word: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    word.contains('/') || std::env::split_paths(&folders).any(|folder| folder.join(word).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage_error(command: &[&str]) -> String {
        parse(command).unwrap_err().line()
    }

    /// Whether the verb that a command line names runs a program, as it is seen when an option is wrong.
    fn runs_a_program(command: &[&str]) -> bool {
        parse([command, &["--magic"]].concat()).unwrap_err().runs_a_program()
    }

    #[test]
    fn the_help_of_the_verb_that_was_named_is_pointed_to() {
        for (command, help) in [
            (&["cox", "pack", "--ncpus", "0", "--", "x"][..], "(see cox pack --help)"),
            (&["cox", "pack", "set", "--ncpus", "1"], "(see cox pack set --help)"),
            (&["cox", "run", "--backend", "magic", "--", "x"], "(see cox run --help)"),
            (&["cox", "compare", "--magic"], "(see cox compare --help)"),
            (&["cox", "--magic"], "(see cox --help)"),
        ] {
            assert!(usage_error(command).ends_with(help), "{command:?}: {}", usage_error(command));
        }
        let runs = [&["cox", "run"][..], &["cox", "pack"], &["cox", "advise"]];
        assert!(runs.iter().all(|command| runs_a_program(command)));
        let others = [
            &["cox"][..],
            &["cox", "doctor"],
            &["cox", "check"],
            &["cox", "help", "run"],
            &["cox", "changes", "undo"],
            &["cox", "pack", "set"],
            &["cox", "pack", "simulate"],
        ];
        assert!(!others.iter().any(|command| runs_a_program(command)));
    }

    #[test]
    fn what_was_meant_is_suggested() {
        assert!(usage_error(&["cox", "./app", "x"]).ends_with("to run a program: cox run -- ./app"));
        assert!(usage_error(&["cox", "true"]).ends_with("to run a program: cox run -- true"));
        assert!(usage_error(&["cox", "comprae"]).contains("'compare'"));
        assert!(usage_error(&["cox", "run", "-p", "4711"]).contains("did you mean --pid?"));
        assert!(usage_error(&["cox", "pack", "-c", "0-1"]).contains("did you mean --cpus?"));
        assert!(usage_error(&["cox", "pack", "./app"]).ends_with("cox pack -- ./app"));
        // Not where the verb has no such option.
        assert!(!usage_error(&["cox", "doctor", "-p"]).contains("--pid"));
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
            let text = usage_error(command);
            assert!(!text.contains('\n') && !text.starts_with("error") && text.ends_with("--help)"), "{text}");
        }
        assert!(usage_error(&["cox", "run", "--backend", "magic", "--", "x"]).contains("auto, bpf, perf, proc"));
    }

    #[test]
    fn a_forgotten_separator_is_pointed_out() {
        assert!(usage_error(&["cox", "run", "./app", "x"]).ends_with("cox run -- ./app"));
    }
}
