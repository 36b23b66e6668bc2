//! What a thread of an adaptive loop publishes: how fast it is, and the chunk that it executes.
//!
//! Each thread writes its own cache line and reads those of the others. A reader may find the mean of one time with the variance of another: any
//! such pair gives a valid size. It must not find values of an earlier instance of the same slot. Therefore the values are valid only if the line's
//! number is that of the instance: the writer stores it after the values (release), and the reader reads it before them (acquire). No instance
//! begins in a slot before all threads of the last one have left it, so the values are of this instance, or newer than what the reader has seen.

use std::sync::atomic::{AtomicU64, Ordering};

use loops::Pace;
use loops::adaptive::team::Team;

/// A thread's line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Published {
    /// Number of the instance whose pace this is.
    instance: AtomicU64,
    mean_ns: AtomicU64,
    variance_ns2: AtomicU64,
    /// Number of the instance whose chunk this is.
    running_instance: AtomicU64,
    iterations: AtomicU64,
    since: AtomicU64,
}

impl Published {
    /// Publishes a pace.
    #[inline]
    pub fn set_pace(&self, instance: u64, pace: Pace) {
        self.mean_ns.store(pace.mean_ns.to_bits(), Ordering::Relaxed);
        self.variance_ns2.store(pace.variance_ns2.to_bits(), Ordering::Relaxed);
        self.instance.store(instance, Ordering::Release);
    }

    /// Publishes the chunk that begins at the time `since`, ticks.
    pub fn set_running(&self, instance: u64, iterations: u64, since: u64) {
        self.iterations.store(iterations, Ordering::Relaxed);
        self.since.store(since, Ordering::Relaxed);
        self.running_instance.store(instance, Ordering::Release);
    }
}

/// What a thread reads at a request.
pub struct View<'a> {
    /// What the threads have published.
    pub published: &'a [Published],
    /// Number of the instance.
    pub instance: u64,
    /// Current time, ticks.
    pub now: u64,
    /// Nanoseconds per tick.
    pub ns_per_tick: f64,
}

impl Team for View<'_> {
    #[inline]
    fn pace(&self, thread: usize) -> Pace {
        match self.published.get(thread) {
            Some(line) if line.instance.load(Ordering::Acquire) == self.instance => Pace {
                mean_ns: f64::from_bits(line.mean_ns.load(Ordering::Relaxed)),
                variance_ns2: f64::from_bits(line.variance_ns2.load(Ordering::Relaxed)),
            },
            _ => Pace::default(),
        }
    }

    fn running(&self, thread: usize) -> (u64, f64) {
        match self.published.get(thread) {
            Some(line) if line.running_instance.load(Ordering::Acquire) == self.instance => {
                let elapsed = self.now.saturating_sub(line.since.load(Ordering::Relaxed));
                (line.iterations.load(Ordering::Relaxed), elapsed as f64 * self.ns_per_tick)
            }
            _ => (0, 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_another_instance_are_unknown() {
        let published = [Published::default(), Published::default()];
        let view = |instance| View { published: &published, instance, now: 100, ns_per_tick: 0.5 };
        assert_eq!(view(1).pace(0).speed(), None);
        published[0].set_pace(1, Pace { mean_ns: 2.0, variance_ns2: 3.0 });
        published[1].set_running(1, 7, 60);
        assert_eq!((view(1).pace(0).mean_ns, view(2).pace(0).speed()), (2.0, None));
        assert_eq!((view(1).running(1), view(2).running(1), view(1).running(5)), ((7, 20.0), (0, 0.0), (0, 0.0)));
    }
}
