//! The larger the load imbalance, the more likely is another schedule, chosen at random.
//!
//! Source: Auto4OMP, RandomSel: the probability is ten times LIB, at most 1.

use ::random::Random;

use crate::selection::record::{Record, Select};
use crate::selection::verdict::{Reason, Verdict};

/// Probability of another schedule, divided by LIB.
const EAGERNESS: f64 = 10.0;

/// Selection by chance.
#[derive(Clone, Debug)]
pub struct Chance {
    schedules: usize,
    selected: usize,
    /// Schedules that were selected one after the other.
    selections: u64,
    random: Random,
}

impl Chance {
    /// Begins with a number of schedules. Zero count as one.
    #[must_use]
    pub fn new(schedules: usize, seed: u64) -> Chance {
        let mut random = Random::new(seed);
        let schedules = schedules.max(1);
        Chance { schedules, selected: random.below(schedules), selections: 1, random }
    }
}

impl Select for Chance {
    fn select(&mut self) -> usize {
        self.selected
    }

    fn verdict(&self) -> Option<Verdict> {
        let Chance { selected, selections, .. } = *self;
        Some(Verdict { schedule: selected, reason: Reason::Chance, rounds: 0, second: None, selections })
    }

    fn record(&mut self, record: &Record) {
        if self.random.unit() < EAGERNESS * record.lib {
            self.selected = self.random.below(self.schedules);
            self.selections += 1;
        }
    }
}
