//! One perf ring buffer. All accesses to memory that is shared with the kernel are in this file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags};

use super::parse::walk;
use crate::mapping::Mapping;

/// A mapped ring and the event that owns it.
///
/// The kernel writes at `data_head` and never beyond `data_tail` + size: the mapping is writable, so the ring does not overwrite old records. This
/// side reads from `data_tail` to `data_head` and then advances `data_tail`.
#[derive(Debug)]
pub(super) struct Ring {
    owner: OwnedFd,
    /// The control page, then the area for records.
    memory: Mapping,
    page_bytes: usize,
    data_bytes: usize,
}

/// The result of emptying a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drained {
    /// `false` if some bytes were not valid records and have been dropped.
    pub(super) sensible: bool,
    /// True if the ring was so full that the kernel may have had no room for a further record. The caller must remember this, because the kernel
    /// reports lost records only when it next writes a record to this ring.
    pub(super) was_full: bool,
}

/// Upper bound of the size of a record that cox requests: FORK has 56 bytes, COMM 56, and the LOST record that may precede it 48.
const LARGEST_RECORD_BYTES: usize = 56 + 48;

impl Ring {
    /// Maps a ring of `data_bytes`, which must be a power of two times the page size.
    pub(super) fn map(owner: OwnedFd, data_bytes: usize) -> io::Result<Ring> {
        let page_bytes = rustix::param::page_size();
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let memory = Mapping::new(&owner, page_bytes + data_bytes, both, MapFlags::SHARED)?;
        Ok(Ring { owner, memory, page_bytes, data_bytes })
    }

    /// Returns the event that owns the ring: other events are redirected to it, and it becomes readable at the watermark.
    pub(super) fn owner(&self) -> BorrowedFd<'_> {
        self.owner.as_fd()
    }

    /// Returns the size of the area for records, bytes.
    pub(super) fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Passes every unread record to `each`, and then lets the kernel overwrite these records.
    pub(super) fn drain(&mut self, each: impl FnMut(&[u8])) -> Drained {
        let (head_word, tail_word) = self.positions();
        // Acquire: the records before the head were written before the head itself. Pairs with the barrier in the kernel's perf_output_put_handle.
        let head = head_word.load(Ordering::Acquire);
        // Only this side writes the tail.
        let tail = tail_word.load(Ordering::Relaxed);
        let unread = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX);
        let sensible = if unread > self.data_bytes {
            false
        } else {
            let mask = self.data_bytes - 1;
            let begin = usize::try_from(tail & mask as u64).unwrap_or(0);
            let first_bytes = unread.min(self.data_bytes - begin);
            // SAFETY: the data area begins one page after the control page and has `data_bytes` (requested in `map`; the kernel maps exactly
            // that). Both pieces lie within it and between tail and head, where the kernel does not write until the tail has moved.
            let (first, second) = unsafe {
                let data = self.memory.at::<u8>(self.page_bytes);
                (slice::from_raw_parts(data.add(begin), first_bytes), slice::from_raw_parts(data, unread - first_bytes))
            };
            // Once per pass through the ring, the unread records reach its end and continue at its start. They are then copied into one piece.
            if second.is_empty() { walk(first, each) } else { walk(&[first, second].concat(), each) }
        };
        // Release: this side's reads are complete before the kernel may write there again.
        tail_word.store(head, Ordering::Release);
        Drained { sensible, was_full: unread > self.data_bytes - LARGEST_RECORD_BYTES }
    }

    /// Returns the head and tail words of the control page.
    fn positions(&self) -> (&AtomicU64, &AtomicU64) {
        let page: *mut perf_event_mmap_page = self.memory.at(0);
        // SAFETY: `page` points to the mapped control page, which lives as long as `self`; both words are u64-aligned and shared with the kernel,
        // which accesses them atomically.
        unsafe { (AtomicU64::from_ptr(&raw mut (*page).data_head), AtomicU64::from_ptr(&raw mut (*page).data_tail)) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    const FINE: Drained = Drained { sensible: true, was_full: false };

    /// A ring over plain shared memory with the kernel's part played by the test.
    fn ring(data_bytes: usize) -> Ring {
        let name = c"ring";
        // SAFETY: a new descriptor, owned by nobody else.
        let file = unsafe {
            use std::os::fd::FromRawFd;
            let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0);
            OwnedFd::from_raw_fd(fd)
        };
        let bytes = (rustix::param::page_size() + data_bytes) as i64;
        // SAFETY: sets the size of our own file.
        assert_eq!(unsafe { libc::ftruncate(file.as_raw_fd(), bytes) }, 0);
        Ring::map(file, data_bytes).expect("maps")
    }

    fn write(ring: &Ring, at: u64, bytes: &[u8]) {
        let mask = ring.data_bytes as u64 - 1;
        for (k, byte) in (at..).zip(bytes) {
            // SAFETY: within the data area, between head and tail + size, where nobody reads.
            unsafe { *ring.memory.at::<u8>(ring.page_bytes + (k & mask) as usize) = *byte };
        }
        ring.positions().0.store(at + bytes.len() as u64, Ordering::Release);
    }

    #[test]
    fn records_go_round() {
        let mut ring = ring(4096);
        let mut at = 0;
        for round in 0u8..200 {
            let record = super::super::parse::tests::encode(1, 0, &vec![round; 8 * (1 + usize::from(round) % 40)]);
            write(&ring, at, &record);
            at += record.len() as u64;
            let mut seen = Vec::new();
            assert_eq!(ring.drain(|record| seen.push(record.to_vec())), FINE);
            assert_eq!(seen, [record]);
            assert_eq!(ring.drain(|_| panic!("nothing is left")), FINE);
        }
        assert!(at > 4096 * 4, "it wrapped several times");
    }

    #[test]
    fn nonsense_is_dropped_and_told() {
        let mut ring = ring(4096);
        write(&ring, 0, &[0; 64]);
        assert!(!ring.drain(|_| panic!("no record")).sensible);
        assert_eq!(ring.drain(|_| panic!("nothing is left")), FINE);
        // A head that is farther away than the ring is long.
        write(&ring, 64, &[]);
        ring.positions().0.store(1 << 40, Ordering::Release);
        assert!(!ring.drain(|_| panic!("no record")).sensible);
        assert_eq!(ring.drain(|_| panic!("nothing is left")), FINE);
    }

    #[test]
    fn a_full_ring_is_told() {
        let mut ring = ring(4096);
        let record = super::super::parse::tests::encode(1, 0, &[0; 24]);
        for (records, was_full) in [(124, false), (125, true), (128, true)] {
            let at = ring.positions().0.load(Ordering::Relaxed);
            write(&ring, at, &record.repeat(records));
            let mut seen = 0;
            assert_eq!(ring.drain(|_| seen += 1), Drained { sensible: true, was_full });
            assert_eq!(seen, records);
        }
    }
}
