//! Rows of the table of threads or programs. The times of a row are rounded together, so that `work + spin + kernel-sync + wake-delay + preempted +
//! blocked + unknown = wall` holds for the printed values.

use advise::numbers::{count, cpu_list};
use ledger::Thread;
use ledger::account::thread;
use ledger::causes::INTENDED;
use ledger::figures::{Figure, RunByCpu};
use ledger::summary::Sums;

use super::page::Page;
use crate::round::apportion;
use crate::style::Style;
use crate::table::{Align, Table};

/// One line of the table.
pub(crate) struct Row {
    pub label: String,
    pub sums: Sums,
}

impl Row {
    pub(crate) fn of<'a>(label: String, threads: impl IntoIterator<Item = &'a Thread>) -> Row {
        Row { label, sums: Sums::over(threads) }
    }
}

/// Returns the thread time that is lost: all but work, unknown time, and waits that the program intends. `blocked_by` contains all blocked
/// time, because blocks of unknown cause have an entry there, too.
pub(crate) fn lost_ns(thread: &Thread) -> u64 {
    let blocked = thread.blocked_by.total().saturating_sub(thread.blocked_by.of(&INTENDED));
    [thread.spin_ns, thread.kernel_sync_ns, thread.wake_delay_ns, thread.preempt_wait_ns]
        .into_iter()
        .fold(blocked, u64::saturating_add)
}

/// The unit of a table's times: nanoseconds per printed step, number of decimals, and name.
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

/// The times of a row, which sum to its wall time; unknown time is the remainder. The flag is true for columns that are always shown. Any other
/// column is left out if its time is 0 in all rows, for example because the backend does not see it.
const TIMES: [(Figure<Thread>, bool); 7] = [
    (thread::work_ns, true),
    (thread::spin_ns, false),
    (thread::kernel_sync_ns, false),
    (thread::wake_delay_ns, false),
    (thread::preempt_wait_ns, true),
    (thread::blocked_ns, true),
    (thread::unknown_ns, false),
];

/// Adds the table of `rows` to the page.
pub(super) fn write(page: &mut Page, heading: &str, rows: &[Row]) {
    if !rows.is_empty() {
        let lines = table(page.style, heading, rows).lines(page.style.columns());
        page.extend(lines);
    }
}

/// Builds the table of `rows`.
pub(crate) fn table<'s>(style: &'s Style, heading: &str, rows: &[Row]) -> Table<'s> {
    let longest = rows.iter().map(|row| row.sums.wall_ns).max().unwrap_or(0);
    let unit = Unit::for_times_up_to(longest);
    let divided: Vec<(u64, Vec<u64>)> = rows.iter().map(|row| divide(&row.sums, &unit)).collect();

    let mut table = Table::new(style);
    table.column(heading, Align::Left, 0, rows.iter().map(|row| row.label.clone()));
    table.column(thread::wall_ns.label, Align::Right, 0, divided.iter().map(|(wall, _)| unit.text(*wall)));
    for (at, (time, always)) in TIMES.iter().enumerate() {
        if *always || divided.iter().any(|(_, parts)| parts[at] > 0) {
            table.column(time.label, Align::Right, 0, divided.iter().map(|(_, parts)| unit.text(parts[at])));
        }
    }
    let switches = |sums: &Sums| format!("{}/{}", count(sums.switches_voluntary), count(sums.switches_involuntary));
    table.column("switches v/i", Align::Right, 1, rows.iter().map(|row| switches(&row.sums)));
    let migrations = rows.iter().map(|row| row.sums.migrations.total());
    if migrations.clone().any(|number| number > 0) {
        table.column(thread::migrations.label, Align::Right, 2, migrations.map(count));
    }
    if rows.iter().any(|row| row.sums.cpus != RunByCpu::default()) {
        table.column(thread::cpus.label, Align::Left, 3, rows.iter().map(|row| cpus_used(&row.sums.cpus)));
    }
    table
}

/// Returns the wall time and its parts, in printed steps.
fn divide(sums: &Sums, unit: &Unit) -> (u64, Vec<u64>) {
    let mut parts: Vec<u64> = TIMES.iter().map(|(time, _)| (time.value)(sums).unwrap_or(0)).collect();
    let booked = parts.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns));
    // Time that belongs to no state counts as unknown: it lies between events that contradict one another.
    if let Some(unknown) = parts.last_mut() {
        *unknown = unknown.saturating_add(sums.wall_ns.saturating_sub(booked));
    }
    let wall = sums.wall_ns.max(booked).saturating_add(unit.step_ns / 2) / unit.step_ns;
    (wall, apportion(&parts, wall))
}

/// Formats the CPUs with run time: `0-1`, or their number if the list would be long.
fn cpus_used(cpus: &RunByCpu) -> String {
    let numbers: Vec<u32> = cpus.cpus().collect();
    let more = if cpus.other_ns() > 0 { "+" } else { "" };
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
        let thread =
            Thread { wall_ns: 3 * third, run_ns: 2 * third, spin_ns: third, blocked_ns: third, ..Thread::default() };
        let sums = Sums::over([&thread]);
        let (wall, parts) = divide(&sums, &Unit::for_times_up_to(sums.wall_ns));
        assert_eq!((wall, parts.iter().sum::<u64>()), (1000, 1000));
    }

    #[test]
    fn long_cpu_lists_become_a_number() {
        let used = |cpus: &[Option<u32>]| cpus_used(&cpus.iter().map(|cpu| (*cpu, 1)).collect());
        assert_eq!(used(&[Some(0), Some(1)]), "0-1");
        assert_eq!(used(&[Some(0), Some(2), Some(4), Some(6), Some(8), None]), "5+ CPUs");
    }
}
