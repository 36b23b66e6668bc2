//! The first lines: what ran, how long it ran and how it ended; how it was observed and at what cost.

use advise::numbers::{count, counted, duration, seconds};
use ledger::Program;
use wire::Backend;

use super::co_run::of_program;
use super::page::Page;
use crate::json::Document;
use crate::style::{columns, shortened};

/// Minimum number of columns for the command; less would not identify the program.
const SHORTEST_COMMAND: usize = 12;
const CUT: &str = "…";

/// Writes the header of the program at place `at`. The first header also has the backend, the number of events and the cost. If there are several
/// programs, each header has its letter.
pub(super) fn write(page: &mut Page, at: usize, threads: u64) {
    let programs = &page.document.account.programs;
    let (program, first) = (&programs[at], at == 0);
    let start = format!("cox: {}", of_program("", programs, at));
    let tail = page.style.clean(&format!(" · {}", outcome(page.document, program, threads)));
    let observer = if first { page.style.clean(&observer(page.document)) } else { String::new() };
    let joined = if first { page.style.clean(" · ") + &observer } else { String::new() };

    let room = |tail: &str| page.style.columns().saturating_sub(columns(&start) + columns(tail));
    let one_line = format!("{tail}{joined}");
    let words: Vec<String> = match program.command.as_slice() {
        [] => vec!["all programs".to_owned()],
        words => words.iter().map(|word| page.style.clean(word)).collect(),
    };
    let cut = page.style.clean(CUT);
    let lines = match command(&words, room(&one_line), &cut) {
        Some(command) => vec![format!("{start}{command}{one_line}")],
        None => {
            let command = shortened(&words.join(" "), room(&tail), &cut);
            let mut lines = vec![format!("{start}{command}{tail}")];
            lines.extend(first.then(|| format!("    {observer}")));
            lines
        }
    };
    lines.iter().for_each(|line| page.add(page.style.title(line)));
}

/// Formats the number of processes and threads, the wall time, and how the program ended.
pub(crate) fn outcome(document: &Document, program: &Program, threads: u64) -> String {
    let processes = program.processes.len() as u64;
    let members = if processes > 1 {
        format!("{} processes, {}", count(processes), counted(threads, "thread"))
    } else {
        counted(threads, "thread")
    };
    let end = match program.exit_code {
        Some(code) => match signal_name(code) {
            Some(signal) => format!("exit {code} ({signal})"),
            None => format!("exit {code}"),
        },
        // perf does not record how a program ends.
        None if document.account.backend == Backend::PerfData => "recorded".to_owned(),
        None => "still running".to_owned(),
    };
    format!("{members} · {} wall · {end}", seconds(program.wall_ns))
}

/// Returns the signal that a shell's exit code stands for (128 plus its number). A program may also return such a code itself.
fn signal_name(code: i32) -> Option<&'static str> {
    /// The names of the signals 1 to 15.
    const FIRST: [&str; 15] = [
        "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1",
        "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM",
    ];
    // These numbers are the same on all architectures that cox runs on; alpha, mips, parisc and sparc have others.
    match code.checked_sub(128)? {
        24 => Some("SIGXCPU"),
        25 => Some("SIGXFSZ"),
        31 => Some("SIGSYS"),
        number => FIRST.get(usize::try_from(number).ok()?.checked_sub(1)?).copied(),
    }
}

/// Shortens a command to `room` columns: keeps as many words as fit and ends with `cut` in place of the others. `None` if not even the program's file
/// name fits.
fn command(words: &[String], room: usize, cut: &str) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    let whole = words.join(" ");
    if columns(&whole) <= room {
        return Some(whole);
    }
    let file = program.rsplit('/').next().unwrap_or(program);
    let fits = |text: &str| columns(text) <= room && room >= SHORTEST_COMMAND;
    let with = |program: &str, kept: usize| {
        let dropped = (kept < arguments.len()).then(|| cut.to_owned());
        let words = std::iter::once(program.to_owned()).chain(arguments[..kept].iter().cloned()).chain(dropped);
        words.collect::<Vec<_>>().join(" ")
    };
    let shorter = (0..=arguments.len()).rev().flat_map(|kept| [with(program, kept), with(file, kept)]);
    shorter.into_iter().find(|text| fits(text))
}

/// Writes the header of a session that observed no program.
pub(super) fn write_empty(page: &mut Page) {
    let line = page.style.clean(&format!("cox: no program was seen · {}", observer(page.document)));
    page.add(page.style.title(&line));
}

/// Formats the backend, the number of events seen and lost, and the cost.
pub(crate) fn observer(document: &Document) -> String {
    let account = &document.account;
    let backend = match account.backend {
        Backend::Bpf => "eBPF",
        Backend::Perf | Backend::PerfData => "perf",
        Backend::Proc => "proc",
    };
    if account.backend == Backend::PerfData {
        // perf does not say what recording cost.
        return format!("{backend}, {} events, {} lost", count(account.events), count(document.lost_events));
    }
    format!(
        "{backend}, {} events, {} lost, own cost {}",
        count(account.events),
        count(document.lost_events),
        own_cost(document)
    )
}

/// Formats the cost of observing: CPU time, and the part of one CPU if the window is long enough.
pub(crate) fn own_cost(document: &Document) -> String {
    let checks = &document.checks;
    let least = if document.account.own_cost.kernel_ns.is_none() { "≥ " } else { "" };
    let share =
        checks.own_cost_of_one_cpu.map_or_else(String::new, |share| format!(", {:.1} % of one CPU", share * 100.0));
    format!("{least}{}{share}", duration(checks.own_cost_ns))
}

#[cfg(test)]
mod tests {
    use super::{command, signal_name};

    #[test]
    fn deaths_by_signals_have_their_names() {
        assert_eq!([139, 134, 137].map(signal_name), [Some("SIGSEGV"), Some("SIGABRT"), Some("SIGKILL")]);
        assert_eq!([0, 1, 127, 128, 255, -1, i32::MIN].map(signal_name), [None; 7]);
    }

    fn shown(words: &[&str], room: usize) -> Option<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        command(&words, room, "…")
    }

    #[test]
    fn a_command_loses_its_folder_and_its_tail() {
        let heat = ["./heat", "4096", "200"];
        assert_eq!(shown(&heat, 15), Some("./heat 4096 200".into()));
        assert_eq!(shown(&heat, 14), Some("heat 4096 200".into()));
        assert_eq!(shown(&heat, 12), Some("heat 4096 …".into()));
        let barriers = ["target/workloads/barriers", "--threads", "3"];
        assert_eq!(shown(&barriers, 27), Some("barriers --threads 3".into()));
        assert_eq!(shown(&barriers, 16), Some("barriers …".into()));
    }

    #[test]
    fn what_would_not_tell_is_not_shown() {
        assert_eq!(shown(&["heat", "4096", "200"], 11), None);
        assert_eq!(shown(&["a-name-that-is-long", "1"], 15), None);
    }
}
