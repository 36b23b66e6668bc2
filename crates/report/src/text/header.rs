//! The first line: what ran, how long, how it ended, who observed and at what cost.

use advise::numbers::{count, counted, seconds};
use ledger::Program;

use super::Page;
use crate::style::{columns, shortened};

/// A command longer than this is cut; the rest of the line says more than its last arguments.
const LONGEST_COMMAND: usize = 48;

pub(super) fn write(page: &mut Page, program: &Program, first: bool) {
    let threads = super::sums(page.document, program).threads;
    let command = if program.command.is_empty() { "all programs".to_owned() } else { program.command.join(" ") };
    let command = shortened(&page.style.clean(&command), LONGEST_COMMAND, &page.style.clean("…"));
    let processes = program.processes.len() as u64;
    let members = if processes > 1 {
        let word = if processes == 1 { "process" } else { "processes" };
        format!("{} {word}, {}", count(processes), counted(threads, "thread"))
    } else {
        counted(threads, "thread")
    };
    let end = program.exit_code.map_or("still running".to_owned(), |code| format!("exit {code}"));
    let mut parts = vec![format!("cox: {command}"), members, format!("{} wall", seconds(program.wall_ns)), end];
    if first {
        parts.push(observer(page));
    }
    let parts: Vec<String> = parts.iter().map(|part| page.style.clean(part)).collect();
    let lines = joined(&parts, &page.style.clean(" · "), page.style.columns());
    for line in lines {
        let line = page.style.title(&line);
        page.add(line);
    }
}

/// A session that saw no program.
pub(super) fn write_empty(page: &mut Page) {
    let line = page.style.clean(&format!("cox: no program was seen · {}", observer(page)));
    page.add(page.style.title(&line));
}

fn observer(page: &Page) -> String {
    let account = &page.document.account;
    let backend = match account.backend.as_str() {
        "bpf" => "eBPF",
        other => other,
    };
    let least = if account.own_cost.kernel_ns.is_none() { "≥ " } else { "" };
    format!(
        "{backend}, {} events, {} lost, own cost {least}{:.1} %",
        count(account.events),
        count(page.document.lost_events),
        page.document.checks.own_cost_share * 100.0
    )
}

/// Joins parts by `separator`, on as many lines as they need.
fn joined(parts: &[String], separator: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if columns(line) + columns(separator) + columns(part) <= width => {
                line.push_str(separator);
                line.push_str(part);
            }
            Some(_) => lines.push(format!("    {part}")),
            None => lines.push(part.clone()),
        }
    }
    lines
}
