//! SIGPIPE as it was when this process was started: Rust's start-up code ignores it before `main`, and ULPs would inherit that.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_IGNORED: AtomicBool = AtomicBool::new(false);

#[used]
// SAFETY: the loader calls each pointer in .init_array once before main, as a function of this type.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: an all-zero sigaction is valid plain data.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with a null new action the call only reads; `before` is valid for the write.
    let read = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut before) };
    WAS_IGNORED.store(read == 0 && before.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

/// Restores the action of SIGPIPE.
pub fn restore() {
    if !WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: setting the default action has no memory effects.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}
