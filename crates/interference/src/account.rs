//! Sums intervals by thread and cause.

use std::collections::BTreeMap;

use crate::cause::CauseId;
use crate::interval::Interval;
use crate::lengths::Lengths;

/// What one cause took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Net time, ns.
    pub inside_ns: u64,
    /// Net times of single intervals. Count and maximum are exact, the median within [`crate::lengths::ERROR`].
    pub lengths: Lengths,
}

/// What each cause took from each thread within a window of time.
#[derive(Clone, Debug, Default)]
pub struct Account {
    window: (u64, u64),
    sums: BTreeMap<(u32, CauseId), Sum>,
}

impl Account {
    /// Makes an account of the intervals that end from `begin_ns` to before `end_ns` (CLOCK_MONOTONIC).
    #[must_use]
    pub fn new(begin_ns: u64, end_ns: u64) -> Account {
        Account { window: (begin_ns, end_ns), sums: BTreeMap::new() }
    }

    /// Adds an interval, if it ends within the window.
    pub fn take(&mut self, interval: &Interval) {
        if !(self.window.0..self.window.1).contains(&interval.span.end_ns) {
            return;
        }
        let sum = self.sums.entry((interval.tid, interval.cause)).or_default();
        sum.inside_ns += interval.span.inside_ns;
        sum.lengths.take(interval.span.inside_ns);
    }

    /// Returns the sums of a thread by cause, the largest time first.
    #[must_use]
    pub fn of_thread(&self, tid: u32) -> Vec<(CauseId, &Sum)> {
        let mut sums: Vec<_> = self
            .sums
            .range((tid, CauseId(0))..=(tid, CauseId(u32::MAX)))
            .map(|((_, cause), sum)| (*cause, sum))
            .collect();
        sums.sort_by_key(|(cause, sum)| (std::cmp::Reverse(sum.inside_ns), *cause));
        sums
    }

    /// Returns the sums over all threads by cause, the largest time first.
    #[must_use]
    pub fn total(&self) -> Vec<(CauseId, Sum)> {
        let mut by_cause: BTreeMap<CauseId, Sum> = BTreeMap::new();
        for ((_, cause), sum) in &self.sums {
            let total = by_cause.entry(*cause).or_default();
            total.inside_ns += sum.inside_ns;
            total.lengths.add(&sum.lengths);
        }
        let mut sums: Vec<_> = by_cause.into_iter().collect();
        sums.sort_by_key(|(cause, sum)| (std::cmp::Reverse(sum.inside_ns), *cause));
        sums
    }

    /// Returns the threads from which something was taken, by thread id.
    #[must_use]
    pub fn threads(&self) -> Vec<u32> {
        let mut threads: Vec<u32> = self.sums.keys().map(|(tid, _)| *tid).collect();
        threads.dedup();
        threads
    }
}
