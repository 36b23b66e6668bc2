//! The end of a loop: a thread that is about to lose its CPU gets no more work.
//!
//! If a thread is preempted with the last chunk of a loop, the whole team waits for a slice of the kernel's scheduler.
//! The rule: when another thread waits for this thread's CPU, and the team needs less than a slice for what is left,
//! the thread takes no further chunk. The others execute the rest sooner. A thread that has just got its CPU has most
//! of its slice before it, but the rule does not know that.

/// A slice of Linux's scheduler with a few CPUs, nanoseconds.
pub const SLICE_NS: f64 = 3e6;

/// Returns true if a thread should take no further chunk.
///
/// `remaining`: iterations not given out. `mean_ns`: mean time of an iteration, 0 if unknown. `others`: threads that
/// would continue; the last thread never stops. `is_wanted`: another thread waits for this thread's CPU.
#[must_use]
pub fn stops(remaining: u64, mean_ns: f64, others: usize, is_wanted: bool, slice_ns: f64) -> bool {
    is_wanted && others > 0 && mean_ns > 0.0 && remaining as f64 * mean_ns < slice_ns * others as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stops_only_at_the_end_and_never_alone() {
        // 7 others need 1,000 · 20 us / 7 = 2.9 ms.
        assert!(stops(1000, 20e3, 7, true, SLICE_NS));
        assert!(!stops(1100, 20e3, 7, true, SLICE_NS));
        assert!(!stops(1000, 20e3, 7, false, SLICE_NS));
        assert!(!stops(1000, 20e3, 0, true, SLICE_NS));
        assert!(!stops(1000, 0.0, 7, true, SLICE_NS));
        assert!(!stops(1000, f64::NAN, 7, true, SLICE_NS));
    }
}
