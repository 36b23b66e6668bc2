//! The one clock of the house: CLOCK_MONOTONIC, which BPF's `bpf_ktime_get_ns` reads too; and what the
//! process itself has used.

use rustix::time::{ClockId, clock_gettime};

/// Now, in nanoseconds on CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// CPU time of this process so far, all threads.
pub fn process_cpu_ns() -> u64 {
    read_ns(ClockId::ProcessCPUTime)
}

/// CPU time of the calling thread so far.
pub fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    // Both start at zero, at boot or birth, and are never negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_MONOTONIC, CLOCK_BOOTTIME and CLOCK_REALTIME at about the same time, nanoseconds.
pub fn three_at_once() -> (u64, u64, u64) {
    (read_ns(ClockId::Monotonic), read_ns(ClockId::Boottime), read_ns(ClockId::Realtime))
}
