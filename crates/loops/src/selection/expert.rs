//! Rules from load imbalance and the cost of requests.
//!
//! Schedules are ordered by overhead; later ones balance better. After each instance:
//!
//! 1. If requests cost more than imbalance, the selection goes one step back.
//! 2. Else if LIB is above 10 %, it goes two steps on; if it is above 4 %, one step.
//! 3. Else it stays: below 4 %, another schedule gains little.
//! 4. If a step made an iteration slower by more than 5 %, it is taken back, and the selection rests for 16 instances.
//!
//! Source: the thresholds are those of Auto4OMP's ExpertSel, which puts them into fuzzy rules.

use crate::selection::record::{Record, Select};
use crate::selection::verdict::{Reason, Verdict};

/// LIB above which another schedule may gain.
const MEDIUM: f64 = 0.04;

/// LIB above which the schedule is far from right.
const LARGE: f64 = 0.1;

/// A step that makes the loop slower by this factor is taken back.
const WORSE: f64 = 1.05;

/// Instances without a step after one was taken back.
const REST: u32 = 16;

/// Selection by rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Expert {
    schedules: usize,
    selected: usize,
    /// The schedule before the last step, and its time of an iteration, nanoseconds.
    before: Option<(usize, f64)>,
    rest: u32,
    /// Schedules that were selected one after the other.
    selections: u64,
}

impl Expert {
    /// Begins with a number of schedules, and the one with the lowest overhead. Zero count as one.
    #[must_use]
    pub fn new(schedules: usize) -> Expert {
        Expert { schedules: schedules.max(1), selected: 0, before: None, rest: 0, selections: 1 }
    }
}

impl Select for Expert {
    fn select(&mut self) -> usize {
        self.selected
    }

    fn verdict(&self) -> Option<Verdict> {
        let Expert { selected, selections, .. } = *self;
        Some(Verdict { schedule: selected, reason: Reason::Rules, rounds: 0, second: None, selections })
    }

    fn record(&mut self, record: &Record) {
        let Some(time) = record.per_iteration_ns() else { return };
        if let Some((before, time_before)) = self.before.take()
            && time > time_before * WORSE
        {
            (self.selected, self.rest) = (before, REST);
            self.selections += 1;
            return;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return;
        }
        let next = if record.dispatch > record.lib.max(MEDIUM) {
            self.selected.saturating_sub(1)
        } else if record.lib > LARGE {
            self.selected + 2
        } else if record.lib > MEDIUM {
            self.selected + 1
        } else {
            self.selected
        };
        let next = next.min(self.schedules - 1);
        if next != self.selected {
            self.before = Some((self.selected, time));
            self.selected = next;
            self.selections += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time_ns: f64, lib: f64, dispatch: f64) -> Record {
        Record { trips: 1, time_ns, lib, dispatch }
    }

    #[test]
    fn imbalance_leads_on_and_requests_lead_back() {
        let mut expert = Expert::new(4);
        expert.record(&record(100.0, 0.3, 0.0));
        assert_eq!(expert.select(), 2);
        expert.record(&record(90.0, 0.05, 0.0));
        assert_eq!(expert.select(), 3);
        expert.record(&record(90.0, 0.01, 0.2));
        assert_eq!(expert.select(), 2);
        expert.record(&record(90.0, 0.01, 0.01));
        assert_eq!(expert.select(), 2);
        let verdict = expert.verdict().unwrap();
        assert_eq!((verdict.schedule, verdict.reason, verdict.selections), (2, Reason::Rules, 4));
    }

    #[test]
    fn a_step_that_costs_is_taken_back() {
        let mut expert = Expert::new(4);
        expert.record(&record(100.0, 0.05, 0.0));
        expert.record(&record(120.0, 0.05, 0.0));
        assert_eq!(expert.select(), 0);
        for _ in 0..REST {
            expert.record(&record(100.0, 0.05, 0.0));
            assert_eq!(expert.select(), 0);
        }
        expert.record(&record(100.0, 0.05, 0.0));
        assert_eq!(expert.select(), 1);
    }
}
