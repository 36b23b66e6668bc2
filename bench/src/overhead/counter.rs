//! The counter of the running ping-pong workload, mapped into this process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A u64 at the start of a mapped file, which another process increments.
pub struct Counter(NonNull<AtomicU64>);

impl Counter {
    /// Maps the start of `file`. The file must have at least eight bytes for as long as the counter is mapped.
    pub fn map(file: &File) -> io::Result<Counter> {
        if file.metadata()?.len() < size_of::<u64>() as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the counter file is too short"));
        }
        // SAFETY: this new mapping, at an address of the kernel's choice, touches no memory of ours; the kernel checks the descriptor.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), size_of::<u64>(), libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(address.cast()).map(Counter).ok_or_else(|| io::Error::other("the counter was mapped at address 0"))
    }

    /// Returns the present count.
    pub fn get(&self) -> u64 {
        // SAFETY: the counter was mapped in `map`, is page-aligned and eight bytes long, and is unmapped only by `drop`. The other process writes it
        // atomically.
        unsafe { self.0.as_ref() }.load(Ordering::Relaxed)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // SAFETY: this is exactly the mapping that `map` made; no reference to it outlives a call of `get`.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<u64>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_others_write_is_seen() {
        let file = tempfile::tempfile().unwrap();
        assert!(Counter::map(&file).is_err(), "an empty file");
        file.write_all_at(&7u64.to_ne_bytes(), 0).unwrap();
        let counter = Counter::map(&file).unwrap();
        assert_eq!(counter.get(), 7);
        file.write_all_at(&u64::MAX.to_ne_bytes(), 0).unwrap();
        assert_eq!(counter.get(), u64::MAX);
    }
}
