//! What all ULPs share of the address space: its break, and the limit of its mappings.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::program::layout;

/// A ULP has at least half as many mappings, and a dynamic linker that fails has needed several: so many below the limit, it counts as reached.
const MAPPINGS_OF_A_ULP: usize = 32;

/// Returns the limit of an address space's mappings (vm.max_map_count).
fn limit_of_mappings() -> Option<usize> {
    fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()
}

/// Returns for how many ULPs the limit of mappings leaves room.
pub(super) fn room() -> usize {
    limit_of_mappings().map_or(usize::MAX, |limit| limit / MAPPINGS_OF_A_ULP)
}

/// Returns the limit of mappings, if there are about so many.
pub(super) fn reached_limit_of_mappings() -> Option<usize> {
    let limit = limit_of_mappings()?;
    let mappings = BufReader::new(File::open("/proc/self/maps").ok()?).split(b'\n').count();
    (mappings + MAPPINGS_OF_A_ULP >= limit).then_some(limit)
}

/// Returns the most memory that the address space has had, bytes: with the pages of files. `None` if the kernel does not tell.
pub(super) fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Makes the break of the address space immovable: all ULPs share it, and each libc takes it for its own. malloc(3) uses mmap(2) if the break cannot grow.
/// (mallopt(3) and brk(2) fail for programs that insist on it.)
pub(super) fn guard_break() -> Result<(), Errno> {
    // SAFETY: sbrk(0) changes nothing.
    let end = layout::up(unsafe { libc::sbrk(0) } as u64);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: a mapping that replaces nothing.
    match unsafe { mmap_anonymous(end as *mut _, layout::PAGE as usize, ProtFlags::empty(), flags) } {
        // Something is there already.
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}
