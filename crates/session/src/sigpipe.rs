//! Records the dispositions of SIGPIPE and SIGXFSZ at the start of cox, and restores them for the program.
//!
//! Rust's start-up code ignores SIGPIPE before `main`. A program that cox starts must get the original disposition, or
//! `yes | head` under cox would not end. The disposition is therefore recorded before that code runs.
//!
//! By default, SIGXFSZ would kill cox when a report exceeds `ulimit -f`, and the program's exit code would be lost. cox
//! ignores the signal, so the write fails instead, as on a full disk.

use std::sync::atomic::{AtomicBool, Ordering};

/// A signal that cox ignores, and whether it was ignored when cox was started.
struct Ignored {
    signal: libc::c_int,
    at_start: AtomicBool,
}

static IGNORED: [Ignored; 2] = [
    Ignored { signal: libc::SIGPIPE, at_start: AtomicBool::new(false) },
    Ignored { signal: libc::SIGXFSZ, at_start: AtomicBool::new(false) },
];

#[used]
// SAFETY: the loader calls each pointer in .init_array once before main, as a function of this type.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for Ignored { signal, at_start } in &IGNORED {
        // SAFETY: an all-zero sigaction is valid plain data.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: with a null new action the call only reads; `before` is valid for the write.
        if unsafe { libc::sigaction(*signal, std::ptr::null(), &raw mut before) } == 0 {
            at_start.store(before.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
        }
        // SAFETY: ignoring a signal has no memory effects.
        unsafe { libc::signal(*signal, libc::SIG_IGN) };
    }
}

/// Restores the dispositions of these signals. Async-signal-safe, for a forked child before exec.
pub fn restore() {
    for Ignored { signal, at_start } in &IGNORED {
        if !at_start.load(Ordering::Relaxed) {
            // SAFETY: setting a default disposition has no memory effects.
            unsafe { libc::signal(*signal, libc::SIG_DFL) };
        }
    }
}
