//! The two pages of one process, as cox reads them.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::mm::{MapFlags, ProtFlags};
use wire::umt::{Said, Seen};

use crate::mapping::Mapping;

/// Both pages of a process, mapped read-only. The process can write anything to its program page at any time.
#[derive(Debug)]
pub struct Pages {
    said: Mapping,
    seen: Mapping,
}

impl Pages {
    /// Maps the two pages of these descriptors.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn map(said: BorrowedFd<'_>, seen: BorrowedFd<'_>) -> io::Result<Pages> {
        let map = |fd, bytes| Mapping::new(fd, bytes, ProtFlags::READ, MapFlags::SHARED);
        Ok(Pages { said: map(said, size_of::<Said>())?, seen: map(seen, size_of::<Seen>())? })
    }

    /// Returns the program page, which the process writes.
    #[must_use]
    pub fn said(&self) -> &Said {
        // SAFETY: mapped until this value is dropped; every word is an atomic, for which all bit patterns are valid.
        unsafe { &*self.said.at(0) }
    }

    /// Returns the kernel page.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        // SAFETY: mapped until this value is dropped; every word that is read is an atomic. The padding is never read.
        unsafe { &*self.seen.at(0) }
    }
}
