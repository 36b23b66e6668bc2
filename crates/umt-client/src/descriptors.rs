//! New descriptors, and how they are moved to high numbers, which programs do not use.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use wire::preload::KEPT_FROM;

/// Number of descriptor numbers to reserve: enough for all of ours.
pub(crate) const ROOM: u64 = 64;

/// Moves a descriptor to a number that no program expects to be its own. A program may close descriptors that it does not know, and then open
/// files of its own under their numbers; doorbells would write to those files.
pub(crate) fn out_of_the_way(fd: OwnedFd) -> io::Result<OwnedFd> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` has room for the result.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    let first = limit.rlim_cur.saturating_sub(ROOM).min(KEPT_FROM as u64);
    if !known || first < ROOM {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    // SAFETY: the call only duplicates the descriptor.
    unsafe { owned(libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, first as libc::c_int)) }
}

/// Returns the descriptor that a system call has just made.
///
/// # Errors
/// The call's error, if `fd` is negative.
///
/// # Safety
/// `fd` is the result of a system call that makes a descriptor, and no other code owns this descriptor.
pub unsafe fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: `fd` is not negative, so it is a descriptor; the caller guarantees that no other code owns it.
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}
