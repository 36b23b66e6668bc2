//! Which address the next mapping of a ULP gets. The record stands at the top of the ULP's stack, just below the page of the entries.
//!
//! Addresses are given out in ascending order. Where the range ends, it begins again: most of what was there has been unmapped.

use std::ffi::CStr;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arch::redirections::{Call, ENTRIES, ENTRIES_BYTES, ENTRY_BYTES};

use super::regions::Region;
use crate::debugging::Listing;
use crate::program::layout::{PAGE, up};

/// The longest mapping that is near, bytes. Most libraries are shorter, stacks of threads and arenas of malloc(3) are longer.
const LONGEST_NEAR_BYTES: u64 = 4 << 20;
/// A mapping of this length or more begins at a multiple of it, so that it can have huge pages, as the kernel does.
const HUGE_BYTES: u64 = 2 << 20;

/// A range of addresses.
#[derive(Debug)]
#[repr(C)]
struct Room {
    begin: u64,
    end: u64,
    next: AtomicU64,
}

impl Room {
    fn new(range: Range<u64>) -> Room {
        Room { begin: range.start, end: range.end, next: AtomicU64::new(range.start) }
    }

    /// Returns the next address for so many bytes; `None`: the end is reached, or `bytes` is too long.
    fn take(&self, bytes: u64, align: u64) -> Option<u64> {
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            let at = next.checked_add(align - 1)? & !(align - 1);
            let end = at.checked_add(bytes)?;
            if end > self.end {
                return None;
            }
            match self.next.compare_exchange_weak(next, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(at),
                Err(other) => next = other,
            }
        }
    }

    /// Begins again.
    fn rewind(&self) {
        self.next.store(self.begin, Ordering::Relaxed);
    }
}

/// Where the mappings of a ULP go, and where its redirected calls return to.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Mapper {
    /// What entries call.
    pub(super) enter: u64,
    /// Where the program goes on after the call of each entry.
    pub(super) back: [AtomicU64; ENTRIES],
    /// The system call of each entry.
    number: [AtomicU32; ENTRIES],
    /// Number of entries in use.
    used: AtomicU32,
    near: Room,
    far: Room,
    /// Address of the program's path, which ends with a zero byte.
    pub(super) path: u64,
    pub(super) listing: Listing,
}

impl Mapper {
    /// The mapper of a ULP that has nothing but its program: near, it maps what follows it. `enter` is the address of what entries call. `path` must stay.
    #[must_use]
    pub(crate) fn new(region: &Region, programs_end: u64, enter: u64, path: &CStr, listing: Listing) -> Mapper {
        Mapper {
            enter,
            back: Default::default(),
            number: Default::default(),
            used: AtomicU32::new(0),
            near: Room::new(programs_end..region.near.end),
            far: Room::new(region.far.clone()),
            path: path.as_ptr() as u64,
            listing,
        }
    }

    /// Returns the mapper whose entry has made a call, and the number of the system call.
    ///
    /// # Safety
    /// The call must come from an entry that was mapped behind a mapper.
    pub(super) unsafe fn of<'a>(call: &Call) -> (&'a Mapper, u32) {
        let page = call.inside & !(ENTRIES_BYTES - 1);
        let entry = (call.inside - page) / ENTRY_BYTES;
        // SAFETY: the caller promises that the mapper is there; it stays until the ULP has ended.
        let mapper = unsafe { &*((page - size_of::<Mapper>() as u64) as *const Mapper) };
        (mapper, mapper.number[entry as usize % ENTRIES].load(Ordering::Relaxed))
    }

    /// Returns an entry for a system call, whose program goes on at `back`. `None`: all are in use.
    pub fn take_entry(&self, number: u32, back: u64) -> Option<u64> {
        let entry = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| ((used as usize) < ENTRIES).then_some(used + 1));
        let entry = entry.ok()? as usize;
        self.number[entry].store(number, Ordering::Relaxed);
        self.back[entry].store(back, Ordering::Relaxed);
        let page = (&raw const *self) as u64 + size_of::<Mapper>() as u64;
        Some(page + entry as u64 * ENTRY_BYTES)
    }

    /// Returns an address for a mapping of so many bytes, at which the ULP has not mapped anything for a long time. `None`: it is too long.
    pub(super) fn next(&self, bytes: u64) -> Option<u64> {
        let bytes = if bytes == 0 { return None } else { up(bytes.min(1 << 62)) };
        let align = if bytes >= HUGE_BYTES { HUGE_BYTES } else { PAGE };
        let near = (bytes <= LONGEST_NEAR_BYTES).then(|| self.near.take(bytes, align)).flatten();
        near.or_else(|| self.far.take(bytes, align)).or_else(|| {
            self.far.rewind();
            self.far.take(bytes, align)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::thread;

    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

    use super::super::regions::Regions;
    use super::*;

    const MEGA: u64 = 1 << 20;

    fn mapper_of(count: usize) -> (Mapper, Region) {
        let region = Regions::new(&(0..1 << 46), 0, count).take().unwrap();
        (Mapper::new(&region, region.near.start, 0, c"/app", Listing::none()), region)
    }

    fn lies(range: &Range<u64>, at: u64, bytes: u64) -> bool {
        range.start <= at && at + bytes <= range.end
    }

    #[test]
    fn short_mappings_are_near_and_long_ones_far() {
        let (mapper, region) = mapper_of(1000);
        let [first, second] = [1, 5000].map(|bytes| mapper.next(bytes).unwrap());
        assert_eq!((first, second), (region.near.start, region.near.start + PAGE));
        let long = mapper.next(5 * MEGA).unwrap();
        assert!(lies(&region.far, long, 5 * MEGA) && long % HUGE_BYTES == 0);
        // Until near is full.
        let ats: Vec<u64> = (0..30).map(|_| mapper.next(MEGA).unwrap()).collect();
        assert!(lies(&region.near, ats[0], MEGA) && lies(&region.far, ats[29], MEGA));
    }

    #[test]
    fn where_far_ends_it_begins_again() {
        let (mapper, region) = mapper_of(1000);
        let bytes = (region.far.end - region.far.start) / 3;
        let ats: Vec<u64> = (0..5).map(|_| mapper.next(bytes).unwrap()).collect();
        assert!(ats.iter().all(|at| lies(&region.far, *at, bytes)), "{ats:x?}");
        assert!(ats[0] < ats[1] && ats.contains(&ats[0]) && ats[4] <= ats[1], "{ats:x?}");
        assert_eq!(mapper.next(4 * bytes), None);
        assert_eq!((mapper.next(0), mapper.next(u64::MAX)), (None, None));
    }

    #[test]
    fn threads_get_different_addresses() {
        let (mapper, _) = mapper_of(1000);
        let mut all: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..1000).map(|_| mapper.next(PAGE).unwrap()).collect::<Vec<u64>>()))
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4000);
    }

    /// A mapper just below a page, as a ULP has it.
    fn below_a_page<'a>() -> &'a Mapper {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: new memory, which stays until the end of the test's process.
        unsafe {
            let at = mmap_anonymous(ptr::null_mut(), 2 * PAGE as usize, prot, flags).unwrap();
            let mapper = at.byte_add(PAGE as usize - size_of::<Mapper>()).cast::<Mapper>();
            mapper.write(mapper_of(1).0);
            &*mapper
        }
    }

    #[test]
    fn entries_know_their_calls_until_there_are_no_more() {
        let mapper = below_a_page();
        for number in 0..ENTRIES as u32 {
            let entry = mapper.take_entry(number, 7).unwrap();
            // SAFETY: the entry is behind a mapper.
            let (own, told) = unsafe { Mapper::of(&Call { arguments: [0; 6], inside: entry + 11 }) };
            assert!(ptr::eq(own, mapper) && told == number);
        }
        assert_eq!(mapper.take_entry(9, 7), None);
    }
}
