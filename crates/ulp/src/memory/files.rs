//! Which places of a file make the system calls that are redirected: found once for each file, and known to all ULPs.
//!
//! The table is in memory that all ULPs share. Code that uses it runs in their contexts, and must not need anything else of the host's.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arch::redirections::{Site, sites};

/// Maximum number of files that are remembered. Others are searched each time.
const FILES: usize = 256;
/// Maximum number of sites in a file. A C library has three.
pub const MOST_SITES: usize = 6;
/// Longer code is not searched, bytes: a C library has less than 2 MB.
pub const LONGEST_CODE_BYTES: u64 = 8 << 20;

/// What tells the contents of a mapped part of a file from all others: device, inode, length, times of its last changes, position and length of the part.
pub(super) type Key = [u64; 7];

/// The sites of a part of a file.
pub type Sites = [Option<Site>; MOST_SITES];

const FREE: u32 = 0;
const FILLING: u32 = 1;
const KNOWN: u32 = 2;

struct Known {
    state: AtomicU32,
    key: [AtomicU64; 7],
    /// Position and number of each site, as one word; 0: none.
    sites: [AtomicU64; MOST_SITES],
}

/// What is known of files.
pub(super) struct Files([Known; FILES]);

impl Files {
    /// Nothing is known.
    pub(super) const fn new() -> Files {
        Files(
            [const {
                Known {
                    state: AtomicU32::new(FREE),
                    key: [const { AtomicU64::new(0) }; 7],
                    sites: [const { AtomicU64::new(0) }; MOST_SITES],
                }
            }; FILES],
        )
    }

    /// Returns the sites of a part of a file, if they are known.
    pub(super) fn known(&self, key: &Key) -> Option<Sites> {
        let states = self.0.iter().map(|known| (known.state.load(Ordering::Acquire), known));
        let mut known = states.take_while(|(state, _)| *state != FREE).filter(|(state, _)| *state == KNOWN);
        known.find(|(_, known)| known.is(key)).map(|(_, known)| known.read())
    }

    /// Finds the sites of a part of a file in its code, and remembers them if there is room.
    pub(super) fn find(&self, key: &Key, code: &[u8]) -> Sites {
        let sites = sites_in(code);
        let take =
            |known: &&Known| known.state.compare_exchange(FREE, FILLING, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if let Some(known) = self.0.iter().find(take) {
            known.fill(key, &sites);
            known.state.store(KNOWN, Ordering::Release);
        }
        sites
    }
}

impl Known {
    fn is(&self, key: &Key) -> bool {
        self.key.iter().zip(key).all(|(own, other)| own.load(Ordering::Relaxed) == *other)
    }

    fn read(&self) -> Sites {
        std::array::from_fn(|index| {
            let word = self.sites[index].load(Ordering::Relaxed);
            (word != 0).then_some(Site { at: (word >> 32) as usize, number: word as u32 })
        })
    }

    fn fill(&self, key: &Key, sites: &Sites) {
        self.key.iter().zip(key).for_each(|(own, other)| own.store(*other, Ordering::Relaxed));
        for (own, site) in self.sites.iter().zip(sites) {
            own.store(site.map_or(0, |site| (site.at as u64) << 32 | u64::from(site.number)), Ordering::Relaxed);
        }
    }
}

/// Whether there are no sites.
#[must_use]
pub fn is_empty(sites: &Sites) -> bool {
    sites.iter().all(Option::is_none)
}

/// Finds the sites in code. If there are too many, it is no C library, and none count.
#[must_use]
pub fn sites_in(code: &[u8]) -> Sites {
    let mut all = [None; MOST_SITES];
    if code.len() as u64 > LONGEST_CODE_BYTES {
        return all;
    }
    for (index, site) in sites(code).enumerate() {
        match all.get_mut(index) {
            Some(place) => *place = Some(site),
            None => return [None; MOST_SITES],
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mmap(2) and mremap(2), as in a C library.
    const MMAP: [u8; 7] = [0xb8, 9, 0, 0, 0, 0x0f, 0x05];
    const MREMAP: [u8; 7] = [0xb8, 25, 0, 0, 0, 0x0f, 0x05];

    #[test]
    fn what_was_found_once_is_known() {
        let files = Files::new();
        let (key, other) = ([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 8]);
        assert_eq!(files.known(&key), None);
        let code = [&[0x90; 5][..], &MMAP, &MREMAP].concat();
        let sites = files.find(&key, &code);
        let right = [Some(Site { at: 5, number: 9 }), Some(Site { at: 12, number: 25 }), None, None, None, None];
        assert_eq!((sites, files.known(&key), files.known(&other)), (right, Some(right), None));
        assert!(
            is_empty(&files.find(&other, &[0x90; 100])) && files.known(&other).is_some_and(|sites| is_empty(&sites))
        );
    }

    #[test]
    fn a_full_table_costs_time_only() {
        let files = Files::new();
        (0..FILES as u64).for_each(|number| assert!(!is_empty(&files.find(&[number; 7], &MMAP))));
        assert!(!is_empty(&files.find(&[u64::MAX; 7], &MMAP)));
        assert_eq!(files.known(&[u64::MAX; 7]), None);
        assert!(files.known(&[FILES as u64 - 1; 7]).is_some());
    }

    #[test]
    fn code_with_many_sites_is_no_c_library() {
        assert!(is_empty(&sites_in(&MMAP.repeat(MOST_SITES + 1))));
        assert!(!is_empty(&sites_in(&MMAP.repeat(MOST_SITES))));
    }
}
