//! What ticks did.

use advise::numbers::{count, counted, duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::style::Style;
use crate::table::{Align, Table};

/// Number of groups that the text lists.
const LISTED: usize = 4;
/// Widest column of names.
const NAMES: usize = 52;

/// Detours with a timer tick that contain the same causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TickGroup {
    /// What the ticks did: `tick alone`, `tick + softirq SCHED`.
    pub what: String,
    /// Number of detours.
    pub count: u64,
    /// Sum of their lengths. For quanta and steps, what they took longer than the shortest one.
    pub sum_ns: u64,
    /// Median length.
    pub median_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// The sum by what took the time: the function of the tick first, entering and leaving the kernel last.
    pub parts: Vec<TickPart>,
}

/// A part of the time of ticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TickPart {
    /// What took the time: `tick function`, a softirq, a function of a timer, a work item, `other threads`; `entry and exit` for entering and
    /// leaving the kernel, to which the variation of the work of quanta and steps adds.
    pub what: String,
    /// Its class, as of causes; `entry` is entering and leaving the kernel.
    pub class: String,
    /// Time over all detours of the group.
    pub sum_ns: u64,
}

/// Returns the largest groups as a table, and a line about the others. `seconds`: length of the measurement.
pub(super) fn lines(groups: &[TickGroup], seconds: f64, style: &Style) -> Vec<String> {
    let mut lines = table(&groups[..groups.len().min(LISTED)], seconds, style).lines(style.columns());
    if let Some(rest) = groups.get(LISTED..).filter(|rest| !rest.is_empty()) {
        let sum_ns: u64 = rest.iter().map(|group| group.sum_ns).sum();
        let more =
            format!("{} more: {:.1} µs/s", counted(rest.len() as u64, "combination"), sum_ns as f64 / 1e3 / seconds);
        lines.extend(style.wrapped(&more, "  ", "    "));
    }
    lines
}

/// Returns groups as a table.
pub(crate) fn table<'s>(groups: &[TickGroup], seconds: f64, style: &'s Style) -> Table<'s> {
    let mut table = Table::new(style).with_names_of(NAMES);
    table.column("what ticks did", Align::Left, 0, groups.iter().map(|group| group.what.clone()));
    table.column("ticks", Align::Right, 2, groups.iter().map(|group| count(group.count)));
    table.column("median", Align::Right, 1, groups.iter().map(|group| duration(group.median_ns)));
    table.column("max", Align::Right, 0, groups.iter().map(|group| duration(group.max_ns)));
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3 / seconds);
    table.column("µs/s", Align::Right, 0, groups.iter().map(|group| us(group.sum_ns)));
    table
}
