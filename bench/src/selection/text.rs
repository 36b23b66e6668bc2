//! The tables.

use std::fmt::Write;

use super::judge::Judged;
use super::{Mean, Table};
use crate::stats::{median, quartiles, shown};

/// Returns the table of a loop.
pub fn table(table: &Table, instances: u32) -> String {
    let heading = format!("{}: {}, {} threads, {instances} instances", table.program.name(), table.name, table.threads);
    let mut text =
        format!("{heading}\n  {:16}{:>12}{:>22}   / best single (95 %)\n", "us per instance", "median", "quartiles");
    for row in &table.rows {
        let us: Vec<f64> = row.times.ns.iter().map(|ns| ns / 1e3).collect();
        let (first, third) = quartiles(&us);
        let quartiles = format!("{first:.1} .. {third:.1}");
        let _ = write!(text, "  {:16}{:12.1}{quartiles:>22}   {}", row.times.name, median(&us), judged(&row.judged));
        let selected: Vec<String> = row.selected.iter().map(|(name, count)| format!("{name} {count}")).collect();
        if !selected.is_empty() {
            let _ = write!(text, "   {}", selected.join(", "));
        }
        text.push('\n');
    }
    if !table.excluded.is_empty() {
        let _ = writeln!(text, "  not measured after the first round: {}", table.excluded.join(", "));
    }
    text
}

/// Returns the line of a mean.
pub fn mean(mean: &Mean) -> String {
    format!("{} threads, mean of all loops: auto / {} {}\n", mean.threads, mean.peer, judged(&mean.judged))
}

fn judged(judged: &Judged) -> String {
    let ratio = shown(&judged.ratio, 3);
    match (judged.limit, judged.outcome) {
        (Some(limit), Some(outcome)) => format!("{ratio}   limit {limit}: {}", outcome.word()),
        _ => ratio,
    }
}
