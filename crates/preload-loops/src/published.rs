//! What a thread of an adaptive loop publishes: how fast it is, or the chunk that it executes. Both are a pair of words.
//!
//! A request reads the pairs of all threads, so where they are decides what it costs:
//!
//! - **Small teams**: in the cache lines of the counter ([`Shared`]). A request changes the counter, so it needs these lines anyway. The thread that
//!   opens an instance makes the pairs unknown.
//! - **Larger teams**: each thread has a line of its own ([`Published`]). To make them all unknown would take too long. So a pair is valid only if the
//!   number in its line is that of the instance: the writer stores it after the pair (release), and the reader reads it before the pair (acquire).
//!
//! A reader may find the first word of one time with the second word of another: any such pair gives a valid size. It does not find values of an
//! earlier instance of the same slot: no instance begins in a slot before all threads of the last one have left it.

use std::sync::atomic::{AtomicU64, Ordering};

use loops::Pace;
use loops::adaptive::team::Team;

/// Threads of a small team.
pub const SMALL: usize = 7;

/// Two words. A pace: mean and variance, as bits. A chunk: iterations and since when, ticks. 0 in the first word: unknown.
#[derive(Debug, Default)]
struct Pair(AtomicU64, AtomicU64);

impl Pair {
    #[inline]
    fn set(&self, (first, second): (u64, u64)) {
        self.0.store(first, Ordering::Relaxed);
        self.1.store(second, Ordering::Relaxed);
    }

    #[inline]
    fn get(&self) -> (u64, u64) {
        (self.0.load(Ordering::Relaxed), self.1.load(Ordering::Relaxed))
    }
}

/// What all threads change, in two cache lines of their own: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Shared {
    /// Chunks or iterations that have been given out.
    pub counter: AtomicU64,
    pairs: [Pair; SMALL],
}

impl Shared {
    /// Makes the pairs of a small team unknown.
    #[inline]
    pub fn forget(&self, threads: usize) {
        self.pairs.iter().take(threads).for_each(|pair| pair.set((0, 0)));
    }
}

/// The line of a thread of a larger team.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Published {
    /// Number of the instance to which the pair belongs.
    instance: AtomicU64,
    pair: Pair,
}

/// What the threads of an instance have published.
pub struct View<'a> {
    /// The pairs of a small team.
    pub shared: &'a Shared,
    /// The lines of a larger team; none in a small one.
    pub lines: &'a [Published],
    /// Number of the instance.
    pub instance: u64,
    /// Current time, ticks.
    pub now: u64,
    /// Nanoseconds per tick.
    pub ns_per_tick: f64,
}

impl View<'_> {
    /// Publishes the pace of the calling thread.
    #[inline]
    pub fn set_pace(&self, thread: usize, pace: Pace) {
        self.set(thread, (pace.mean_ns.to_bits(), pace.variance_ns2.to_bits()));
    }

    /// Publishes the calling thread's chunk, which begins at the time `since`, ticks.
    pub fn set_running(&self, thread: usize, iterations: u64, since: u64) {
        self.set(thread, (iterations, since));
    }

    #[inline]
    fn set(&self, thread: usize, words: (u64, u64)) {
        if self.lines.is_empty() {
            self.shared.pairs.get(thread).into_iter().for_each(|pair| pair.set(words));
        } else if let Some(line) = self.lines.get(thread) {
            line.pair.set(words);
            line.instance.store(self.instance, Ordering::Release);
        }
    }

    /// Returns a number that nearly always changes when one of the first `threads` threads publishes something else.
    #[inline]
    pub fn fingerprint(&self, threads: usize) -> u64 {
        (0..threads).filter_map(|thread| self.get(thread)).fold(0, |sum: u64, (first, second)| {
            (sum.rotate_left(5) ^ first).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ second.rotate_left(32)
        })
    }

    #[inline]
    fn get(&self, thread: usize) -> Option<(u64, u64)> {
        if self.lines.is_empty() {
            return self.shared.pairs.get(thread).map(Pair::get);
        }
        let line = self.lines.get(thread)?;
        (line.instance.load(Ordering::Acquire) == self.instance).then(|| line.pair.get())
    }
}

impl Team for View<'_> {
    #[inline]
    fn pace(&self, thread: usize) -> Pace {
        self.get(thread).map_or(Pace::default(), |(mean, variance)| Pace {
            mean_ns: f64::from_bits(mean),
            variance_ns2: f64::from_bits(variance),
        })
    }

    fn running(&self, thread: usize) -> (u64, f64) {
        match self.get(thread) {
            Some((iterations, since)) if iterations > 0 => {
                (iterations, self.now.saturating_sub(since) as f64 * self.ns_per_tick)
            }
            _ => (0, 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { mean_ns: 2.0, variance_ns2: 3.0 };

    #[test]
    fn values_of_another_instance_are_unknown() {
        let (shared, lines) = (Shared::default(), [Published::default(), Published::default()]);
        let view = |instance| View { shared: &shared, lines: &lines, instance, now: 100, ns_per_tick: 0.5 };
        assert_eq!(view(1).pace(0).speed(), None);
        view(1).set_pace(0, PACE);
        view(1).set_running(1, 7, 60);
        assert_eq!((view(1).pace(0), view(2).pace(0).speed()), (PACE, None));
        assert_eq!((view(1).running(1), view(2).running(1), view(1).running(5)), ((7, 20.0), (0, 0.0), (0, 0.0)));
    }

    #[test]
    fn a_small_team_forgets() {
        let shared = Shared::default();
        let view = View { shared: &shared, lines: &[], instance: 1, now: 100, ns_per_tick: 0.5 };
        assert_eq!((view.pace(6).speed(), view.running(6)), (None, (0, 0.0)));
        view.set_pace(6, PACE);
        view.set_running(5, 7, 60);
        assert_eq!((view.pace(6), view.running(5), view.pace(4).speed()), (PACE, (7, 20.0), None));
        shared.forget(7);
        assert_eq!((view.pace(6).speed(), view.running(5)), (None, (0, 0.0)));
    }

    /// The program's own lines and those of another instance must not be fetched with them.
    #[test]
    fn what_a_request_changes_is_in_two_lines() {
        assert_eq!((size_of::<Shared>(), align_of::<Shared>()), (128, 128));
    }
}
