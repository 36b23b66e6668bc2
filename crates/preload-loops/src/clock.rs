//! The time between two events in a thread, for adaptive schedules: the processor's counter, whose ticks are converted to nanoseconds.

use std::sync::OnceLock;

use arch::measuring::quick_ticks;
use arch::monotonic_ns;

/// Reading of both clocks at the library's start.
static START: OnceLock<(u64, u64)> = OnceLock::new();
static NS_PER_TICK: OnceLock<f64> = OnceLock::new();

/// Time for which the clocks are compared, nanoseconds: 10,000 times what a reading takes.
const COMPARED_NS: u64 = 1_000_000;

/// Returns the current time, ticks.
#[inline]
pub fn now() -> u64 {
    quick_ticks()
}

/// Notes the start of the library.
pub fn start() {
    START.get_or_init(|| (quick_ticks(), monotonic_ns()));
}

/// Returns nanoseconds per tick. The first call may take a millisecond.
pub fn ns_per_tick() -> f64 {
    *NS_PER_TICK.get_or_init(|| {
        let (ticks, ns) = *START.get_or_init(|| (quick_ticks(), monotonic_ns()));
        loop {
            let elapsed_ns = monotonic_ns() - ns;
            if elapsed_ns >= COMPARED_NS {
                return elapsed_ns as f64 / quick_ticks().wrapping_sub(ticks).max(1) as f64;
            }
            std::hint::spin_loop();
        }
    })
}
