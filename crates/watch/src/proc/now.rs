//! The clocks from which all time stamps come.

use rustix::time::{ClockId, clock_gettime};

/// Returns the time on CLOCK_MONOTONIC, nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Returns how far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC: the time for which the machine was suspended. /proc gives start times on
/// CLOCK_BOOTTIME. The result is too large by the time between the two readings, far below a tick.
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
