//! Actions of signals. The C library's sigaction is not used: it would add a restorer of its own, whose system call would be dispatched on carriers, and the
//! code of a ULP's context must not use the host's C library.

use super::machine;

/// An action as rt_sigaction(2) has it.
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// SA_RESTORER of the kernel's asm/signal.h.
const RESTORER: u64 = 0x0400_0000;

const DEFAULT: Action = Action { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };

/// Lets a function handle a signal, on the stack for signal handlers, with further `flags`, while the signals in `mask` are blocked.
pub(super) fn handle(signal: i32, handler: usize, flags: i32, mask: u64) {
    let flags = (libc::SA_SIGINFO | libc::SA_ONSTACK | flags) as u64 | RESTORER;
    set(signal, &Action { handler, flags, restorer: machine::return_from_signal as *const () as usize, mask });
}

/// Gives a signal its default action.
pub(super) fn restore_default(signal: i32) {
    set(signal, &DEFAULT);
}

fn set(signal: i32, action: &Action) {
    // SAFETY: the action is valid.
    unsafe {
        machine::call4(libc::SYS_rt_sigaction, signal as u64, (action as *const Action) as u64, 0, machine::SET_BYTES)
    };
}

/// Whether the calling process ignores a signal.
pub(super) fn is_ignored(signal: i32) -> bool {
    let mut action = DEFAULT;
    // SAFETY: the action is valid for writing.
    unsafe {
        machine::call4(libc::SYS_rt_sigaction, signal as u64, 0, (&raw mut action) as u64, machine::SET_BYTES);
    }
    action.handler == libc::SIG_IGN
}
