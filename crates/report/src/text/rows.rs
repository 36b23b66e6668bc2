//! Rows of the table of threads or programs. Times of a row are rounded together, so that
//! `work + spin + wake-delay + preempted + blocked + unknown = wall` holds for what is printed.

use std::collections::BTreeMap;

use advise::numbers::{count, cpu_list};
use ledger::Thread;
use ledger::summary::Sums;

use super::Page;
use crate::round::apportion;
use crate::style::Style;
use crate::table::{Align, Table};

/// One line of the table.
pub(crate) struct Row {
    pub label: String,
    pub sums: Sums,
    pub cpus: BTreeMap<String, u64>,
}

impl Row {
    pub(crate) fn of<'a>(label: String, threads: impl IntoIterator<Item = &'a Thread>) -> Row {
        let threads: Vec<&Thread> = threads.into_iter().collect();
        let mut cpus: BTreeMap<String, u64> = BTreeMap::new();
        for (cpu, ns) in threads.iter().flat_map(|thread| &thread.cpus) {
            // Nearly always there: look before making the key.
            match cpus.get_mut(cpu.as_ref()) {
                Some(sum) => *sum = sum.saturating_add(*ns),
                None => _ = cpus.insert(cpu.to_string(), *ns),
            }
        }
        Row { label, sums: Sums::over(threads), cpus }
    }
}

/// Thread time that a group lost; see [`lost_ns`].
pub(super) fn lost_by_group(sums: &Sums) -> u64 {
    let blocked_by = sums.blocked_by.iter().map(|(cause, ns)| (cause.as_str(), *ns));
    lost_ns(sums.spin_ns, sums.wake_delay_ns, sums.preempt_wait_ns, blocked_by)
}

/// … that a thread lost.
pub(crate) fn lost_by_thread(thread: &Thread) -> u64 {
    let blocked_by = thread.blocked_by.iter().map(|(cause, ns)| (cause.as_ref(), *ns));
    lost_ns(thread.spin_ns, thread.wake_delay_ns, thread.preempt_wait_ns, blocked_by)
}

/// Everything but work, unknown time, and waiting the program asks for; all blocked time has a cause.
fn lost_ns<'a>(
    spin_ns: u64,
    wake_delay_ns: u64,
    preempt_wait_ns: u64,
    blocked_by: impl Iterator<Item = (&'a str, u64)>,
) -> u64 {
    let intended = ["sleep", "poll", "pipe", "child_wait", "stopped"];
    let blocked = blocked_by.filter(|(cause, _)| !intended.contains(cause)).map(|(_, ns)| ns);
    blocked.chain([spin_ns, wake_delay_ns, preempt_wait_ns]).fold(0, u64::saturating_add)
}

/// The unit of a table's times: nanoseconds per printed step, decimals, and name.
struct Unit {
    step_ns: u64,
    decimals: usize,
    name: &'static str,
}

impl Unit {
    fn for_times_up_to(ns: u64) -> Unit {
        let (step_ns, decimals, name) = match ns {
            1_000_000_000_000.. => (1_000_000_000, 0, "s"),
            1_000_000_000.. => (10_000_000, 2, "s"),
            1_000_000.. => (10_000, 2, "ms"),
            _ => (10, 2, "µs"),
        };
        Unit { step_ns, decimals, name }
    }

    fn text(&self, steps: u64) -> String {
        let per_unit = 10u64.pow(self.decimals as u32);
        let whole = count(steps / per_unit);
        match self.decimals {
            0 => format!("{whole} {}", self.name),
            decimals => format!("{whole}.{:0decimals$} {}", steps % per_unit, self.name),
        }
    }
}

/// Headings in the order of the times in a row.
const TIMES: [&str; 6] = ["work", "spin", "wake-delay", "preempted", "blocked", "unknown"];

/// Adds the table of `rows` to the page.
pub(super) fn write(page: &mut Page, heading: &str, rows: &[Row]) {
    if !rows.is_empty() {
        let lines = table(page.style, heading, rows).lines(page.style.columns());
        page.extend(lines);
    }
}

/// The table of `rows`.
pub(crate) fn table<'s>(style: &'s Style, heading: &str, rows: &[Row]) -> Table<'s> {
    let longest = rows.iter().map(|row| row.sums.wall_ns).max().unwrap_or(0);
    let unit = Unit::for_times_up_to(longest);
    let divided: Vec<(u64, Vec<u64>)> = rows.iter().map(|row| divide(&row.sums, &unit)).collect();

    let mut table = Table::new(style);
    table.column(heading, Align::Left, 0, rows.iter().map(|row| row.label.clone()));
    table.column("wall", Align::Right, 0, divided.iter().map(|(wall, _)| unit.text(*wall)));
    for (at, time) in TIMES.iter().enumerate() {
        // What a backend does not see, and an unknown time of nothing, need no column.
        let shown = match *time {
            "spin" | "wake-delay" | "unknown" => divided.iter().any(|(_, parts)| parts[at] > 0),
            _ => true,
        };
        if shown {
            table.column(time, Align::Right, 0, divided.iter().map(|(_, parts)| unit.text(parts[at])));
        }
    }
    let switches = |sums: &Sums| format!("{}/{}", count(sums.switches_voluntary), count(sums.switches_involuntary));
    table.column("switches v/i", Align::Right, 1, rows.iter().map(|row| switches(&row.sums)));
    if rows.iter().any(|row| row.sums.migrations_total() > 0) {
        table.column("migr.", Align::Right, 2, rows.iter().map(|row| count(row.sums.migrations_total())));
    }
    if rows.iter().any(|row| !row.cpus.is_empty()) {
        table.column("CPUs", Align::Left, 3, rows.iter().map(|row| cpus_used(&row.cpus)));
    }
    table
}

/// Wall and its parts in printed steps.
fn divide(sums: &Sums, unit: &Unit) -> (u64, Vec<u64>) {
    let known = [sums.work_ns, sums.spin_ns, sums.wake_delay_ns, sums.preempt_wait_ns, sums.blocked_ns];
    let booked = known.iter().fold(sums.unknown_ns, |sum, ns| sum.saturating_add(*ns));
    let unknown = sums.unknown_ns.saturating_add(sums.wall_ns.saturating_sub(booked));
    let wall = sums.wall_ns.max(booked).saturating_add(unit.step_ns / 2) / unit.step_ns;
    let parts: Vec<u64> = known.into_iter().chain([unknown]).collect();
    (wall, apportion(&parts, wall))
}

/// The CPUs with run time: `0-1`, or how many where the list would be long.
fn cpus_used(cpus: &BTreeMap<String, u64>) -> String {
    let ran = |(cpu, ns): (&String, &u64)| if *ns > 0 { Some(cpu.parse::<u32>().ok()) } else { None };
    let used: Vec<Option<u32>> = cpus.iter().filter_map(ran).collect();
    let numbers: Vec<u32> = used.iter().filter_map(|cpu| *cpu).collect();
    let more = if numbers.len() < used.len() { "+" } else { "" };
    let list = cpu_list(&numbers) + more;
    if list.len() > 9 { format!("{}{more} CPUs", numbers.len()) } else { list }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_longest_time() {
        let text = |ns: u64| {
            let unit = Unit::for_times_up_to(ns);
            unit.text(ns / unit.step_ns)
        };
        let ns = [12_410_000_000, 1_204_000_000_000, 21_500_000, 6_200];
        assert_eq!(ns.map(text), ["12.41 s", "1,204 s", "21.50 ms", "6.20 µs"]);
    }

    #[test]
    fn parts_of_a_row_sum_to_its_wall() {
        let third = 3_333_333_333;
        let sums = Sums { wall_ns: 3 * third, work_ns: third, spin_ns: third, blocked_ns: third, ..Sums::default() };
        let (wall, parts) = divide(&sums, &Unit::for_times_up_to(sums.wall_ns));
        assert_eq!((wall, parts.iter().sum::<u64>()), (1000, 1000));
    }

    #[test]
    fn long_cpu_lists_become_a_number() {
        let cpus = |numbers: &[&str]| cpus_used(&numbers.iter().map(|cpu| ((*cpu).to_owned(), 1)).collect());
        assert_eq!((cpus(&["0", "1"]), cpus(&["0", "2", "4", "6", "8", "other"])), ("0-1".into(), "5+ CPUs".into()));
    }
}
