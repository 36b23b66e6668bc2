//! Exclusive rights to change processes: only one session at a time has the right to change a process. Each right is
//! a lock on one byte of a file, which stays empty.
//!
//! A lock ends with its process, even if the process is killed, so nothing remains to be removed. The locks belong to
//! the open file (F_OFD_SETLK, fcntl(2)) and not to the process, so two sessions of one process exclude each other
//! too.
#![allow(unsafe_code, reason = "fcntl with a struct flock, which rustix has for whole files only")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// The exclusive right to change one process. Dropping the value releases the right.
#[derive(Debug)]
pub struct Right {
    _file: File,
}

/// Takes the exclusive right to change the process with the id `number`. `file` must have been opened for this right
/// only. Returns `None` while another session has the right.
///
/// # Errors
/// The kernel's error, if the file system has no locks.
pub(crate) fn take(file: File, number: u32) -> io::Result<Option<Right>> {
    let mut wanted = byte(number);
    // SAFETY: the descriptor is open, and F_OFD_SETLK reads a struct flock.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut wanted) } {
        0 => Ok(Some(Right { _file: file })),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(None),
            error => Err(error),
        },
    }
}

/// Returns whether any session has the exclusive right to change the process with the id `number`. Does not take the
/// right.
///
/// # Errors
/// The same as [`take`].
pub(crate) fn is_taken(file: &File, number: u32) -> io::Result<bool> {
    let mut asked = byte(number);
    // SAFETY: the descriptor is open, and F_OFD_GETLK reads and writes a struct flock.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut asked) } {
        0 => Ok(asked.l_type != libc::F_UNLCK as libc::c_short),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Describes the lock of one byte. F_OFD locks require process id 0.
fn byte(number: u32) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::from(number),
        l_len: 1,
        l_pid: 0,
    }
}
