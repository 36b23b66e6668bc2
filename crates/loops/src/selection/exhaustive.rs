//! Tries each schedule once, keeps the fastest, and begins again when the loop has changed.
//!
//! Source: Auto4OMP, ExhaustiveSel. One instance decides, so chance may: that is what [`super::auto`] avoids.

use crate::selection::change::Change;
use crate::selection::record::{Record, Select};

/// Selection by one trial of each schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Exhaustive {
    schedules: usize,
    /// The schedule that is tried; `schedules` if all have been.
    trial: usize,
    fastest: (usize, f64),
    change: Change,
}

impl Exhaustive {
    /// Begins with a number of schedules. Zero count as one.
    #[must_use]
    pub fn new(schedules: usize) -> Exhaustive {
        Exhaustive { schedules: schedules.max(1), trial: 0, fastest: (0, f64::INFINITY), change: Change::default() }
    }
}

impl Select for Exhaustive {
    fn select(&mut self) -> usize {
        if self.trial < self.schedules { self.trial } else { self.fastest.0 }
    }

    fn record(&mut self, record: &Record) {
        if self.trial < self.schedules {
            let time = record.per_iteration_ns().unwrap_or(f64::INFINITY);
            if time < self.fastest.1 {
                self.fastest = (self.trial, time);
            }
            self.trial += 1;
        } else if self.change.record(record) {
            *self = Exhaustive::new(self.schedules);
        }
    }
}
