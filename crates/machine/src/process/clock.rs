//! Converts the start time in `stat` to the clocks that cox measures with.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns the clock ticks per second in /proc (USER_HZ), which the kernel passes to each process at its start
/// (AT_CLKTCK). 100 on every architecture that Linux supports today.
#[must_use]
pub fn ticks_per_s() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// Converts clock ticks (USER_HZ) to nanoseconds; saturates instead of overflowing.
pub(crate) fn ticks_to_ns(ticks: u64, ticks_per_s: u64) -> u64 {
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_s.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The difference between CLOCK_BOOTTIME, which counts suspended time, and CLOCK_MONOTONIC, which does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootClocks {
    /// Time the machine was suspended since boot, nanoseconds.
    pub suspended_ns: u64,
}

impl BootClocks {
    /// Measures the present difference between CLOCK_BOOTTIME and CLOCK_MONOTONIC of the running machine.
    #[must_use]
    pub fn now() -> Self {
        // Each attempt reads CLOCK_BOOTTIME between two readings of CLOCK_MONOTONIC. Of several attempts, the one with
        // the shortest interval counts, because a preemption lengthens the interval. A difference below NOISE_NS is
        // measurement noise: a suspension lasts far longer.
        const READINGS: usize = 8;
        const NOISE_NS: u64 = 1_000_000;
        let reading = || {
            let before_ns = nanoseconds(clock_gettime(ClockId::Monotonic));
            let boottime_ns = nanoseconds(clock_gettime(ClockId::Boottime));
            let after_ns = nanoseconds(clock_gettime(ClockId::Monotonic));
            let suspended_ns = boottime_ns.saturating_sub(before_ns.midpoint(after_ns));
            (after_ns - before_ns, suspended_ns)
        };
        let closest = (0..READINGS).map(|_| reading()).min();
        let suspended_ns = closest.map_or(0, |(_, suspended_ns)| suspended_ns);
        Self { suspended_ns: if suspended_ns < NOISE_NS { 0 } else { suspended_ns } }
    }

    /// Converts a time on CLOCK_BOOTTIME to CLOCK_MONOTONIC. The result is exact if the machine has not been suspended
    /// since that time; otherwise it is too early by the duration of those suspensions.
    #[must_use]
    pub fn monotonic_ns(self, boottime_ns: u64) -> u64 {
        boottime_ns.saturating_sub(self.suspended_ns)
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    let ns = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_whole_parts_of_a_second_and_absurd_counts_saturate() {
        assert_eq!((ticks_to_ns(3, 100), ticks_to_ns(3, 1000)), (30_000_000, 3_000_000));
        assert_eq!(ticks_to_ns(u64::MAX, 100), u64::MAX);
    }

    #[test]
    fn suspended_time_is_taken_off() {
        let clocks = BootClocks { suspended_ns: 5_000 };
        assert_eq!(clocks.monotonic_ns(7_000), 2_000);
        assert_eq!(clocks.monotonic_ns(1_000), 0);
    }

    #[test]
    fn the_translation_agrees_with_the_clocks() {
        let clocks = BootClocks::now();
        let earlier = nanoseconds(clock_gettime(ClockId::Monotonic));
        let translated = clocks.monotonic_ns(nanoseconds(clock_gettime(ClockId::Boottime)));
        let later = nanoseconds(clock_gettime(ClockId::Monotonic));
        let slack_ns = 1_000_000;
        assert!(translated + slack_ns >= earlier, "{translated} before {earlier}");
        assert!(translated <= later + slack_ns, "{translated} behind {later}");
    }
}
