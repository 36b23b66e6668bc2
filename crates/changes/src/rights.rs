//! Rights that one process has at a time: a byte each of one file that is empty and stays so, locked.
//!
//! A lock goes with the process, however that ends, and leaves nothing that had to be removed. The locks belong to
//! the open file (F_OFD_SETLK, fcntl(2)) and not to the process, so that a process does not share its own.
#![allow(unsafe_code, reason = "fcntl with a struct flock, which rustix has for whole files only")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A right that nobody else has while it lives.
#[derive(Debug)]
pub struct Right {
    _file: File,
}

/// Takes the right of this number through a file that was opened for it alone; `None` while another has it.
///
/// # Errors
/// The kernel's answer, where the file system has no locks.
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

/// Whether somebody has the right of this number. Takes nothing.
///
/// # Errors
/// As [`take`].
pub(crate) fn is_taken(file: &File, number: u32) -> io::Result<bool> {
    let mut asked = byte(number);
    // SAFETY: the descriptor is open, and F_OFD_GETLK reads and writes a struct flock.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut asked) } {
        0 => Ok(asked.l_type != libc::F_UNLCK as libc::c_short),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The lock of one byte. An open file's lock must say 0 for the process.
fn byte(number: u32) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::from(number),
        l_len: 1,
        l_pid: 0,
    }
}
