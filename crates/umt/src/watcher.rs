//! The descriptor that a program polls: an epoll instance. It watches descriptors that the kernel makes ready, and an eventfd of our own,
//! which is readable while there are counts that the program has not read.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use umt_client::owned;

/// Number of events fetched by one call.
const MOST: usize = 32;

/// An epoll instance and its eventfd.
#[derive(Debug)]
pub struct Watcher {
    epoll: OwnedFd,
    event: OwnedFd,
    is_up: bool,
}

impl Watcher {
    /// Makes a watcher that is not ready, and watches no other descriptor yet.
    pub fn new() -> io::Result<Watcher> {
        // SAFETY: the call takes no pointers.
        let epoll = unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }?;
        // SAFETY: the call takes no pointers.
        let event = unsafe { owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }?;
        let watcher = Watcher { epoll, event, is_up: false };
        watcher.watch(watcher.event.as_raw_fd(), libc::EPOLLIN)?;
        Ok(watcher)
    }

    /// Adds a descriptor that makes the watcher ready. Does nothing if it was added before.
    pub fn watch(&self, what: RawFd, events: libc::c_int) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: 0 };
        // SAFETY: the kernel only reads `event`, during the call.
        let failed = unsafe { libc::epoll_ctl(self.raw(), libc::EPOLL_CTL_ADD, what, &raw mut event) } < 0;
        match failed.then(io::Error::last_os_error) {
            Some(why) if why.raw_os_error() != Some(libc::EEXIST) => Err(why),
            _ => Ok(()),
        }
    }

    /// Fetches the events of edge-triggered descriptors, so that these no longer make the watcher ready.
    pub fn hush(&self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        // SAFETY: the buffer has room for this number of events.
        while unsafe { libc::epoll_wait(self.raw(), events.as_mut_ptr(), MOST as libc::c_int, 0) }
            == MOST as libc::c_int
        {}
    }

    /// Makes the watcher ready (`up`) or not, regardless of the other descriptors.
    pub fn raise(&mut self, up: bool) {
        if std::mem::replace(&mut self.is_up, up) == up {
            return;
        }
        let mut one = 1u64;
        let fd = self.event.as_raw_fd();
        // SAFETY: the pointer leads to eight bytes that the calls may read or write. Neither call blocks.
        unsafe {
            if up {
                libc::write(fd, (&raw const one).cast(), 8);
            } else {
                libc::read(fd, (&raw mut one).cast(), 8);
            }
        }
    }

    /// Returns the descriptor to poll.
    pub fn raw(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Closes the copies of the descriptors in a child after fork. The parent's epoll instance and eventfd stay as they are.
    pub fn leave_to_parent(&self) {
        close([self.epoll.as_raw_fd(), self.event.as_raw_fd()]);
    }
}

/// Closes the descriptors of an object that is not used again. Safe in a child after fork.
pub fn close(descriptors: impl IntoIterator<Item = RawFd>) {
    for fd in descriptors {
        // SAFETY: the descriptors are the caller's, and no thread uses them after this.
        unsafe { libc::close(fd) };
    }
}
