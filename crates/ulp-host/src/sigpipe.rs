//! SIGPIPE as it was when this process was started: Rust's start-up code ignores it before `main`, and ULPs would inherit that. But the host must not end,
//! and all ULPs with it, because nobody reads what it prints.

use std::mem::MaybeUninit;
use std::ptr;
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
    let read = unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), &raw mut before) };
    WAS_IGNORED.store(read == 0 && before.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

/// Does something for which this process cannot get SIGPIPE. To be called when no process is started.
pub fn without<T>(action: impl FnOnce() -> T) -> T {
    let (mut pipe, mut before) = (MaybeUninit::<libc::sigset_t>::uninit(), MaybeUninit::<libc::sigset_t>::uninit());
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the sets are valid for writing; sigemptyset initialises the first one, and pthread_sigmask the second one.
    unsafe {
        libc::sigemptyset(pipe.as_mut_ptr());
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr());
        let result = action();
        libc::sigtimedwait(pipe.as_ptr(), ptr::null_mut(), &raw const at_once);
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        result
    }
}

/// Restores the action of SIGPIPE.
pub fn restore() {
    if !WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: setting the default action has no memory effects.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}
