//! What cox says when it cannot do its work: one line on stderr.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::Cli;

/// Say `text` on stderr. A stderr that is full or gone changes nothing, least of all the exit code.
pub fn say(text: &str) {
    let _ = io::stderr().write_all(format!("cox: {}\n", one_line(text)).as_bytes());
}

/// Returns what went wrong and why, from the outermost to the innermost cause. Causes that the text before names already are left out:
/// many errors have their source in their own text.
pub fn chain(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.contains(&cause) {
            continue;
        }
        if !said.is_empty() {
            said += ": ";
        }
        said += &cause;
    }
    said
}

/// The verb that a command line names, as its first words tell before the rest could be understood.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    /// `cox pack set`; `cox` where no verb is named.
    pub command: String,
    /// Whether it takes a program after `--`.
    pub runs_a_program: bool,
}

impl Named {
    /// Reads the verb from the words of a command line, the first of which is cox's own name.
    pub fn of(words: &[OsString]) -> Named {
        let mut path = vec!["cox".to_owned()];
        let mut command = Cli::command();
        for word in words.iter().skip(1) {
            let Some(verb) = word.to_str().and_then(|word| command.find_subcommand(word)).cloned() else { break };
            path.push(verb.get_name().to_owned());
            command = verb;
        }
        let takes_program = command.get_arguments().any(|argument| argument.get_id() == "program");
        Named { command: path.join(" "), runs_a_program: takes_program }
    }
}

/// Short options that perf, taskset, strace and time have, and what they are called here.
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

/// Says in one line what is wrong with the command line, and what may have been meant.
pub fn about_usage(error: &clap::Error, verb: &Named) -> String {
    let hint = match (error.kind(), error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word)), _) => hint_for_argument(word, verb),
        (ErrorKind::InvalidSubcommand, _, Some(ContextValue::String(word))) if is_program(word) => {
            Some(format!("to run a program: cox run -- {word}"))
        }
        _ => None,
    };
    let page = error.to_string();
    // The paragraphs before the usage say what is wrong and what may have been meant; our hint is better than clap's.
    let told = page.split("\n\n").take_while(|p| !p.starts_with("Usage:") && !p.starts_with("For more information"));
    let told = told.filter(|p| hint.is_none() || !p.trim_start().starts_with("tip:"));
    let told: Vec<String> = told.map(|p| p.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let told = told.join("; ");
    let told = told.strip_prefix("error: ").unwrap_or(&told);
    match hint {
        Some(hint) => format!("{told}; {hint}"),
        None => format!("{told} (see {} --help)", verb.command),
    }
}

/// What somebody who typed this unknown argument may have wanted.
fn hint_for_argument(word: &str, verb: &Named) -> Option<String> {
    if !word.starts_with('-') {
        return verb.runs_a_program.then(|| format!("the program comes after --, as in: {} -- {word}", verb.command));
    }
    let meant = HABITS.iter().find(|(short, _)| word == *short)?.1;
    let command =
        verb.command.split(' ').skip(1).try_fold(Cli::command(), |c, name| c.find_subcommand(name).cloned())?;
    let is_known = command.get_arguments().any(|argument| argument.get_long() == Some(meant));
    is_known.then(|| format!("did you mean --{meant}? (see {} --help)", verb.command))
}

/// Whether a word on the command line names a program: a path, or a file in a folder of PATH.
fn is_program(word: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    word.contains('/') || std::env::split_paths(&folders).any(|folder| folder.join(word).is_file())
}

/// File names may hold line ends and worse; a terminal gets them escaped.
pub fn one_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.trim_end().chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn named(command: &[&str]) -> Named {
        Named::of(&command.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn complaint(command: &[&str]) -> String {
        about_usage(&Cli::try_parse_from(command).unwrap_err(), &named(command))
    }

    #[test]
    fn a_cause_is_said_once() {
        let source =
            machine::Error::Read { path: "/proc/x".into(), source: io::Error::from_raw_os_error(libc::EACCES) };
        let error = anyhow::Error::from(source).context("looking at this machine");
        let said = chain(&error);
        assert_eq!(said.matches("Permission denied").count(), 1, "{said}");
        assert!(said.starts_with("looking at this machine: cannot read /proc/x: "), "{said}");
    }

    /// The alternate form of an error repeats what errors have of their source in their own text: [`chain`] does not.
    #[test]
    fn every_complaint_says_a_cause_once() {
        fn look(folder: &std::path::Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    look(&entry, found);
                    continue;
                }
                let text = std::fs::read_to_string(&entry).unwrap();
                let lines = text.lines().take_while(|line| !line.contains("mod tests {"));
                let repeats = |line: &&str| {
                    line.contains(concat!(":#", "}")) && !line.contains("panic!") && !line.contains("{document")
                };
                found.extend(lines.filter(repeats).map(|line| format!("{}: {line}", entry.display())));
            }
        }
        let mut found = Vec::new();
        look(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut found);
        assert!(found.is_empty(), "{found:#?}");
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
            assert!(complaint(command).ends_with(help), "{command:?}: {}", complaint(command));
        }
        let runs = [&["cox", "run"][..], &["cox", "pack"], &["cox", "advise"]];
        assert!(runs.iter().all(|command| named(command).runs_a_program));
        let others = [&["cox"][..], &["cox", "doctor"], &["cox", "pack", "set"], &["cox", "pack", "simulate"]];
        assert!(!others.iter().any(|command| named(command).runs_a_program));
    }

    #[test]
    fn what_was_meant_is_suggested() {
        assert!(complaint(&["cox", "./app", "x"]).ends_with("to run a program: cox run -- ./app"));
        assert!(complaint(&["cox", "true"]).ends_with("to run a program: cox run -- true"));
        assert!(complaint(&["cox", "comprae"]).contains("'compare'"));
        assert!(complaint(&["cox", "run", "-p", "4711"]).contains("did you mean --pid?"));
        assert!(complaint(&["cox", "pack", "-c", "0-1"]).contains("did you mean --cpus?"));
        assert!(complaint(&["cox", "pack", "./app"]).ends_with("cox pack -- ./app"));
        // Not where the verb has no such option.
        assert!(!complaint(&["cox", "doctor", "-p"]).contains("--pid"));
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
