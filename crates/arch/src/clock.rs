//! The clock of all of cox: CLOCK_MONOTONIC, which BPF's `bpf_ktime_get_ns` reads too; and the CPU time that cox itself has used.

use rustix::time::{ClockId, clock_gettime};

/// Returns the current time in nanoseconds on CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Returns the CPU time that all threads of this process have used so far, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    read_ns(ClockId::ProcessCPUTime)
}

/// Returns the CPU time that the calling thread has used so far, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    // These clocks count from zero, at boot or at the start of the process or thread, and are never negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns CLOCK_MONOTONIC, CLOCK_BOOTTIME and CLOCK_REALTIME, read directly after one another, in nanoseconds.
pub fn three_at_once() -> (u64, u64, u64) {
    (read_ns(ClockId::Monotonic), read_ns(ClockId::Boottime), read_ns(ClockId::Realtime))
}
