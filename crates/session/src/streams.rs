//! Records which standard streams were closed when cox was started.
//!
//! Rust's start-up code opens /dev/null for a closed stdin, stdout or stderr before `main`. A program that cox starts
//! must find the same streams closed, because writing to a closed stdout is an error that programs notice. The state is
//! therefore recorded before that code runs.

use std::sync::atomic::{AtomicU8, Ordering};

/// Bit n is set if descriptor n was closed.
static CLOSED_AT_START: AtomicU8 = AtomicU8::new(0);

#[used]
// SAFETY: the loader calls each pointer in .init_array once before main, as a function of this type.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for fd in 0..=2 {
        // SAFETY: F_GETFD takes no argument and only reads.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED_AT_START.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Closes the streams that were closed at the start. Async-signal-safe, for a forked child before exec.
pub fn restore() {
    for fd in 0..=2 {
        if CLOSED_AT_START.load(Ordering::Relaxed) & (1 << fd) != 0 {
            // SAFETY: the descriptor is the start-up code's /dev/null; no Rust value owns it.
            unsafe { libc::close(fd) };
        }
    }
}
