//! Numbers of descriptors, where the program does not expect any.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use wire::preload::KEPT_FROM;

/// Numbers that are enough for all of ours.
pub(crate) const ROOM: u64 = 64;

/// A descriptor with a number that no program expects for its own: a program may close those that it does not know of, and have files of its own
/// in their place, which bells would write to.
pub(crate) fn out_of_the_way(fd: OwnedFd) -> io::Result<OwnedFd> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    let first = limit.rlim_cur.saturating_sub(ROOM).min(KEPT_FROM as u64);
    if !known || first < ROOM {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    // SAFETY: asks for another number of a descriptor.
    let moved = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, first as libc::c_int) };
    if moved < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}
