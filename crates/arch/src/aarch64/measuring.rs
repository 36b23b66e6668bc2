//! The clock and the loops that measure noise.

use std::arch::asm;

use crate::measuring::{Gap, Watched};

/// Reads the virtual counter. `isb` waits for all earlier instructions (Arm ARM, D11.2.2).
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    let now: u64;
    // SAFETY: the instructions read a counter and write the named register.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack, preserves_flags)) };
    now
}

/// Reads the virtual counter without waiting for other instructions.
#[inline]
#[must_use]
pub fn quick_ticks() -> u64 {
    let now: u64;
    // SAFETY: the instruction reads a counter and writes the named register.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack, preserves_flags)) };
    now
}

/// Reads the counter until two readings are more than `threshold` ticks apart, or until the counter reaches `end`. The first gap begins at `last`.
/// Returns the readings before and after the gap; they are equal if the end was reached without a gap.
pub fn until_gap(mut last: u64, threshold: u64, end: u64, watched: &mut Watched) -> Gap {
    loop {
        let now = ticks();
        let gap = now.wrapping_sub(last);
        watched.readings += 1;
        if gap > threshold {
            return Gap { before: last, after: now };
        }
        watched.smallest = watched.smallest.min(gap);
        last = now;
        if now >= end {
            return Gap { before: now, after: now };
        }
    }
}

/// Executes `units` units of integer work.
pub fn integer_work(units: u64) {
    for _ in 0..units {
        // SAFETY: the instruction changes the named register only.
        unsafe { asm!("mul {0}, {0}, {0}", inout(reg) 3_u64 => _, options(nomem, nostack)) };
    }
}

/// Returns whether this processor has fused multiply-add instructions: always.
#[must_use]
pub fn has_fma() -> bool {
    true
}

/// Executes `units` units of floating-point work.
pub fn fma_work(units: u64) {
    for _ in 0..units {
        // SAFETY: the instruction changes the named register only.
        unsafe { asm!("fmadd {0:d}, {0:d}, {0:d}, {0:d}", inout(vreg) 0_f64 => _, options(nomem, nostack)) };
    }
}

/// Reads and writes one word of each cache line of `memory`, `units` lines in all, from the line `at` on and around. Returns the line after the last
/// one.
///
/// # Panics
/// If the memory has no line of 64 bytes.
pub fn streaming_work(units: u64, memory: &mut [u64], mut at: u64) -> u64 {
    let lines = memory.len() as u64 / 8;
    assert!(lines > 0 && at < lines, "streaming needs memory, and a line in it");
    for _ in 0..units {
        let word = &mut memory[at as usize * 8];
        *word = std::hint::black_box(*word + 1);
        at = if at + 1 == lines { 0 } else { at + 1 };
    }
    at
}
