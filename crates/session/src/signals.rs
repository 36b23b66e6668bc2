//! Signals that reach cox while a session lasts.
//!
//! They are blocked and read from a descriptor. SIGTSTP and SIGCONT keep their default meaning, so
//! that job control stops and continues cox together with the program.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};

/// What a user may send to a command to reach the program behind it.
const PASSED_ON: [i32; 7] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM];

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Made by the kernel, as for a key: every process of the foreground group has it.
    FromTerminal(i32),
    /// Sent to cox by a process.
    FromProcess(i32),
}

impl Received {
    /// Whether it is one by which people and job managers end programs, and so a series of runs too.
    pub fn asks_for_the_end(self) -> bool {
        let (Received::FromTerminal(signal) | Received::FromProcess(signal)) = self;
        [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].contains(&signal)
    }
}

/// The blocked signals; dropping it puts the mask back.
pub struct Signals {
    fd: OwnedFd,
    original: libc::sigset_t,
}

impl Signals {
    /// Block the signals and open their descriptor.
    pub fn take() -> Result<Signals> {
        // SAFETY: sigset_t is plain data; the calls below initialise it before use.
        let (mut wanted, mut original): (libc::sigset_t, libc::sigset_t) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: both sets are valid for writes, signal numbers are constants.
        unsafe {
            libc::sigemptyset(&raw mut wanted);
            // nohup(1) is a wish. That a script's shell ignores SIGINT and SIGQUIT for what it starts in
            // the background is none: `kill -INT` is how such a watch is ended.
            let unwanted = |signal: i32| signal == libc::SIGHUP && is_ignored(signal);
            for signal in PASSED_ON.into_iter().filter(|signal| !unwanted(*signal)) {
                libc::sigaddset(&raw mut wanted, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const wanted, &raw mut original);
        }
        // SAFETY: a valid set; the kernel returns a new descriptor or -1.
        let fd = unsafe { libc::signalfd(-1, &raw const wanted, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error()).context("signalfd");
        }
        // SAFETY: a descriptor that the kernel has just given us.
        Ok(Signals { fd: unsafe { OwnedFd::from_raw_fd(fd) }, original })
    }

    /// The mask as it was, for the program.
    pub fn original_mask(&self) -> libc::sigset_t {
        self.original
    }

    /// What has arrived.
    pub fn read(&self) -> Result<Vec<Received>> {
        let mut received = Vec::new();
        loop {
            // SAFETY: plain data, filled by the kernel below.
            let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
            // SAFETY: `info` is valid for a write of its size.
            let n = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size_of_val(&info)) };
            if n != size_of_val(&info) as isize {
                return Ok(received);
            }
            let signal = info.ssi_signo as i32;
            received.push(if info.ssi_code == libc::SI_KERNEL {
                Received::FromTerminal(signal)
            } else {
                Received::FromProcess(signal)
            });
        }
    }
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: plain data; sigaction without a new action only writes the present one.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action);
        action
    };
    action.sa_sigaction == libc::SIG_IGN
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the set was filled by pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.original, std::ptr::null_mut()) };
    }
}
