//! Memory that cox shares with the kernel or with other processes.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapping of a file from its start. Dropping this value unmaps it.
#[derive(Debug)]
pub(crate) struct Mapping {
    begin: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping may be used and unmapped in any thread. Other processes may write to it at any time, so its users read it only through atomics or
// by volatile copies.
unsafe impl Send for Mapping {}
// SAFETY: several threads may read the mapped memory at the same time, because they read it only through atomics or by volatile copies.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of a file.
    pub(crate) fn new(file: impl AsFd, bytes: usize, access: ProtFlags, flags: MapFlags) -> io::Result<Mapping> {
        // SAFETY: the kernel chooses a free address, so the new mapping replaces no memory that is in use.
        let begin = unsafe { mmap(ptr::null_mut(), bytes, access, flags, file, 0) }?;
        let begin = NonNull::new(begin.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { begin, bytes })
    }

    /// Returns the length of the mapping, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the address of the `T` at this offset, which must be within the mapping.
    pub(crate) fn at<T>(&self, offset: usize) -> *mut T {
        debug_assert!(offset + size_of::<T>() <= self.bytes);
        self.begin.as_ptr().wrapping_add(offset).cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping, and no reference into it outlives this value. The result is ignored: the kernel does not refuse to unmap
        // such a mapping, and nothing could be done if it did.
        let _ = unsafe { munmap(self.begin.as_ptr().cast(), self.bytes) };
    }
}
