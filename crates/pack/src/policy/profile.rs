//! The decision whether a program that is not packed is worth measuring, from a profile of its threads.
//!
//! To measure a program and to try rotation costs it some ten milliseconds: the BPF programs are loaded while it runs,
//! samples are taken, and its threads are rotated for at least one measuring window. That is much for a program that
//! takes half a second and gains nothing. So cox first profiles the threads for some milliseconds, without BPF:
//!
//! - Threads that spin may be ten times slower without rotation. Then nothing is lost by trying.
//! - Threads that sleep while they wait gained up to 12 %. cox tries rotation once the CPUs were without work for as long
//!   as a trial may cost. So a program never pays more for a trial than it might have gained before it.
//! - Threads that keep all CPUs of the pack busy without spinning have nothing to gain.

use super::mode::{GOOD_ENOUGH, SPINS};

/// If spinning takes at least this fraction of the CPUs' time, rotation is tried at once.
const MUCH: f64 = 0.1;

/// What a trial may cost a program that gains nothing, ns of its wall time: 25 to 50 ms were measured.
const TRIAL_NS: f64 = 60e6;

/// What a profile has shown.
#[derive(Clone, Copy, Debug)]
pub struct Profiled {
    /// Fraction of the CPUs' time in which threads spun.
    pub spinning: f64,
    /// Fraction of the CPUs' time in which threads ran, in all profiles so far.
    pub busy: f64,
    /// For how long there were more running threads than CPUs, in all profiles so far, ns.
    pub crowded_ns: u64,
}

impl Profiled {
    /// Returns whether the program is worth measuring.
    #[must_use]
    pub fn is_promising(&self) -> bool {
        let may_gain = self.spinning > SPINS || self.busy < GOOD_ENOUGH;
        let lost_ns = (1.0 - self.busy + self.spinning) * self.crowded_ns as f64;
        self.spinning >= MUCH || (may_gain && lost_ns >= TRIAL_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_is_worth_a_trial_at_once_and_sleeping_later() {
        let promising =
            |spinning, busy, ms: u64| Profiled { spinning, busy, crowded_ns: ms * 1_000_000 }.is_promising();
        assert!(promising(0.1, 1.0, 20));
        assert!(!promising(0.05, 0.95, 599) && promising(0.05, 0.95, 601));
        assert!(!promising(0.0, 0.75, 239) && promising(0.0, 0.75, 241));
        assert!(!promising(0.0, 0.98, 100_000), "all CPUs work");
    }
}
