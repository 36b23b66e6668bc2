//! Signals to the host: it waits for them, and sends to its ULPs what another process has sent to it.
//!
//! What a terminal sends (Ctrl-C) goes to the whole foreground group, so that the ULPs have it already.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

/// Signals that ask a program for something. Others keep their default action; SIGKILL and SIGSTOP cannot be waited for.
const PASSED_ON: [i32; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGCONT,
    libc::SIGWINCH,
];

/// The signals of this thread are blocked and wait to be read, until the value is dropped.
pub(crate) struct Signals {
    awaited: libc::sigset_t,
    before: libc::sigset_t,
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// A child has changed its state.
    Child,
    /// A signal that another process has sent to the host.
    ToAll(i32),
    /// A signal that the ULPs have already: a terminal has sent it to all.
    FromTerminal(i32),
    /// None.
    Nothing,
}

impl Arrived {
    /// Whether it ends programs that neither handle nor ignore it.
    pub(crate) fn ends_programs(self) -> bool {
        let (Arrived::ToAll(signal) | Arrived::FromTerminal(signal)) = self else { return false };
        !is_ignored(signal) && [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM].contains(&signal)
    }
}

/// Whether this process, and so its programs at first, ignore a signal (nohup).
fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the structure is valid for writing; a successful call initialises it.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

impl Signals {
    /// Blocks the signals.
    pub(crate) fn block() -> io::Result<Signals> {
        let mut awaited = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the sets are valid for writing; sigemptyset and a successful pthread_sigmask initialise them.
        unsafe {
            libc::sigemptyset(awaited.as_mut_ptr());
            for signal in PASSED_ON.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(awaited.as_mut_ptr(), signal);
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, awaited.as_ptr(), before.as_mut_ptr()) {
                0 => Ok(Signals { awaited: awaited.assume_init(), before: before.assume_init() }),
                errno => Err(io::Error::from_raw_os_error(errno)),
            }
        }
    }

    /// Returns the signals that were blocked before, as the kernel wants them.
    pub(crate) fn mask_before(&self) -> u64 {
        // SAFETY: a sigset_t begins with the kernel's 64 bits.
        unsafe { (&raw const self.before).cast::<u64>().read() }
    }

    /// Waits for a signal, if `limit` is given only so long.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Arrived {
        let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
        let limit =
            limit.map(|limit| libc::timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() });
        let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the pointers are valid; a successful call initialises the information.
        let signal = unsafe { libc::sigtimedwait(&raw const self.awaited, info.as_mut_ptr(), limit) };
        match signal {
            libc::SIGCHLD => Arrived::Child,
            // SAFETY: the call was successful.
            1.. if unsafe { info.assume_init() }.si_code == libc::SI_KERNEL => Arrived::FromTerminal(signal),
            1.. => Arrived::ToAll(signal),
            _ => Arrived::Nothing,
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the set is the one that `block` was given.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}
