//! Predicts when threads will meet at the next barrier. A *phase* is the time from one barrier to the next.
//!
//! All threads should arrive at the same time, so scheduling periods must be short only towards the end of a phase. An
//! imbalance that arises earlier can still be corrected in the time left. So a period may be as long as a fixed part of
//! the time left ([`Phases::calm_ns`]), and periods become shorter as the barrier comes nearer. 3 threads on 2
//! simulated CPUs with spinning phases of 10 ms take 1.05 of the ideal time this way, and the controller uses 3 % of a
//! CPU. With fixed periods of 0.25 ms they take 1.09, and the controller uses 13 %
//! (`cox pack simulate --threads 3 --ncpus 2 --work-us 10000`, without and with `--always --period 0.25ms`).
//!
//! If the last phases were not about equally long, nothing is predicted, and periods keep their configured length.

/// How many phases must be about equally long for a prediction.
const KEPT: usize = 4;

/// Maximum ratio of the longest to the shortest of the last [`KEPT`] phases, if a prediction is made from them.
const ALIKE: f64 = 1.5;

/// The longest scheduling period is `PART × t ÷ n`. `t` is the predicted time until the next barrier, and `n` is the
/// number of periods until each thread has run for one period on one of the CPUs with the most threads. Found by trial
/// in the simulator with 3, 4, 5 and 7 threads on 2 CPUs and phases of 3 to 30 ms. From 0.4 to 0.6, the length of
/// phases changes by 1 % at most, and the number of periods falls by a fifth. With 0.8, three threads lose 2 % with
/// phases of 10 ms.
const PART: f64 = 0.6;

/// The longest scheduling period that a prediction can give, ns. It is limited because the program may behave
/// differently before the period ends.
const LONGEST_NS: u64 = 8_000_000;

/// History of the times at which threads passed a barrier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// When the last barrier was passed, ns.
    met_ns: Option<u64>,
    /// Lengths of the last phases, unordered.
    lengths_ns: [u64; KEPT],
    /// Number of phases seen.
    count: usize,
}

impl Phases {
    /// Notes that a thread continues after a barrier. Threads are observed to continue one after the other; the last
    /// one may wait until the other threads on its CPU have used their slices. These later observations belong to the
    /// same barrier and are ignored.
    pub fn goes_on(&mut self, now_ns: u64) {
        if let Some(met_ns) = self.met_ns {
            let length_ns = now_ns.saturating_sub(met_ns);
            let mut known_ns = self.lengths_ns;
            known_ns.sort_unstable();
            // The median of the known lengths; entries not yet filled are 0 and sort first.
            let median_ns = match self.count.min(KEPT) {
                0 => 0,
                known => known_ns[KEPT - known.div_ceil(2)],
            };
            if length_ns < median_ns / 2 {
                return;
            }
            // This time is more than twice as long as each of the last phases, so the program did something else in
            // between. It does not count as a phase, and later phases may differ.
            if self.count >= KEPT && length_ns > known_ns[KEPT - 1] * 2 {
                *self = Phases::default();
            } else {
                self.lengths_ns[self.count % KEPT] = length_ns;
                self.count += 1;
            }
        }
        self.met_ns = Some(now_ns);
    }

    /// Returns the length of a phase: the shortest of the last phases, because the next barrier may come that early.
    /// `None` unless the last phases were about equally long.
    pub fn length_ns(&self) -> Option<u64> {
        let (shortest_ns, longest_ns) =
            self.lengths_ns.iter().fold((u64::MAX, 0), |(low, high), &length| (low.min(length), high.max(length)));
        let alike = self.count >= KEPT && longest_ns as f64 <= shortest_ns as f64 * ALIKE;
        alike.then_some(shortest_ns)
    }

    /// Returns for how long, from now on, a CPU can keep its threads without a new decision, ns: `PART` × time until
    /// the next barrier ÷ `periods`, at most `LONGEST_NS`; 0 if no barrier can be predicted. All threads take turns on
    /// the CPUs with the most threads: `periods` is the number of scheduling periods until each thread has run for one
    /// period on such a CPU.
    pub fn calm_ns(&self, now_ns: u64, periods: f64) -> u64 {
        let (Some(met_ns), Some(length_ns)) = (self.met_ns, self.length_ns()) else { return 0 };
        let left_ns = (met_ns + length_ns).saturating_sub(now_ns);
        ((left_ns as f64 * PART / periods.max(1.0)) as u64).min(LONGEST_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn met_at(times_ms: &[u64]) -> Phases {
        let mut phases = Phases::default();
        times_ms.iter().for_each(|ms| phases.goes_on(ms * MS));
        phases
    }

    #[test]
    fn periods_become_shorter_as_the_meeting_comes_nearer() {
        let phases = met_at(&[0, 12, 24, 36, 48]);
        assert_eq!(phases.calm_ns(48 * MS, 1.0), 7_200_000);
        assert_eq!(phases.calm_ns(48 * MS, 3.0), 2_400_000);
        assert_eq!(phases.calm_ns(54 * MS, 3.0), 1_200_000);
        assert_eq!(phases.calm_ns(60 * MS, 3.0), 0, "it is due");
        assert_eq!(phases.calm_ns(70 * MS, 3.0), 0);
    }

    #[test]
    fn the_shortest_of_the_last_phases_says_when_it_is_due() {
        assert_eq!(met_at(&[0, 15, 28, 40, 58]).calm_ns(58 * MS, 1.0), 7_200_000);
        assert_eq!(met_at(&[0, 5, 17, 29, 41, 53]).calm_ns(53 * MS, 1.0), 7_200_000, "what is long ago does not count");
    }

    #[test]
    fn phases_that_are_not_alike_say_nothing() {
        assert_eq!(met_at(&[0, 12, 24, 36]).calm_ns(36 * MS, 1.0), 0, "nor do three of them");
        assert_eq!(met_at(&[0, 12, 24, 36, 55]).calm_ns(55 * MS, 1.0), 0);
    }

    #[test]
    fn who_goes_on_late_after_the_same_meeting_is_no_other_one() {
        assert_eq!(met_at(&[0, 12, 13, 24, 28, 36, 48, 49]).calm_ns(50 * MS, 1.0), 6 * MS);
    }

    #[test]
    fn phases_may_become_much_shorter() {
        let mut phases = met_at(&[0, 60, 120, 180, 240]);
        (1..40).for_each(|phase| phases.goes_on((240 + phase * 6) * MS));
        assert_eq!(phases.calm_ns((240 + 39 * 6) * MS, 1.0), 3_600_000);
    }

    #[test]
    fn a_pause_is_no_phase() {
        let mut phases = met_at(&[0, 10, 20, 30, 40, 2040]);
        assert_eq!(phases.calm_ns(2040 * MS, 1.0), 0);
        (1..=4).for_each(|phase| phases.goes_on((2040 + phase * 10) * MS));
        assert_eq!(phases.calm_ns(2080 * MS, 1.0), 6 * MS, "known again after four");
    }

    #[test]
    fn one_odd_phase_among_many_is_forgotten() {
        let mut phases = met_at(&[0, 10, 21, 30, 41, 59]);
        assert_eq!(phases.calm_ns(59 * MS, 1.0), 0);
        [69, 78, 89, 99].iter().for_each(|ms| phases.goes_on(ms * MS));
        assert_eq!(phases.calm_ns(99 * MS, 1.0), 5_400_000);
    }

    #[test]
    fn no_period_is_endless() {
        assert_eq!(met_at(&[0, 1000, 2000, 3000, 4000]).calm_ns(4000 * MS, 1.0), LONGEST_NS);
    }
}
