//! Whether a loop has changed since its schedule was selected.
//!
//! It has, if three instances in a row have a number of iterations that differs by more than a quarter, or if the
//! median load imbalance of the last eight instances differs by more than ten points (Auto4OMP's threshold) from that
//! of the first eight. The median, because a thread that once loses its CPU for a time slice makes a short instance
//! look as if one thread had done all the work.

use crate::selection::median;
use crate::selection::record::Record;

/// Factor between numbers of iterations that counts as a change.
const TRIPS: f64 = 1.25;

/// Instances in a row that must differ.
const IN_A_ROW: u32 = 3;

/// Difference of LIB that counts as a change.
const LIB: f64 = 0.1;

/// Instances whose median counts.
const FEW: usize = 8;

/// Watches a loop whose schedule is selected.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    trips: u64,
    in_a_row: u32,
    instances: usize,
    first: f64,
    recent: [f64; FEW],
}

impl Change {
    /// Records an instance, and returns true if the loop has changed.
    pub fn record(&mut self, record: &Record) -> bool {
        if self.instances == 0 {
            self.trips = record.trips;
        }
        let factor = record.trips.max(1) as f64 / self.trips.max(1) as f64;
        self.in_a_row = if (1.0 / TRIPS..=TRIPS).contains(&factor) { 0 } else { self.in_a_row + 1 };
        self.recent[self.instances % FEW] = record.lib;
        self.instances += 1;
        if self.instances == FEW {
            self.first = median(&mut { self.recent });
        }
        let is_known = self.instances >= 2 * FEW;
        self.in_a_row >= IN_A_ROW || is_known && (median(&mut { self.recent }) - self.first).abs() > LIB
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(trips: u64, lib: f64) -> Record {
        Record { trips, time_ns: 1.0, lib, dispatch: 0.0 }
    }

    #[test]
    fn one_odd_instance_is_no_change() {
        let mut change = Change::default();
        for _ in 0..20 {
            assert!(!change.record(&record(100, 0.1)));
        }
        assert!(!change.record(&record(1000, 0.8)));
        assert!(!change.record(&record(100, 0.1)));
        assert!(!change.record(&record(1000, 0.1)));
        assert!(!change.record(&record(1000, 0.1)));
        assert!(change.record(&record(1000, 0.1)));
    }

    /// A thread that loses its CPU for a time slice.
    #[test]
    fn preemptions_are_no_change() {
        let mut change = Change::default();
        for instance in 0..200 {
            assert!(!change.record(&record(100, if instance % 3 == 0 { 0.95 } else { 0.1 })), "{instance}");
        }
    }

    #[test]
    fn an_imbalance_that_stays_is_a_change() {
        let mut change = Change::default();
        for _ in 0..20 {
            assert!(!change.record(&record(100, 0.1)));
        }
        let changed = (0..20).position(|_| change.record(&record(100, 0.3)));
        assert!((3..10).contains(&changed.unwrap()), "{changed:?}");
    }
}
