//! Co-running programs: which ran when, what the CPUs did, which program could have used their idle time, and for how long each program's threads
//! waited for a CPU that another program had.

use advise::numbers::{duration, seconds};
use ledger::Program;
use ledger::co_run::{CoRun, Idle, MOST, Phase};

use super::page::Page;
use crate::json::Document;
use crate::style::Style;
use crate::table::{Align, Table};

pub(super) fn write(page: &mut Page) {
    let Some(co_run) = &page.document.account.co_run else { return };
    page.gap();
    let style = page.style;
    page.paragraph(&headline(page.document, co_run));
    page.extend(phases(co_run, style).lines(style.columns()));
    page.gap();
    page.extend(waits(co_run, style).lines(style.columns()));
}

/// Formats the programs' names, and how long all of them ran at the same time.
pub(crate) fn headline(document: &Document, co_run: &CoRun) -> String {
    let programs = &document.account.programs;
    let named: Vec<String> = (0..programs.len()).map(|at| named(programs, at)).collect();
    format!(
        "side by side: {}; all ran at the same time for {} of {whole_time}",
        named.join(", "),
        seconds(co_run.all_ran_ns),
        whole_time = seconds(co_run.any_ran_ns)
    )
}

/// Formats a program's letter and name: `A known-spin`.
fn named(programs: &[Program], at: usize) -> String {
    // The process's name at the end of the run: the command itself may begin with a wrapper such as taskset.
    let name = programs[at].processes.first().map_or("?", |process| process.comm.as_str());
    format!("{} {name}", letter(at))
}

/// Formats a table's heading: `thread`, or with the program's letter `A: thread` if there are several programs, since threads and processes of two
/// programs can have the same name. The heading contains the letter and not the name, because headings are never cut and the table must fit the
/// width. The headline explains the letters.
pub(crate) fn of_program(what: &str, programs: &[Program], at: usize) -> String {
    if programs.len() < 2 { what.to_owned() } else { format!("{}: {what}", letter(at)) }
}

/// Returns the letter of a program. Numbers would look like CPU numbers.
pub(crate) fn letter(program: usize) -> String {
    let place = u32::try_from(program).ok().and_then(|program| program.checked_add(10));
    let letter = place.and_then(|place| char::from_digit(place, 36));
    letter.map_or_else(|| "?".to_owned(), |c| c.to_ascii_uppercase().to_string())
}

fn letters(programs: &[usize]) -> String {
    programs.iter().map(|at| letter(*at)).collect::<Vec<_>>().join("+")
}

/// Returns the table of CPU time. Each row is for one set of the observed programs, and covers the time in which exactly these programs were active.
pub(crate) fn phases<'s>(co_run: &CoRun, style: &'s Style) -> Table<'s> {
    let mut table = Table::new(style);
    let phases = &co_run.phases;
    let column = |of: fn(&Phase) -> u64| phases.iter().map(move |phase| duration(of(phase)));
    table.column("programs active", Align::Left, 0, phases.iter().map(|phase| letters(&phase.running)));
    table.column("for", Align::Right, 0, column(|phase| phase.length_ns));
    // The number of columns is limited, because a file may claim thousands of programs, and each of them would add a column.
    for at in 0..co_run.waited.len().min(MOST) {
        let runs = phases.iter().map(move |phase| duration(phase.run_ns.get(at).copied().unwrap_or(0)));
        table.column(&format!("CPU {}", letter(at)), Align::Right, 0, runs);
    }
    table.column("CPU others", Align::Right, 0, column(|phase| phase.others_ns));
    if phases.iter().any(|phase| phase.unseen_ns > 0) {
        table.column("not seen", Align::Right, 2, column(|phase| phase.unseen_ns));
    }
    let idle_ns = |phase: &Phase| phase.idle.iter().fold(0u64, |sum, idle| sum.saturating_add(idle.idle_ns));
    table.column("idle", Align::Right, 0, column(idle_ns));
    let whose = phases.iter().map(|phase| phase.idle.iter().map(whose).collect::<Vec<_>>().join(", "));
    table.column("of it", Align::Right, 1, whose);
    table
}

/// Formats the owner of idle time: the only program that could have used the CPU, several programs together, or no program.
fn whose(idle: &Idle) -> String {
    let who = match idle.usable_by.as_slice() {
        [] => "nobody's".to_owned(),
        [one] => format!("{}'s", letter(*one)),
        several => format!("{} together", letters(several)),
    };
    format!("{who} {}", duration(idle.idle_ns))
}

/// Returns the table of the thread time that each program spent waiting for a CPU, with a column for each program that held the CPU.
pub(crate) fn waits<'s>(co_run: &CoRun, style: &'s Style) -> Table<'s> {
    let mut table = Table::new(style);
    let waited = &co_run.waited;
    let name = |(at, waited): (usize, &ledger::co_run::Waited)| match waited.cpus.as_str() {
        "" => letter(at),
        cpus => format!("{} on CPUs {cpus}", letter(at)),
    };
    table.column("waited for a CPU", Align::Left, 0, waited.iter().enumerate().map(name));
    for at in 0..waited.len().min(MOST) {
        let behind = waited.iter().map(|waited| duration(waited.behind_ns.get(at).copied().unwrap_or(0)));
        table.column(&format!("behind {}", letter(at)), Align::Right, 0, behind);
    }
    table.column("behind others", Align::Right, 0, waited.iter().map(|waited| duration(waited.behind_others_ns)));
    table.column("CPU was idle", Align::Right, 0, waited.iter().map(|waited| duration(waited.behind_idle_ns)));
    if waited.iter().any(|waited| waited.unseen_ns > 0) {
        table.column("not seen", Align::Right, 1, waited.iter().map(|waited| duration(waited.unseen_ns)));
    }
    table
}

#[cfg(test)]
mod tests {
    use ledger::co_run::Waited;

    use super::*;

    #[test]
    fn a_file_may_claim_programs_that_nobody_has_letters_for() {
        assert_eq!([0, 15, 25, 26, u32::MAX as usize - 9, usize::MAX].map(letter), ["A", "P", "Z", "?", "?", "?"]);
    }

    #[test]
    fn a_file_may_claim_more_programs_than_there_can_be() {
        let co_run = CoRun { waited: vec![Waited::default(); 200], ..CoRun::default() };
        let lines = waits(&co_run, &Style { all_threads: true, ..Style::default() }).lines(10_000);
        assert_eq!((lines.len(), lines[0].matches("behind").count()), (201, MOST + 1), "{}", lines[0]);
    }

    #[test]
    fn a_file_may_claim_more_idle_time_than_there_can_be() {
        let idle = Idle { usable_by: vec![0], idle_ns: u64::MAX };
        let co_run =
            CoRun { phases: vec![Phase { idle: vec![idle.clone(), idle], ..Phase::default() }], ..CoRun::default() };
        let lines = phases(&co_run, &Style::default()).lines(100);
        assert!(lines.iter().any(|line| line.contains("18,446,744,074 s")), "{lines:?}");
    }
}
