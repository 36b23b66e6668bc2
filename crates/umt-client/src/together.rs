//! The place for a standby to sleep at, where threads' logs ([`records`](crate::records)) are watched: an epoll instance. One sleeps there at a time, the
//! next when that one has gone to work (there is one bell). What happens meanwhile is kept for it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::bell;
use crate::descriptors::out_of_the_way;

/// The epoll instance; -1: none.
static HERE: AtomicI32 = AtomicI32::new(-1);
/// An event descriptor that is rung from within the process.
static CALLS: AtomicI32 = AtomicI32::new(-1);
/// Calls that nobody has answered. Two writes of the event may wake one sleeper only; so who answers a call, and finds another, writes again.
static UNANSWERED: AtomicU32 = AtomicU32::new(0);

const LOG: u64 = 0;
const CALL: u64 = 1;
const SESSION: u64 = 2;

/// Why a sleep has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A thread has left its CPU.
    Left,
    /// Somebody has called ([`ring`]).
    Called,
    /// Time is up, or for no reason.
    Late,
    /// The session is over.
    Over,
    /// The program has closed this place, as all descriptors.
    Lost,
}

/// Makes the place. `None`: there are no descriptors left.
pub(crate) fn begin(session: RawFd) -> Option<()> {
    // SAFETY: makes a descriptor.
    let here = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    // SAFETY: just made.
    let here = (here >= 0).then(|| unsafe { OwnedFd::from_raw_fd(here) })?;
    let here = out_of_the_way(here).ok()?;
    let calls = bell::event()?;
    // A call wakes one, and need not be read. The session's end wakes all.
    let added = add(here.as_raw_fd(), calls.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET, CALL)
        && add(here.as_raw_fd(), session, libc::EPOLLIN | libc::EPOLLRDHUP, SESSION);
    if !added {
        return None;
    }
    let keep = |fd: OwnedFd| std::mem::ManuallyDrop::new(fd).as_raw_fd();
    CALLS.store(keep(calls), Ordering::Release);
    HERE.store(keep(here), Ordering::Release);
    Some(())
}

/// Watches one more log.
pub(crate) fn watch(log: RawFd) {
    add(HERE.load(Ordering::Acquire), log, libc::EPOLLIN | libc::EPOLLET, LOG);
}

fn add(here: RawFd, what: RawFd, events: libc::c_int, kind: u64) -> bool {
    let mut event = libc::epoll_event { events: events as u32, u64: kind };
    // SAFETY: an event to be read.
    unsafe { libc::epoll_ctl(here, libc::EPOLL_CTL_ADD, what, &raw mut event) == 0 }
}

/// Wakes one who sleeps, or is about to.
pub(crate) fn ring() {
    UNANSWERED.fetch_add(1, Ordering::AcqRel);
    bell::write(CALLS.load(Ordering::Acquire));
}

/// Whether there was a call, which is the caller's now.
fn answer() -> bool {
    let fewer = |calls: u32| calls.checked_sub(1);
    let before = UNANSWERED.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fewer);
    if before.is_ok_and(|calls| calls > 1) {
        bell::write(CALLS.load(Ordering::Acquire));
    }
    before.is_ok()
}

/// Sleeps until something happens, or so many milliseconds (-1: for ever).
pub(crate) fn sleep(milliseconds: i32) -> Why {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: room for one event.
    let count = unsafe { libc::epoll_wait(HERE.load(Ordering::Acquire), &raw mut event, 1, milliseconds) };
    // SAFETY: this thread's own.
    let error = unsafe { *libc::__errno_location() };
    match (count, event.u64) {
        (0, _) => Why::Late,
        (1, LOG) => Why::Left,
        (1, CALL) if answer() => Why::Called,
        (1, CALL) => Why::Late,
        // A signal of a debugger's: nothing has happened, and looking once more does no harm.
        (-1, _) if error == libc::EINTR => Why::Late,
        (1, _) => Why::Over,
        _ => Why::Lost,
    }
}
