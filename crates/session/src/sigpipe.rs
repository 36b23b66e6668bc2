//! What SIGPIPE and SIGXFSZ meant when cox was started.
//!
//! Rust's start-up code ignores SIGPIPE before `main`. A program that cox starts must find it as
//! cox did, or a `yes | head` under cox would not end; so it is looked up before that code runs.
//!
//! SIGXFSZ would end cox when a report grows beyond `ulimit -f`, and with it the program's exit code. Ignored, it makes
//! the write fail as a full disk does.

use std::sync::atomic::{AtomicBool, Ordering};

/// A signal that cox ignores, and whether it was ignored before.
struct Ignored {
    signal: libc::c_int,
    at_start: AtomicBool,
}

static IGNORED: [Ignored; 2] = [
    Ignored { signal: libc::SIGPIPE, at_start: AtomicBool::new(false) },
    Ignored { signal: libc::SIGXFSZ, at_start: AtomicBool::new(false) },
];

#[used]
// SAFETY: .init_array holds pointers to functions of this type, run once before main.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for Ignored { signal, at_start } in &IGNORED {
        // SAFETY: an all-zero sigaction is valid plain data.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: a null new action only asks; `before` is valid for the write.
        if unsafe { libc::sigaction(*signal, std::ptr::null(), &raw mut before) } == 0 {
            at_start.store(before.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
        }
        // SAFETY: ignoring a signal has no memory effects.
        unsafe { libc::signal(*signal, libc::SIG_IGN) };
    }
}

/// Give these signals their meaning back. Async-signal-safe: for a forked child before exec.
pub fn restore() {
    for Ignored { signal, at_start } in &IGNORED {
        if !at_start.load(Ordering::Relaxed) {
            // SAFETY: setting a default disposition has no memory effects.
            unsafe { libc::signal(*signal, libc::SIG_DFL) };
        }
    }
}
