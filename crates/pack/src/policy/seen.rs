//! Sums of what was observed on the pack's CPUs during a measuring window.

use super::observation::{Doing, Observation, Slot};

/// If a thread was switched out less than this time before a tick, the tick counts as the cause, ns. At a tick, the end
/// of a scheduling period, cox's ticker thread takes the CPU from the running thread.
const JUST_NOW_NS: u64 = 100_000;

/// Sums of what was observed on the pack's CPUs since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Number of samples of running threads. While threads are rotated, a tick (the end of a scheduling period on a
    /// CPU) that takes the CPU from a running thread counts as one sample for each scheduling period since the previous
    /// tick, and at least as one. Ticks come more often towards the end of a phase, where more threads wait, so
    /// unweighted ticks would overstate waiting.
    pub samples: u64,
    /// Number of samples in which the thread was spinning.
    pub spinning: u64,
    /// Number of spinning samples in which the loop calls sched_yield(2) in every iteration.
    pub yielding: u64,
    /// CPU time between consecutive observations of each thread, summed, ns.
    pub stretches_ns: u64,
    /// The part of `stretches_ns` that was spent spinning, estimated from the thread's states at the two observations,
    /// ns.
    pub spun_ns: u64,
    /// Number of ends of scheduling periods at which cox moved threads to other CPUs.
    pub exchanges: u64,
    /// Number of moves of a thread to another CPU.
    pub moves: u64,
}

/// If threads run longer than this on average before they block, ns, most of their switches are caused by ticks (cox
/// ends a scheduling period) and few by blocking.
const SELDOM_BLOCKS_NS: u64 = 20_000_000;

impl Seen {
    /// Called at a tick: the end of a scheduling period on the CPU of `slot`. If the tick has taken the CPU from a
    /// thread, counts this thread as `periods` samples, where `periods` is the number of scheduling periods since the
    /// previous tick. `here`: the observations of all threads of the slot.
    ///
    /// Ticks come at irregular times, and each tick stands for the time since the previous one. So the fraction of
    /// ticks that find a spinning thread estimates the fraction of CPU time spent spinning. This includes threads that
    /// spin and then sleep. [`Seen::spun_ns`] misses their spinning: it is estimated from the state of a thread at two
    /// observations, and these find such a thread asleep.
    pub fn tick(&mut self, slot: Slot, now_ns: u64, periods: u64, here: impl Iterator<Item = Observation>) {
        let last = here.filter(|observation| observation.at == Some(slot)).max_by_key(|observation| observation.out_ns);
        let Some(last) = last.filter(|last| last.doing == Doing::Queued) else { return };
        if now_ns.saturating_sub(last.out_ns) < JUST_NOW_NS {
            self.samples += periods;
            self.spinning += periods * u64::from(last.spins);
            self.yielding += periods * u64::from(last.spins && last.yields);
        }
    }

    /// Adds the sums of another measuring window.
    pub fn add(&mut self, other: &Seen) {
        self.samples += other.samples;
        self.spinning += other.spinning;
        self.yielding += other.yielding;
        self.stretches_ns += other.stretches_ns;
        self.spun_ns += other.spun_ns;
        self.exchanges += other.exchanges;
        self.moves += other.moves;
    }

    /// Returns the fraction of CPU time that was spent spinning, from 0 to 1. `burst_ns` is how long threads run on
    /// average before they block.
    ///
    /// The fraction `spun_ns ÷ stretches_ns` has a quarter of the noise of `spinning ÷ samples`. But it is not valid in
    /// two cases, in which the samples are used:
    ///
    /// - Threads block often (`burst_ns` is short), so they may spin and then sleep. An observation finds such a thread
    ///   asleep and does not show its spinning.
    /// - Threads spin with sched_yield(2). Such a thread may have been released from the barrier without having run
    ///   since, and an observation still finds it waiting.
    #[must_use]
    pub fn spinning_part(&self, burst_ns: u64) -> f64 {
        let yields = self.yielding * 2 > self.spinning;
        let (part, whole) = if self.stretches_ns > 0 && burst_ns > SELDOM_BLOCKS_NS && !yields {
            (self.spun_ns, self.stretches_ns)
        } else {
            (self.spinning, self.samples)
        };
        if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Slot = 0;

    fn out(at_ns: u64, spins: bool, doing: Doing) -> Observation {
        Observation { doing, spins, at: Some(SLOT), out_ns: at_ns, ..Observation::default() }
    }

    fn ticked(now_ns: u64, here: &[Observation]) -> (u64, u64) {
        let mut seen = Seen::default();
        seen.tick(SLOT, now_ns, 1, here.iter().copied());
        (seen.samples, seen.spinning)
    }

    #[test]
    fn only_whom_the_tick_has_switched_out_is_a_sample() {
        let here = [out(1_000_000, true, Doing::Queued), out(900_000, false, Doing::Queued)];
        assert_eq!(ticked(1_000_500, &here), (1, 1), "the last that ran here");
        assert_eq!(ticked(1_000_000 + JUST_NOW_NS, &here), (0, 0), "it was out long before");
        assert_eq!(ticked(1_000_500, &[out(1_000_000, true, Doing::Blocked), here[1]]), (0, 0), "it slept already");
        let elsewhere = Observation { at: Some(SLOT + 1), ..here[0] };
        assert_eq!(ticked(1_000_500, &[elsewhere]), (0, 0));
    }

    #[test]
    fn a_tick_after_a_long_period_counts_as_often() {
        let mut seen = Seen::default();
        seen.tick(SLOT, 1_000_500, 7, [out(1_000_000, true, Doing::Queued)].into_iter());
        seen.tick(SLOT, 1_001_500, 1, [out(1_001_000, false, Doing::Queued)].into_iter());
        assert_eq!((seen.samples, seen.spinning, seen.yielding), (8, 7, 0));
    }

    #[test]
    fn stretches_tell_how_much_was_spun_unless_threads_sleep_often() {
        let seen = Seen { samples: 10, spinning: 5, stretches_ns: 1000, spun_ns: 100, ..Seen::default() };
        assert_eq!(seen.spinning_part(SELDOM_BLOCKS_NS + 1), 0.1);
        assert_eq!(seen.spinning_part(SELDOM_BLOCKS_NS), 0.5);
        assert_eq!(Seen::default().spinning_part(u64::MAX), 0.0);
        assert_eq!(Seen { yielding: 3, ..seen }.spinning_part(u64::MAX), 0.5, "nor do those of threads that yield");
        let sampled = Seen { stretches_ns: 0, ..seen };
        assert_eq!(sampled.spinning_part(u64::MAX), 0.5);
    }

    #[test]
    fn windows_add_up() {
        let one = Seen { samples: 1, spinning: 2, yielding: 7, stretches_ns: 3, spun_ns: 4, exchanges: 5, moves: 6 };
        let mut sum = one;
        sum.add(&one);
        assert_eq!(
            sum,
            Seen { samples: 2, spinning: 4, yielding: 14, stretches_ns: 6, spun_ns: 8, exchanges: 10, moves: 12 }
        );
    }
}
