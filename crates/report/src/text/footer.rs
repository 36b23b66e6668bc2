//! What the report was checked against, which processes were left running, and what was lost.

use std::collections::BTreeMap;

use advise::numbers::{count, counted, duration};
use ledger::{Program, Thread};

use super::page::Page;
use crate::checks::Compared;
use crate::json::Document;

/// Maximum number of processes named that were still running.
const LEFT: usize = 6;

pub(super) fn write(page: &mut Page) {
    page.paragraph(&checked(page.document));
    for program in &page.document.account.programs {
        left_behind(page, program);
    }
    changed_users(page);
    losses(page);
    taken(page);
}

/// Writes in one line where and when the run was measured. The JSON and the page have all known details.
fn taken(page: &mut Page) {
    let Some(provenance) = &page.document.account.provenance else { return };
    let kernel = provenance.kernel.as_ref().map(|kernel| format!("Linux {kernel}"));
    let rank = provenance.mpi_rank.map(|rank| match provenance.mpi_size {
        Some(size) => format!("rank {rank} of {size}"),
        None => format!("rank {rank}"),
    });
    let container = provenance.container.as_ref().map(|name| format!("in a container ({name})"));
    let parts =
        [&provenance.host, &provenance.date, &kernel, &provenance.cpu_model, &container, &provenance.job, &rank];
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    if !parts.is_empty() {
        page.paragraph(&format!("taken on {}", parts.join(", ")));
    }
}

/// Writes which threads cox stopped observing, because they changed their user or got capabilities.
fn changed_users(page: &mut Page) {
    let threads: Vec<&Thread> =
        ledger::summary::threads(&page.document.account).filter(|thread| thread.changed_user).collect();
    if threads.is_empty() {
        return;
    }
    page.paragraph(&format!(
        "no longer observed after a change of user or new capabilities: {} ({})",
        named(threads.iter().map(|thread| (thread.tid, thread.comm.as_str()))),
        counted(threads.len() as u64, "thread")
    ));
}

/// Returns the ids and names of processes or threads. If there are more than [`LEFT`], the others are only counted.
fn named<'n>(all: impl ExactSizeIterator<Item = (u32, &'n str)>) -> String {
    let more = if all.len() > LEFT { format!(" and {} more", all.len() - LEFT) } else { String::new() };
    let named: Vec<String> = all.take(LEFT).map(|(id, name)| format!("{id} {name}")).collect();
    named.join(", ") + &more
}

/// The kernel's figure with which cox compares its waits for a CPU.
const RUN_DELAY: &str = "kernel's run_delay";

/// A difference up to this part of the kernel's figure needs no explanation.
const SMALL: f64 = 0.05;

/// Longest time, ns, by which cox's waits begin earlier than the kernel's, on average for each wake-up: the time in which a CPU leaves its idle state. A
/// longer one has another cause.
const LEAVES_IDLE_NS: u64 = 100_000;

/// Explains a difference of the sums of waits; `None` if the wake-ups do not explain it.
fn begins_earlier(sums: Compared) -> Option<String> {
    let earlier_ns = sums.earlier_ns().filter(|ns| *ns <= LEAVES_IDLE_NS)?;
    let (kernel, ours, earlier) = (duration(sums.kernel_ns), duration(sums.ours_ns), duration(earlier_ns));
    Some(format!("; {RUN_DELAY} {kernel}, cox {ours}: cox's waits begin {earlier} earlier, on average per wake-up"))
}

/// Formats the results of the self-checks.
pub(crate) fn checked(document: &Document) -> String {
    let checks = &document.checks;
    let mut line = format!("check: states sum to wall (worst {:.2} %)", checks.worst_gap * 100.0);
    if let Some(capacity_ns) = checks.capacity_ns.filter(|_| checks.capacity_exceeded) {
        let (run, capacity) = (duration(checks.run_ns), duration(capacity_ns));
        line.push_str(&format!("; run {run} is MORE than the time of all CPUs ({capacity}) or of one CPU"));
    }
    if checks.contradictions > 0 {
        line.push_str(&format!("; {}", counted(checks.contradictions, "contradicting event")));
    }
    let compared = [
        (RUN_DELAY, checks.run_delay, checks.run_delay_difference),
        ("kernel's CPU clocks", checks.cpu_time, checks.cpu_time_difference),
    ];
    for (what, sums, difference) in compared {
        if let Some(text) = sums.filter(|_| what == RUN_DELAY && difference > Some(SMALL)).and_then(begins_earlier) {
            line.push_str(&text);
            continue;
        }
        line.push_str(&match (difference, sums) {
            (Some(difference), Some(sums)) => {
                let (percent, base) = (difference * 100.0, duration(sums.kernel_ns));
                format!("; {what} agrees within {percent:.1} % of {base}").replace("clocks agrees", "clocks agree")
            }
            (Some(difference), None) => format!("; {what}: difference {:.1} %", difference * 100.0),
            (None, Some(sums)) => {
                let (kernel, ours) = (duration(sums.kernel_ns), duration(sums.ours_ns));
                format!("; {what} {kernel}, cox {ours} (too short to compare)")
            }
            (None, None) => String::new(),
        });
    }
    line
}

/// Writes which tracked processes outlived a program that has ended.
fn left_behind(page: &mut Page, program: &Program) {
    if program.exit_code.is_none() {
        return;
    }
    let mut left: BTreeMap<(u32, &str), u64> = BTreeMap::new();
    for process in &program.processes {
        let alive = process.threads.iter().filter(|thread| thread.alive).count() as u64;
        if alive > 0 {
            left.insert((process.pid, process.comm.as_str()), alive);
        }
    }
    if left.is_empty() {
        return;
    }
    page.paragraph(&format!(
        "still running when the program ended: {} ({}); their times are counted until then",
        named(left.keys().copied()),
        counted(left.values().sum(), "thread")
    ));
}

fn losses(page: &mut Page) {
    let named = lost(page.document);
    if named.is_empty() {
        return;
    }
    let style = page.style;
    let lines = style.wrapped(&format!("lost: {}", named.join(", ")), "  ", "    ");
    page.extend(lines.iter().map(|line| style.warning(line)));
}

/// Returns what was lost, by kind. Empty if nothing was lost.
pub(crate) fn lost(document: &Document) -> Vec<String> {
    let lost = &document.account.lost;
    let kinds = [
        (lost.events, "scheduler events not handled"),
        (lost.members, "threads that could not be tracked"),
        (lost.finals, "threads included only in totals"),
        (lost.samples, "samples"),
        (lost.pairs, "wake-ups whose waker is unknown"),
        (lost.idle_split, "updates of idle/waited and idle/blocked"),
        (lost.trace_events, "trace events"),
    ];
    let mut named: Vec<String> =
        kinds.iter().filter(|(lost, _)| *lost > 0).map(|(lost, what)| format!("{} {what}", count(*lost))).collect();
    let behind = (lost.preemptors_ns > 0).then(|| duration(lost.preemptors_ns));
    named.extend(behind.map(|time| format!("{time} of waiting behind programs whose names were not recorded")));
    named
}
