//! Reserves the memory of ULPs, and unmaps all of it.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use arch::redirections::ENTRIES_BYTES;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::redirect;
use super::regions::{Region, Regions, longest_free};
use crate::own_code;

/// So many regions more than ULPs: some are lost if a program has mapped something there itself, and some still belong to ULPs that have ended.
const SPARE: usize = 64;
/// So many regions are tried, if something has been mapped there.
const REGIONS: usize = 8;

/// All addresses of ULPs.
#[derive(Debug)]
pub struct Arena {
    regions: Regions,
    /// The program file of the host, and where the entries are in it.
    file: File,
    entries_at: u64,
}

impl Arena {
    /// Finds addresses for `count` ULPs at a time, whose programs with their stacks take at most `program_bytes`.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn new(program_bytes: u64, count: usize) -> io::Result<Arena> {
        let free = longest_free(&fs::read_to_string("/proc/self/maps")?);
        let code = own_code::find();
        let entries_at = redirect::entries() - code.addresses.start + code.offset;
        let file = File::open("/proc/self/exe")?;
        Ok(Arena { regions: Regions::new(&free, program_bytes, count + SPARE), file, entries_at })
    }

    /// Returns all addresses that ULPs can have.
    #[must_use]
    pub fn addresses(&self) -> Range<u64> {
        self.regions.addresses()
    }

    /// Returns a descriptor that no program may inherit.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Reserves the first `bytes` of a region. They cannot be accessed yet.
    ///
    /// # Errors
    /// When the kernel refuses it, or all regions are in use.
    pub fn reserve(&mut self, bytes: u64) -> Result<Memory, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        for _ in 0..REGIONS {
            let region = self.regions.take().ok_or(Errno::NOMEM)?.with_room_for(bytes);
            if bytes > region.near.end - region.near.start {
                self.regions.give_back(&region);
                return Err(Errno::NOMEM);
            }
            let at = ptr::with_exposed_provenance_mut(region.near.start as usize);
            // SAFETY: the mapping replaces nothing.
            match unsafe { mmap_anonymous(at, bytes as usize, ProtFlags::empty(), flags) } {
                Ok(_) => return Ok(Memory { region }),
                // A program has chosen this address itself.
                Err(Errno::EXIST) => {}
                Err(errno) => {
                    self.regions.give_back(&region);
                    return Err(errno);
                }
            }
        }
        Err(Errno::EXIST)
    }

    /// Maps the page of the entries at an address in reserved memory.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn map_entries(&self, at: u64) -> Result<(), Errno> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::EXEC, MapFlags::PRIVATE | MapFlags::FIXED);
        let at = ptr::with_exposed_provenance_mut(at as usize);
        // SAFETY: the address is in memory that is reserved for this program.
        unsafe { mmap(at, ENTRIES_BYTES as usize, prot, flags, &self.file, self.entries_at) }.map(drop)
    }

    /// Unmaps the memory of a ULP, so that another one can have its addresses.
    pub fn give_back(&mut self, memory: Memory) {
        let region = memory.region.clone();
        drop(memory);
        self.regions.give_back(&region);
    }
}

/// The memory of a ULP: its region, with all that is mapped there. Dropping the value unmaps it.
#[derive(Debug)]
pub struct Memory {
    region: Region,
}

impl Memory {
    /// Returns its addresses.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for range in [&self.region.near, &self.region.far] {
            let at = ptr::with_exposed_provenance_mut(range.start as usize);
            // SAFETY: whatever is mapped there belongs to a program that has ended or was never started.
            let _ = unsafe { munmap(at, (range.end - range.start) as usize) };
        }
    }
}
