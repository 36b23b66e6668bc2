//! The one clock of the house: CLOCK_MONOTONIC, which BPF's `bpf_ktime_get_ns` reads too.

use rustix::time::{ClockId, clock_gettime};

/// Now, in nanoseconds on CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // CLOCK_MONOTONIC starts near zero at boot and is never negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
