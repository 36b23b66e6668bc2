//! Rounds of samples: the samples that all CPUs took at the same time. A round shows which threads worked at one moment.
//!
//! In every third turn (a tenth of a second), eBPF's sampling clocks have the same period on all CPUs and are restarted together (`watch`), so each round
//! is a snapshot of the CPUs. A CPU that runs no tracked thread gives no sample. If a tracked thread waited for a CPU at that moment, it could have worked,
//! too, and a thread that has no other beside it does not count as working alone. If others ran beside it, they stand for the one that waited: threads that
//! share CPUs run in turn. Samples that say themselves that no other thread ran or waited ([`Sample::ONLY`](wire::Sample::ONLY)) are not added here.
//!
//! If a run has many rounds, every second one is dropped, and from then on only every second one is kept, and so on. What is left is spread evenly over
//! the run.

/// Samples within this time belong to one round, ns. The clocks of all CPUs are restarted within 250 µs, and a clock's interrupt can be late; the shortest
/// period on bare metal is twice as long.
const SIMULTANEOUS_NS: u64 = 350_000;

/// Maximum number of samples in the kept rounds; they take 1 MB. The standard error of a share of half as many is 0.14 percentage
/// points.
const MAX_SAMPLES: usize = 1 << 18;

/// Marks the first place of a round. Numbers of places are smaller than the marks.
const FIRST: u32 = 1 << 31;

/// Marks a place if a tracked thread waited for a CPU when the sample was taken.
const QUEUED: u32 = 1 << 30;

/// Mask for the number of a place.
const PLACE: u32 = QUEUED - 1;

/// The rounds that were kept, and the one that may still grow.
pub(crate) struct Rounds {
    /// Numbers of the sampled places, round by round.
    kept: Vec<u32>,
    max_samples: usize,
    /// Every `stride`-th round is kept.
    stride: u64,
    number: u64,
    /// Threads and places of the present round, with marks.
    open: Vec<(u32, u32)>,
    began_ns: u64,
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds { kept: Vec::new(), max_samples: MAX_SAMPLES, stride: 1, number: 0, open: Vec::new(), began_ns: 0 }
    }
}

/// Samples in the kept rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contested {
    /// Number of samples.
    pub all: u64,
    /// How many of them show that the thread was the only one that worked.
    pub alone: u64,
}

impl Rounds {
    /// Adds a sample. Samples arrive in the order of their times. `queued`: whether a tracked thread waited for a CPU.
    pub fn add(&mut self, t_ns: u64, tid: u32, place: u32, queued: bool) {
        let is_same =
            t_ns.abs_diff(self.began_ns) <= SIMULTANEOUS_NS && self.open.iter().all(|(other, _)| *other != tid);
        if !is_same {
            self.close();
            self.began_ns = t_ns;
        }
        self.open.push((tid, place | if queued { QUEUED } else { 0 }));
    }

    /// Returns, by number of the place, how often a thread was sampled there, and how often it was then the only thread that worked. `works`
    /// says for each place whether a thread there works. Places at which no thread works have no samples in the result.
    pub fn by_place(&mut self, places: usize, works: impl Fn(u32) -> bool) -> Vec<Contested> {
        self.close();
        let mut counts = vec![Contested::default(); places];
        for round in self.kept.chunk_by(|_, next| next & FIRST == 0) {
            let working = || round.iter().map(|place| place & PLACE).filter(|place| works(*place));
            let is_queued = round.iter().any(|place| place & QUEUED != 0);
            let is_alone = working().count() == 1 && (round.len() > 1 || !is_queued);
            for place in working() {
                let count = &mut counts[place as usize];
                count.all += 1;
                count.alone += u64::from(is_alone);
            }
        }
        counts
    }

    /// Ends the present round.
    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        if self.number.is_multiple_of(self.stride) {
            let places = self.open.iter().map(|(_, place)| *place);
            self.kept.extend(places.enumerate().map(|(at, place)| if at == 0 { place | FIRST } else { place }));
        }
        self.number += 1;
        self.open.clear();
        if self.kept.len() > self.max_samples {
            self.drop_every_second();
        }
    }

    fn drop_every_second(&mut self) {
        let rounds = self.kept.chunk_by(|_, next| next & FIRST == 0);
        self.kept = rounds.step_by(2).flatten().copied().collect();
        self.stride *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(all: u64, alone: u64) -> Contested {
        Contested { all, alone }
    }

    #[test]
    fn threads_that_work_in_the_same_round_are_not_alone() {
        let mut rounds = Rounds::default();
        // Thread 1 works at place 0 all the time. Thread 2 works at place 1, spins at place 2, and then sleeps.
        for (t_ns, second) in [(5 * MS, Some(1)), (10 * MS, Some(2)), (15 * MS, None), (20 * MS, Some(1))] {
            rounds.add(t_ns, 1, 0, false);
            if let Some(place) = second {
                rounds.add(t_ns + 20_000, 2, place, false);
            }
        }
        assert_eq!(rounds.by_place(3, |place| place != 2), [at(4, 2), at(2, 0), at(0, 0)]);
    }

    #[test]
    fn threads_that_run_stand_for_those_that_wait_for_a_cpu() {
        let mut rounds = Rounds::default();
        rounds.add(5 * MS, 1, 0, true);
        rounds.add(10 * MS, 1, 0, false);
        assert_eq!(rounds.by_place(2, |_| true), [at(2, 1), at(0, 0)], "in the second round, nobody waits for a CPU");
        // Thread 2 waits at place 1, while others wait for a CPU.
        rounds.add(15 * MS, 1, 0, true);
        rounds.add(15 * MS, 2, 1, true);
        assert_eq!(rounds.by_place(2, |place| place == 0), [at(3, 2), at(0, 0)]);
    }

    #[test]
    fn a_thread_is_in_a_round_only_once() {
        let mut rounds = Rounds::default();
        rounds.add(5 * MS, 1, 0, true);
        rounds.add(5 * MS + 100_000, 1, 0, true);
        rounds.add(5 * MS + 200_000, 2, 0, false);
        assert_eq!(rounds.kept.len(), 1);
        assert_eq!(rounds.by_place(1, |_| true), [at(3, 0)]);
    }

    #[test]
    fn long_runs_keep_an_even_part_of_the_rounds() {
        let mut rounds = Rounds { max_samples: 100, ..Rounds::default() };
        // Thread 2 spins, and works in the second half.
        for number in 0..10_000u64 {
            rounds.add(5 * MS * (number + 1), 1, 0, false);
            rounds.add(5 * MS * (number + 1), 2, if number >= 5_000 { 1 } else { 2 }, false);
        }
        let [first, second, _] = rounds.by_place(3, |place| place != 2)[..] else { panic!() };
        assert!(rounds.kept.len() <= 100 && first.all >= 20, "{first:?}");
        assert!(first.alone.abs_diff(first.all / 2) <= 1 && second.alone == 0, "{first:?} {second:?}");
        assert!(rounds.stride >= 64, "{}", rounds.stride);
    }
}
