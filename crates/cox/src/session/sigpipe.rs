//! What SIGPIPE meant when cox was started.
//!
//! Rust's start-up code ignores SIGPIPE before `main`. A program that cox starts must find it as
//! cox did, or a `yes | head` under cox would not end; so it is looked up before that code runs.

use std::sync::atomic::{AtomicBool, Ordering};

static IGNORED_AT_START: AtomicBool = AtomicBool::new(false);

#[used]
// SAFETY: .init_array holds pointers to functions of this type, run once before main.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: an all-zero sigaction is valid plain data.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only asks; `before` is valid for the write.
    if unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut before) } == 0 {
        IGNORED_AT_START.store(before.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
    }
}

/// Give SIGPIPE its meaning back. Async-signal-safe: for a forked child before exec.
pub fn restore() {
    if !IGNORED_AT_START.load(Ordering::Relaxed) {
        // SAFETY: setting a default disposition has no memory effects.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}
