//! Tries each schedule once, keeps the fastest, and begins again when the loop has changed.
//!
//! Source: Auto4OMP, ExhaustiveSel. One instance decides, so chance may: that is what [`super::auto`] avoids.

use crate::selection::change::Change;
use crate::selection::record::{Record, Select};
use crate::selection::verdict::{Reason, Verdict};

/// Selection by one trial of each schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Exhaustive {
    schedules: usize,
    /// The schedule that is tried; `schedules` if all have been.
    trial: usize,
    /// The fastest so far, and its time of an iteration, nanoseconds.
    fastest: (usize, f64),
    /// The same of the second.
    second: Option<(usize, f64)>,
    selections: u64,
    change: Change,
}

impl Exhaustive {
    /// Begins with a number of schedules. Zero count as one.
    #[must_use]
    pub fn new(schedules: usize) -> Exhaustive {
        Exhaustive {
            schedules: schedules.max(1),
            trial: 0,
            fastest: (0, f64::INFINITY),
            second: None,
            selections: 0,
            change: Change::default(),
        }
    }
}

impl Select for Exhaustive {
    fn select(&mut self) -> usize {
        if self.trial < self.schedules { self.trial } else { self.fastest.0 }
    }

    fn verdict(&self) -> Option<Verdict> {
        let (schedule, time) = self.fastest;
        let second = self.second.map(|(second, later)| (second, later / time));
        let verdict = Verdict { schedule, reason: Reason::Fastest, rounds: 1, second, selections: self.selections };
        (self.trial == self.schedules).then_some(verdict)
    }

    fn record(&mut self, record: &Record) {
        if self.trial < self.schedules {
            let time = record.per_iteration_ns().unwrap_or(f64::INFINITY);
            let trial = (self.trial, time);
            if time < self.fastest.1 {
                self.second = Some(std::mem::replace(&mut self.fastest, trial)).filter(|before| before.1.is_finite());
            } else if time.is_finite() && self.second.is_none_or(|second| time < second.1) {
                self.second = Some(trial);
            }
            self.trial += 1;
            self.selections += u64::from(self.trial == self.schedules);
        } else if self.change.record(record) {
            *self = Exhaustive { selections: self.selections, ..Exhaustive::new(self.schedules) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_of_one_trial_each_is_kept() {
        let mut exhaustive = Exhaustive::new(3);
        for (schedule, time_ns) in [(0, 120.0), (1, 100.0), (2, 110.0)] {
            assert_eq!((exhaustive.select(), exhaustive.verdict()), (schedule, None));
            exhaustive.record(&Record { trips: 1, time_ns, lib: 0.0, dispatch: 0.0 });
        }
        let verdict = exhaustive.verdict().unwrap();
        assert_eq!((verdict.schedule, verdict.reason, verdict.selections), (1, Reason::Fastest, 1));
        assert_eq!(verdict.second, Some((2, 1.1)));
    }
}
