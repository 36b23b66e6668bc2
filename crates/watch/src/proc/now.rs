//! The clocks everything is stamped with.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// How far CLOCK_BOOTTIME, in which /proc gives start times, is ahead of CLOCK_MONOTONIC: the time
/// the machine was suspended. Too large by the time between the two readings, far below a tick.
pub(crate) fn suspended_ns() -> u64 {
    let monotonic_ns = read_ns(ClockId::Monotonic);
    read_ns(ClockId::Boottime).saturating_sub(monotonic_ns)
}

fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let ns = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(ns)
}
