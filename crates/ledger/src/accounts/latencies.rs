//! Computes the quantiles of threads, processes and programs.

use std::collections::HashMap;

use wire::latency::LatencyCount;
use wire::{Clock, Record};

use super::life::Life;
use crate::latency::{Histograms, Latencies};
use crate::sees::Sees;

/// The histograms of interval lengths in an observer's record.
pub(super) struct Given {
    /// Histograms of threads, by [`LatencyCount::of`]. They are removed when they are added to the histograms of the thread's program.
    all: HashMap<u32, Histograms>,
    programs: Vec<Histograms>,
    sees: Sees,
}

impl Given {
    pub(super) fn of(record: &Record, sees: &Sees, programs: usize) -> Given {
        let mut all = Histograms::read(&record.latencies);
        // The kernel numbers the programs that cox launches, and keeps the histograms of each program under this number. If the session has only one
        // program, all of these histograms belong to it, also if cox has not launched it.
        let number = |of: u32| if programs == 1 { 0 } else { of as usize };
        let mut shared = vec![Histograms::default(); programs];
        all.retain(|of, histograms| {
            let program = shared.get_mut(number(*of)).filter(|_| *of < LatencyCount::of_place(0));
            program.map(|program| program.add(histograms)).is_none()
        });
        Given { all, programs: shared, sees: *sees }
    }

    /// Returns the quantiles of a thread, or `None` if the kernel kept no histograms for it. If the kernel kept histograms for the thread, but the
    /// record contains none, the thread had no intervals yet, and all quantiles are 0.
    pub(super) fn thread(&self, clock: &Clock) -> Option<Box<Latencies>> {
        let own = self.all.get(&LatencyCount::of_place(clock.place()?));
        Some(Box::new(own.unwrap_or(&Histograms::default()).latencies(&self.sees)))
    }

    /// Adds up the histograms of a process's threads, and adds the sum to the program's. Returns the quantiles of the sum, or `None` if no thread of
    /// the process has histograms.
    pub(super) fn process(&mut self, threads: &[usize], lives: &[Life<'_>], program: usize) -> Option<Latencies> {
        let mut sum = None::<Histograms>;
        for place in threads.iter().filter_map(|thread| lives[*thread].clock.place()) {
            let sum = sum.get_or_insert_with(Histograms::default);
            self.all.remove(&LatencyCount::of_place(place)).iter().for_each(|own| sum.add(own));
        }
        let sum = sum?;
        self.programs[program].add(&sum);
        Some(sum.latencies(&self.sees))
    }

    /// Returns the quantiles of each program. The histograms of all threads that have an account were moved from `all` to their programs before. What
    /// is left in `all` belongs to threads without an account, and is added to the first program.
    pub(super) fn programs(mut self) -> Vec<Latencies> {
        if let Some(first) = self.programs.first_mut() {
            self.all.values().for_each(|stray| first.add(stray));
        }
        self.programs.iter().map(|program| program.latencies(&self.sees)).collect()
    }
}
