//! The place where standbys sleep if threads' logs ([`records`](crate::records)) wake them: an epoll instance that watches all logs. Only one standby
//! at a time sleeps there, because such a session has only one doorbell (`connect` explains why). When this standby goes to work, another one takes
//! its place. Events that occur in between are kept for the second standby.

use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::bell;
use crate::descriptors::{out_of_the_way, owned};

/// The epoll instance; -1: not created.
static HERE: AtomicI32 = AtomicI32::new(-1);
/// The event descriptor to which [`ring`] writes in order to wake a sleeping standby.
static CALLS: AtomicI32 = AtomicI32::new(-1);
/// Number of calls of [`ring`] for which no sleeping thread has woken up yet. Two writes to the event descriptor may wake only one sleeper. So if a
/// thread that wakes up finds further calls, it writes to the event descriptor again.
static UNANSWERED: AtomicU32 = AtomicU32::new(0);

const LOG: u64 = 0;
const CALL: u64 = 1;
const SESSION: u64 = 2;

/// Why a thread's sleep in [`sleep`] has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A tracked thread has left its CPU, and the kernel has logged this.
    Left,
    /// Another thread of the process has called [`ring`].
    Called,
    /// Timeout, or a wake-up without a reason.
    Late,
    /// The session is over.
    Over,
    /// The program has closed the descriptor of the epoll instance, probably together with all other descriptors.
    Lost,
}

/// Creates the epoll instance. Returns `None` if no descriptors are left.
pub(crate) fn begin(session: RawFd) -> Option<()> {
    // SAFETY: the call takes no pointers; it only makes a descriptor.
    let here = unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }.and_then(out_of_the_way).ok()?;
    let calls = bell::event()?;
    // The event descriptor is edge-triggered: a write by `ring` wakes one sleeper, and no sleeper has to read the descriptor. The session's socket
    // is level-triggered: its end wakes all sleepers.
    let added = add(here.as_raw_fd(), calls.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET, CALL)
        && add(here.as_raw_fd(), session, libc::EPOLLIN | libc::EPOLLRDHUP, SESSION);
    if !added {
        return None;
    }
    CALLS.store(calls.into_raw_fd(), Ordering::Release);
    HERE.store(here.into_raw_fd(), Ordering::Release);
    Some(())
}

/// Adds a log of thread switches (its perf event) to the epoll instance, so that each switch-out of the thread wakes the standby or leader that
/// sleeps there.
pub(crate) fn watch(log: RawFd) {
    add(HERE.load(Ordering::Acquire), log, libc::EPOLLIN | libc::EPOLLET, LOG);
}

fn add(here: RawFd, what: RawFd, events: libc::c_int, kind: u64) -> bool {
    let mut event = libc::epoll_event { events: events as u32, u64: kind };
    // SAFETY: `event` is initialised, and the kernel only reads it.
    unsafe { libc::epoll_ctl(here, libc::EPOLL_CTL_ADD, what, &raw mut event) == 0 }
}

/// Wakes one thread that sleeps in [`sleep`], or is about to.
pub(crate) fn ring() {
    UNANSWERED.fetch_add(1, Ordering::AcqRel);
    bell::write(CALLS.load(Ordering::Acquire));
}

/// Called by a thread that has woken up: subtracts one call of [`ring`] from those that are unanswered. Returns whether there was one.
fn answer() -> bool {
    let fewer = |calls: u32| calls.checked_sub(1);
    let before = UNANSWERED.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fewer);
    if before.is_ok_and(|calls| calls > 1) {
        bell::write(CALLS.load(Ordering::Acquire));
    }
    before.is_ok()
}

/// Sleeps until one of the events in [`Why`] occurs, or for at most `milliseconds` (-1: without limit). Returns which event it was.
pub(crate) fn sleep(milliseconds: i32) -> Why {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: `event` has space for the one event that the call may write.
    let count = unsafe { libc::epoll_wait(HERE.load(Ordering::Acquire), &raw mut event, 1, milliseconds) };
    // SAFETY: errno belongs to the calling thread.
    let error = unsafe { *libc::__errno_location() };
    match (count, event.u64) {
        (0, _) => Why::Late,
        (1, LOG) => Why::Left,
        (1, CALL) if answer() => Why::Called,
        (1, CALL) => Why::Late,
        // Interrupted by a signal, for example a debugger's. No event has occurred, but looking once more does no harm.
        (-1, _) if error == libc::EINTR => Why::Late,
        (1, _) => Why::Over,
        _ => Why::Lost,
    }
}
