//! What a program polls: an epoll instance that holds what the kernel makes ready, and an event of our own, that is up while something is known
//! and was not read yet.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Descriptors asked about at a time.
const MOST: usize = 32;

/// One of them.
#[derive(Debug)]
pub struct Watcher {
    epoll: OwnedFd,
    event: OwnedFd,
    is_up: bool,
}

impl Watcher {
    /// Nothing makes it ready yet.
    pub fn new() -> io::Result<Watcher> {
        // SAFETY: makes a descriptor.
        let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: as above.
        let event = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        let watcher = Watcher { epoll, event, is_up: false };
        watcher.watch(watcher.event.as_raw_fd(), libc::EPOLLIN)?;
        Ok(watcher)
    }

    /// Becomes ready with a descriptor, which may be known already.
    pub fn watch(&self, what: RawFd, events: libc::c_int) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: 0 };
        // SAFETY: an event to be read.
        let failed = unsafe { libc::epoll_ctl(self.raw(), libc::EPOLL_CTL_ADD, what, &raw mut event) } < 0;
        match failed.then(io::Error::last_os_error) {
            Some(why) if why.raw_os_error() != Some(libc::EEXIST) => Err(why),
            _ => Ok(()),
        }
    }

    /// Takes in what was watched for its edges.
    pub fn hush(&self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        // SAFETY: room for so many.
        while unsafe { libc::epoll_wait(self.raw(), events.as_mut_ptr(), MOST as libc::c_int, 0) }
            == MOST as libc::c_int
        {}
    }

    /// Whether it is to be ready whatever the kernel says.
    pub fn raise(&mut self, up: bool) {
        if std::mem::replace(&mut self.is_up, up) == up {
            return;
        }
        let mut one = 1u64;
        let fd = self.event.as_raw_fd();
        // SAFETY: eight bytes, to be read or written; neither blocks.
        unsafe {
            if up {
                libc::write(fd, (&raw const one).cast(), 8);
            } else {
                libc::read(fd, (&raw mut one).cast(), 8);
            }
        }
    }

    /// What is polled.
    pub fn raw(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// In a child after fork, where these descriptors are copies: closes them, and leaves what they are of as it is.
    pub fn leave_to_parent(&self) {
        close([self.epoll.as_raw_fd(), self.event.as_raw_fd()]);
    }
}

/// Closes descriptors of an object that is forgotten; safe in a child after fork.
pub fn close(descriptors: impl IntoIterator<Item = RawFd>) {
    for fd in descriptors {
        // SAFETY: the caller's own, which nobody uses behind this.
        unsafe { libc::close(fd) };
    }
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: just made, if it is one.
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}
