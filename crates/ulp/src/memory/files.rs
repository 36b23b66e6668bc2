//! Which places of a file make the system calls that are redirected: found once for each file, and known to all ULPs.
//!
//! The table is in memory that all ULPs share. Code that uses it runs in their contexts, and must not need anything else of the host's.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arch::redirections::{Site, sites};

/// Maximum number of files that are remembered. Others are searched each time.
const FILES: usize = 256;
/// Maximum number of sites in a file. A C library has two.
pub const MOST_SITES: usize = 4;
/// Longer code is not searched, bytes: a C library has less than 2 MB.
pub const LONGEST_CODE_BYTES: u64 = 8 << 20;

/// What tells the contents of a mapped part of a file from all others: device, inode, length, times of its last changes, position.
pub type Key = [u64; 6];

/// The sites of a part of a file.
pub type Sites = [Option<Site>; MOST_SITES];

const FREE: u32 = 0;
const FILLING: u32 = 1;
const KNOWN: u32 = 2;

struct Known {
    state: AtomicU32,
    key: [AtomicU64; 6],
    /// Position and number of each site, as one word; 0: none.
    sites: [AtomicU64; MOST_SITES],
}

/// What is known of files.
pub struct Files([Known; FILES]);

impl Files {
    /// Nothing is known.
    pub const fn new() -> Files {
        Files(
            [const {
                Known {
                    state: AtomicU32::new(FREE),
                    key: [const { AtomicU64::new(0) }; 6],
                    sites: [const { AtomicU64::new(0) }; MOST_SITES],
                }
            }; FILES],
        )
    }

    /// Returns the sites of a part of a file. If they are not known, searches `code` for them.
    pub fn sites_of(&self, key: &Key, code: &[u8]) -> Sites {
        for known in &self.0 {
            match known.state.load(Ordering::Acquire) {
                KNOWN if known.is(key) => return known.read(),
                FREE => {
                    let sites = sites_in(code);
                    // If another one has taken it: the next time.
                    if known.state.compare_exchange(FREE, FILLING, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                        known.fill(key, &sites);
                        known.state.store(KNOWN, Ordering::Release);
                    }
                    return sites;
                }
                _ => {}
            }
        }
        sites_in(code)
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
