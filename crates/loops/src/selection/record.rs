//! What a selection learns from an instance, and what it answers.

use crate::selection::verdict::Verdict;

/// A finished instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Iterations.
    pub trips: u64,
    /// Time from the start to the end of the last thread, nanoseconds.
    pub time_ns: f64,
    /// Load imbalance, 0 to 1 ([`crate::figures`]).
    pub lib: f64,
    /// Time of all requests divided by the time of all threads, 0 to 1.
    pub dispatch: f64,
}

impl Record {
    /// Returns the time of an iteration, nanoseconds; `None` if the record cannot be used.
    #[must_use]
    pub fn per_iteration_ns(&self) -> Option<f64> {
        Some(self.time_ns / self.trips as f64).filter(|time| time.is_finite() && *time > 0.0)
    }
}

/// A way to select. Schedules are indices into a portfolio that is ordered by overhead.
pub trait Select {
    /// Returns the schedule for the next instance.
    fn select(&mut self) -> usize;
    /// Records an instance that was executed with the selected schedule.
    fn record(&mut self, record: &Record);
    /// Returns what was selected, and why; `None` during trials.
    fn verdict(&self) -> Option<Verdict>;
}
