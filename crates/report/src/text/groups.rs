//! The table by program name, for runs with too many processes to list: one line per name, with sums.

use std::collections::BTreeMap;

use ledger::{Process, Program};

use super::rows::{Row, lost_ns};

/// Maximum number of names listed.
const LISTED: usize = 10;

/// If a program has more processes than this, processes with the same name share one line.
const MOST_PROCESSES: usize = 10;

/// Returns whether a program has too many processes to list.
pub(crate) fn are_wanted(program: &Program) -> bool {
    program.processes.len() > MOST_PROCESSES
}

/// Returns the rows of one program. Processes of another program are not counted here, even if they have the same name.
pub(crate) fn rows(program: &Program) -> Vec<Row> {
    let mut names: BTreeMap<&str, Vec<&Process>> = BTreeMap::new();
    for process in &program.processes {
        names.entry(process.comm.as_str()).or_default().push(process);
    }
    let row = |label, processes: &[&Process]| Row::of(label, processes.iter().flat_map(|process| &process.threads));
    let mut groups: Vec<(Row, Vec<&Process>)> = Vec::new();
    for (name, processes) in names {
        groups.push((row(format!("{name} × {}", processes.len()), &processes), processes));
    }
    groups.sort_by_key(|(row, _)| std::cmp::Reverse(lost_ns(&row.sums)));
    let others = groups.split_off(groups.len().min(LISTED));
    let mut rows: Vec<Row> = groups.into_iter().map(|(row, _)| row).collect();
    if !others.is_empty() {
        let processes: Vec<&Process> = others.iter().flat_map(|(_, processes)| processes.iter().copied()).collect();
        rows.push(row(format!("{} more names × {}", others.len(), processes.len()), &processes));
    }
    rows.extend(program.unlisted.as_ref().map(|unlisted| Row::of("unlisted".to_owned(), [unlisted])));
    rows
}
