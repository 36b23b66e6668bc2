//! The man pages: clap's sections, from the definition of the command line, and EXIT STATUS, ENVIRONMENT, FILES and SEE ALSO.
//!
//! Examples and exit codes come from the end of a command's help. Some environment variables come from tables in the code that uses them; the other
//! variables and the files are listed here.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use session::provenance;

/// An environment variable or a file that cox uses.
struct Outside {
    /// Names that share one meaning.
    names: fn() -> Vec<&'static str>,
    /// What cox uses the variable or file for.
    meaning: &'static str,
    /// The commands that use the variable or file. The page of cox itself lists all variables and files.
    commands: &'static [&'static str],
}

/// Commands that run or observe programs.
const SESSIONS: &[&str] = &["run", "pack", "advise"];
/// Commands that load eBPF programs.
const OBSERVERS: &[&str] = &["run", "pack", "advise", "doctor"];
/// Commands that use the journals of sessions.
const JOURNALS: &[&str] = &["run", "pack", "advise", "changes", "changes status", "changes undo"];
/// Commands that print reports.
const REPORTS: &[&str] = &["run", "pack", "pack simulate", "advise", "report", "compare"];
/// Commands that load a library into the program.
const PRELOADERS: &[&str] = &["run", "pack", "advise", "loops"];
/// Commands that load the library for loop schedules.
const LOOPS: &[&str] = &["run", "loops"];
/// Commands whose reports contain their provenance: where and when they were measured.
const TAKEN: &[&str] = &["run", "pack", "advise"];

const ENVIRONMENT: &[Outside] = &[
    Outside {
        names: || vec!["NO_COLOR"],
        meaning: "If this variable is set and not empty, cox prints no colours. Otherwise cox prints colours on terminals only.",
        commands: REPORTS,
    },
    Outside {
        names: || vec!["LC_ALL", "LC_CTYPE", "LANG"],
        meaning: "The first of these variables that is set names the locale. If the locale is not UTF-8, reports on a terminal are in ASCII.",
        commands: REPORTS,
    },
    Outside { names: || vec!["PATH"], meaning: "cox searches these folders for the program.", commands: SESSIONS },
    Outside {
        names: || outputs::RANKS.to_vec(),
        meaning: "The rank of the process: %r in the name of an output stands for the first of these variables that is set, or for 0 if none is set.",
        commands: REPORTS,
    },
    Outside {
        names: || provenance::JOBS.map(|(name, _)| name).to_vec(),
        meaning: "The id of the batch job. Reports contain it.",
        commands: TAKEN,
    },
    Outside {
        names: || advise::Facts::VARIABLES.to_vec(),
        meaning: "The OpenMP settings of the program. cox does not change them. Reports contain them, and the advice depends on them.",
        commands: SESSIONS,
    },
    Outside {
        names: || vec!["LD_PRELOAD"],
        meaning: "With cox pack, --pack-cpus, --noise or --overlap, cox appends the preload library for the program, unless --no-preload is given; \
                  with --schedule and cox loops, the library for loop schedules.",
        commands: PRELOADERS,
    },
    Outside {
        names: || vec!["COX_PRELOAD"],
        meaning: "The file of the preload library. It replaces the file under FILES.",
        commands: SESSIONS,
    },
    Outside {
        names: || vec!["COX_PRELOAD_ALONE"],
        meaning: "With --no-children, cox sets this variable for the program, so that child processes do not load the preload library.",
        commands: SESSIONS,
    },
    Outside {
        names: || vec!["COX_PHASES"],
        meaning: "With --noise, cox sets this variable for the program. It asks the preload library to measure the time between synchronisations.",
        commands: &["run"],
    },
    Outside {
        names: || vec!["COX_OVERLAP"],
        meaning: "With --overlap, cox sets this variable for the program. It tells the preload library where to ask cox for shared memory.",
        commands: &["run"],
    },
    Outside {
        names: || vec!["COX_LOOPS_LIBRARY"],
        meaning: "The file of the library for loop schedules. It replaces the file under FILES.",
        commands: LOOPS,
    },
    Outside {
        names: || {
            vec![
                "COX_SCHEDULE",
                "COX_SCHEDULE_INPUTS",
                "COX_TIMING",
                "COX_SCHEDULE_ALONE",
                "COX_LOOPS",
                "COX_LOOPS_DELAYS",
            ]
        },
        meaning: "With --schedule and cox loops, cox sets these variables for the program. They tell the library which schedule loops get, whether child \
                  processes have it, too, in which folder to keep what loops did, and whether to measure how long threads wait for CPUs.",
        commands: LOOPS,
    },
    Outside {
        names: || vec!["COX_CHANGES"],
        meaning: "The folder for journals. It replaces the folders under FILES, and must be empty or contain only journals of cox.",
        commands: JOURNALS,
    },
    Outside {
        names: || vec!["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME"],
        meaning: "With these variables, cox finds the folder for the journals of a user other than root; see FILES.",
        commands: JOURNALS,
    },
    Outside {
        names: || vec!["COX_LAPS"],
        meaning: "The file to which cox writes how long each part of a session took. cox-bench overhead start uses it.",
        commands: SESSIONS,
    },
];

const FILES: &[Outside] = &[
    Outside {
        names: || vec!["/run/coxswain/"],
        meaning: "Root's journals: what running sessions have changed, and how to restore it.",
        commands: JOURNALS,
    },
    Outside {
        names: || {
            vec![
                "$XDG_RUNTIME_DIR/coxswain/",
                "/run/user/UID/coxswain/",
                "$XDG_STATE_HOME/coxswain/",
                "/tmp/coxswain-UID/",
            ]
        },
        meaning: "Journals of other users: the first of these folders that exists and that no other user may write to. \
                  $XDG_STATE_HOME is ~/.local/state if it is not set.",
        commands: JOURNALS,
    },
    Outside {
        names: || vec!["PREFIX/libexec/coxswain/cox-observe"],
        meaning: "A helper program that loads the eBPF programs if cox lacks CAP_BPF and CAP_PERFMON; see cox-observe(8).",
        commands: OBSERVERS,
    },
    Outside {
        names: || vec!["PREFIX/libexec/coxswain/cox-ulp-host"],
        meaning: "The process in whose address space the ULPs of cox ulp live.",
        commands: &["ulp"],
    },
    Outside {
        names: || vec!["PREFIX/libexec/coxswain/cox-ulp-python"],
        meaning: "What cox ulp runs for a python3 that is linked to fixed addresses: it uses Python's library.",
        commands: &["ulp"],
    },
    Outside {
        names: || vec!["PREFIX/lib/coxswain/libcox_preload.so"],
        meaning: "The preload library, unless the folder of cox itself contains one.",
        commands: SESSIONS,
    },
    Outside {
        names: || vec!["PREFIX/lib/coxswain/libcox_loops.so"],
        meaning: "The library for loop schedules, unless the folder of cox itself contains one.",
        commands: LOOPS,
    },
    Outside {
        names: || vec!["/sys/kernel/btf/vmlinux"],
        meaning: "The kernel's type information, which the eBPF programs need.",
        commands: OBSERVERS,
    },
    Outside {
        names: || vec!["/proc/sys/kernel/perf_event_paranoid"],
        meaning: "Must be 2 or less for the backend perf without privileges.",
        commands: &["run", "doctor"],
    },
    Outside {
        names: || vec!["/proc/PID/task/TID/schedstat"],
        meaning: "The scheduling times of each thread, summed by the kernel. The backend proc reads them.",
        commands: SESSIONS,
    },
    Outside {
        names: || vec!["PREFIX/share/doc/coxswain/docs/"],
        meaning: "The user guide, whose pages cox explain prints.",
        commands: &["explain"],
    },
    Outside { names: || vec!["PREFIX/bin/cox-bench"], meaning: "The experiments.", commands: &["bench"] },
];

/// Pages for SEE ALSO, in addition to those of the command's subcommands and of its parent command.
const RELATED: &[(&str, &[&str])] = &[
    ("", &["cox-observe(8)", "cox_umt(3)", "perf-sched(1)"]),
    ("run", &["cox-report(1)", "cox-compare(1)", "cox-pack(1)", "cox-doctor(1)", "cox-explain(1)", "cox-observe(8)"]),
    ("report", &["cox-run(1)", "cox-compare(1)", "cox-explain(1)", "perf-sched(1)", "perf-script(1)"]),
    ("compare", &["cox-run(1)", "cox-report(1)"]),
    ("pack", &["cox-advise(1)", "cox-run(1)", "cox-changes(1)", "cox-observe(8)", "taskset(1)"]),
    ("loops", &["cox-run(1)", "cox-noise(1)", "cox-explain(1)"]),
    ("noise", &["cox-run(1)", "cox-doctor(1)", "rtla-osnoise(1)", "oslat(8)"]),
    ("quiet", &["cox-noise(1)", "taskset(1)", "cpuset(7)"]),
    ("ulp", &["cox-check(1)", "cox-run(1)", "cox-pack(1)"]),
    ("check", &["cox-ulp(1)", "cox-run(1)"]),
    ("advise", &["cox-pack(1)", "cox-run(1)", "taskset(1)"]),
    ("doctor", &["cox-run(1)", "cox-observe(8)", "capabilities(7)"]),
    ("explain", &["cox-run(1)"]),
    ("changes", &["cox-pack(1)"]),
    ("schema", &["cox-run(1)", "cox-pack(1)", "cox-advise(1)", "cox-compare(1)"]),
];

/// Exit codes of commands whose help does not list any.
const EXITS: &str = "  0    done\n  2    wrong options\n  125  cox failed";

/// Headings that a command's help has after its options: examples and exit codes.
const EXAMPLE_HEADING: &str = "Example:";
const EXITS_HEADING: &str = "Exit codes:";

/// Writes `cox.1` and a page per command into `folder`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(command: Command, folder: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_with_subcommands(&command, "", folder)
}

fn write_with_subcommands(command: &Command, path: &str, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let path = format!("{path} {}", below.get_name());
        write_with_subcommands(below, path.trim_start(), folder)?;
    }
    let man = Man::new(command.clone());
    let mut file = fs::File::create(folder.join(man.get_filename()))?;
    file.write_all(&page(command, path)?)?;
    file.flush()
}

/// Returns the page of the command with the name `path`: words separated by blanks, or empty for cox itself.
fn page(command: &Command, path: &str) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut out)?;
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut out)?;
    }
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let (before, exits) = help.split_once(EXITS_HEADING).unwrap_or((&help, EXITS));
    let mut roff = Roff::new();
    if let Some((_, examples)) = before.split_once(EXAMPLE_HEADING) {
        verbatim(&mut roff, examples.trim_matches('\n'));
    }
    exit_status(&mut roff, exits);
    listed(&mut roff, "ENVIRONMENT", ENVIRONMENT, path, "cox reads no environment variable for this command.", bold);
    listed(&mut roff, "FILES", FILES, path, "cox uses only the files that the command line names.", italic);
    see_also(&mut roff, command, path);
    roff.to_writer(&mut out)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut out)?;
    }
    Ok(out)
}

fn verbatim(roff: &mut Roff, lines: &str) {
    roff.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}

/// Writes exit codes from lines of help such as `  125  cox failed`. A line without a code introduces the lines that follow.
fn exit_status(roff: &mut Roff, lines: &str) {
    roff.control("SH", ["EXIT STATUS"]);
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        match line.trim().split_once("  ") {
            Some((code, meaning)) => roff.control("TP", []).text([bold(code)]).text([roman(meaning.trim())]),
            None => roff.control("PP", []).text([roman(line.trim())]),
        };
    }
}

fn listed(roff: &mut Roff, heading: &str, all: &[Outside], path: &str, none: &str, face: fn(String) -> Inline) {
    roff.control("SH", [heading]);
    let mut here = all.iter().filter(|outside| path.is_empty() || outside.commands.contains(&path)).peekable();
    if here.peek().is_none() {
        roff.text([roman(none)]);
    }
    for outside in here {
        roff.control("TP", []).text([face((outside.names)().join(", "))]).text([roman(outside.meaning)]);
    }
}

fn see_also(roff: &mut Roff, command: &Command, path: &str) {
    let page = |path: &str| format!("cox-{}(1)", path.replace(' ', "-"));
    let mut pages = Vec::new();
    match path.rsplit_once(' ') {
        Some((above, _)) => pages.push(page(above)),
        None if !path.is_empty() => pages.push("cox(1)".to_owned()),
        None => {}
    }
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    pages.extend(below.map(|below| page(format!("{path} {}", below.get_name()).trim_start())));
    let related = RELATED.iter().find(|(of, _)| *of == path).map_or(&[][..], |(_, related)| related);
    pages.extend(related.iter().map(|page| (*page).to_owned()));
    roff.control("SH", ["SEE ALSO"]).text([roman(pages.join(", "))]);
    if report::guide::find(path).is_some() {
        roff.control("PP", []).text([roman(format!("The guide: cox explain {path}"))]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// All pages, by the names of their files.
    fn pages() -> Vec<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        write(Cli::command(), folder.path()).unwrap();
        let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        files.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
    }

    /// Returns the lines of a section.
    fn section<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
        let is = |line: &str| line.strip_prefix(".SH ").is_some_and(|rest| rest.trim_matches('"') == heading);
        let lines = page.lines().skip_while(|line| !is(line)).skip(1);
        lines.take_while(|line| !line.starts_with(".SH")).collect()
    }

    #[test]
    fn each_page_has_the_sections_that_readers_look_for() {
        let pages = pages();
        assert!(pages.len() > 12, "{}", pages.len());
        for (name, page) in &pages {
            for heading in ["NAME", "SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"] {
                assert!(section(page, heading).iter().any(|line| !line.starts_with('.')), "{name}: {heading}\n{page}");
            }
        }
    }

    #[test]
    fn pages_refer_to_pages_that_exist() {
        let pages = pages();
        let names: BTreeSet<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for (name, page) in &pages {
            for word in section(page, "SEE ALSO").join(" ").replace('\\', "").split([' ', ',']) {
                if let Some(of_cox) = word.strip_suffix("(1)").filter(|word| word.starts_with("cox")) {
                    assert!(names.contains(format!("{of_cox}.1").as_str()), "{name}: {word}");
                }
            }
        }
    }

    #[test]
    fn commands_in_the_tables_exist() {
        fn paths(command: &Command, path: &str, all: &mut BTreeSet<String>) {
            all.insert(path.to_owned());
            let below = command.get_subcommands();
            below.for_each(|below| paths(below, format!("{path} {}", below.get_name()).trim_start(), all));
        }
        let mut all = BTreeSet::new();
        paths(&Cli::command(), "", &mut all);
        let outside = ENVIRONMENT.iter().chain(FILES).flat_map(|outside| outside.commands);
        for path in outside.chain(RELATED.iter().map(|(path, _)| path)) {
            assert!(all.contains(*path), "{path}");
        }
    }

    #[test]
    fn exit_codes_of_the_help_are_on_the_page() {
        let pages = pages();
        let exits = |name: &str| {
            let (_, page) = pages.iter().find(|(file, _)| file == name).unwrap();
            section(page, "EXIT STATUS").join("\n")
        };
        for (page, code) in
            [("cox-run.1", "\\fB126\\fR"), ("cox-doctor.1", "\\fB1\\fR"), ("cox-schema.1", "\\fB125\\fR")]
        {
            assert!(exits(page).contains(code), "{page}: {}", exits(page));
        }
        assert!(exits("cox-advise.1").contains("With"), "{}", exits("cox-advise.1"));
    }
}
