//! Which standard streams cox was started without.
//!
//! Rust's start-up code opens /dev/null for a closed stdin, stdout or stderr before `main`. A program
//! that cox starts must find them as closed as cox did: writing to a closed stdout is an error that
//! programs notice. So it is looked up before that code runs.

use std::sync::atomic::{AtomicU8, Ordering};

/// Bit n: descriptor n was closed.
static CLOSED_AT_START: AtomicU8 = AtomicU8::new(0);

#[used]
// SAFETY: .init_array holds pointers to functions of this type, run once before main.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for fd in 0..=2 {
        // SAFETY: F_GETFD takes no argument and only asks.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED_AT_START.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Close what was closed. Async-signal-safe: for a forked child before exec.
pub fn restore() {
    for fd in 0..=2 {
        if CLOSED_AT_START.load(Ordering::Relaxed) & (1 << fd) != 0 {
            // SAFETY: the descriptor is the start-up code's /dev/null; no Rust value owns it.
            unsafe { libc::close(fd) };
        }
    }
}
