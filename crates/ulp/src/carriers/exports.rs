//! Addresses that ULPs give each other by name.
//!
//! Entries are only ever added, without a lock: whoever holds a lock may be killed. An exporter claims an entry, fills it, and then says that it is ready.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Maximum number of entries, and maximum length of a name, bytes, without the end.
const MOST: usize = 4096;
const LONGEST: usize = 47;

/// A name of one ULP.
struct Entry {
    is_ready: AtomicU32,
    /// Written by the exporter only, before it is ready.
    content: UnsafeCell<Content>,
}

#[derive(Clone, Copy)]
struct Content {
    number: u32,
    name: [u8; LONGEST + 1],
    address: u64,
}

impl Entry {
    const fn new() -> Entry {
        let content = Content { number: 0, name: [0; LONGEST + 1], address: 0 };
        Entry { is_ready: AtomicU32::new(0), content: UnsafeCell::new(content) }
    }
}

/// Why an address was not exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The name exists.
    Exists,
    /// There are too many entries.
    Full,
    /// The name is too long.
    Long,
}

/// The names of all ULPs.
pub(super) struct Exports {
    entries: [Entry; MOST],
    claimed: AtomicUsize,
}

// SAFETY: a content is written by one exporter, and read only after `is_ready`, which orders both.
unsafe impl Sync for Exports {}

impl Exports {
    pub const fn new() -> Exports {
        Exports { entries: [const { Entry::new() }; MOST], claimed: AtomicUsize::new(0) }
    }

    /// Exports an address of ULP `number`, which must not export elsewhere at the same time.
    pub fn add(&self, number: u32, name: &[u8], address: u64) -> Result<(), Refused> {
        if name.len() > LONGEST {
            return Err(Refused::Long);
        }
        if self.find(number, name).is_some() {
            return Err(Refused::Exists);
        }
        let claimed = self.claimed.fetch_add(1, Ordering::Relaxed);
        let Some(entry) = self.entries.get(claimed) else {
            self.claimed.store(MOST, Ordering::Relaxed);
            return Err(Refused::Full);
        };
        let mut content = Content { number, name: [0; LONGEST + 1], address };
        for (to, from) in content.name.iter_mut().zip(name) {
            *to = *from;
        }
        // SAFETY: the entry was claimed by this call alone.
        unsafe { *entry.content.get() = content };
        entry.is_ready.store(1, Ordering::Release);
        Ok(())
    }

    /// Returns the address with this name.
    pub fn find(&self, number: u32, name: &[u8]) -> Option<u64> {
        let count = self.claimed.load(Ordering::Relaxed).min(MOST);
        let ready = self.entries.iter().take(count).filter(|entry| entry.is_ready.load(Ordering::Acquire) == 1);
        // SAFETY: the entry is ready, so that nobody writes it any more.
        let mut contents = ready.map(|entry| unsafe { &*entry.content.get() });
        let is_same = |content: &&Content| content.number == number && content.has(name);
        contents.find(is_same).map(|content| content.address)
    }
}

impl Content {
    fn has(&self, name: &[u8]) -> bool {
        name.len() <= LONGEST && self.name[name.len()] == 0 && self.name.iter().zip(name).all(|(a, b)| a == b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_belong_to_their_ulp() {
        let exports = Box::new(Exports::new());
        assert_eq!(exports.add(0, b"barrier", 10), Ok(()));
        assert_eq!(exports.add(1, b"barrier", 20), Ok(()));
        assert_eq!(exports.add(1, b"bar", 30), Ok(()));
        assert_eq!(exports.add(1, b"barrier", 40), Err(Refused::Exists));
        let found = |number, name: &[u8]| exports.find(number, name);
        assert_eq!((found(0, b"barrier"), found(1, b"barrier"), found(1, b"bar")), (Some(10), Some(20), Some(30)));
        assert_eq!((found(2, b"barrier"), found(0, b"bar"), found(0, b"barriers")), (None, None, None));
    }

    #[test]
    fn long_names_and_too_many_are_refused() {
        let exports = Box::new(Exports::new());
        assert_eq!(exports.add(0, &[b'a'; 48], 1), Err(Refused::Long));
        assert_eq!(exports.add(0, &[b'a'; 47], 1), Ok(()));
        assert_eq!((exports.find(0, &[b'a'; 47]), exports.find(0, &[b'a'; 46])), (Some(1), None));
        for number in 1..MOST as u32 {
            assert_eq!(exports.add(number, b"n", 1), Ok(()));
        }
        assert_eq!(exports.add(0, b"n", 1), Err(Refused::Full));
        assert_eq!((exports.add(0, b"n", 1), exports.find(4095, b"n")), (Err(Refused::Full), Some(1)));
    }
}
