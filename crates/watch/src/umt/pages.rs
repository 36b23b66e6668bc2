//! The two pages of one process, as cox reads them.

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use wire::umt::{Said, Seen};

/// Both pages of a process, mapped read-only. The process can write anything to its program page at any time.
#[derive(Debug)]
pub struct Pages {
    said: Mapped<Said>,
    seen: Mapped<Seen>,
}

impl Pages {
    /// Maps the two pages of these descriptors.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn map(said: BorrowedFd<'_>, seen: BorrowedFd<'_>) -> io::Result<Pages> {
        Ok(Pages { said: Mapped::new(said)?, seen: Mapped::new(seen)? })
    }

    /// Returns the program page, which the process writes.
    #[must_use]
    pub fn said(&self) -> &Said {
        // SAFETY: mapped until this value is dropped; every word is an atomic, for which all bit patterns are valid.
        unsafe { self.said.0.as_ref() }
    }

    /// Returns the kernel page.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        // SAFETY: mapped until this value is dropped; every word that is read is an atomic. The padding is never read.
        unsafe { self.seen.0.as_ref() }
    }
}

/// A mapping of one `T` at offset 0 of a descriptor.
#[derive(Debug)]
struct Mapped<T>(NonNull<T>);

// SAFETY: shared memory that belongs to no thread; its words are atomics.
unsafe impl<T> Send for Mapped<T> {}

impl<T> Mapped<T> {
    fn new(fd: BorrowedFd<'_>) -> io::Result<Mapped<T>> {
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let place = unsafe { mmap(std::ptr::null_mut(), size_of::<T>(), ProtFlags::READ, MapFlags::SHARED, fd, 0) };
        NonNull::new(place?.cast()).map(Mapped).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; no reference to it outlives this value. Unmapping a whole mapping cannot fail.
        let _ = unsafe { munmap(self.0.as_ptr().cast::<c_void>(), size_of::<T>()) };
    }
}
