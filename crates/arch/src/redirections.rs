//! Places in machine code that call mmap(2), mremap(2) or readlink(2), and the entries to which such calls are redirected: what all processors have in common.

pub use crate::processor::redirections::{MAP_LOW, SITE_BYTES, jump, sites, system_call};

/// A place that makes a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Where it is in the code, bytes.
    pub at: usize,
    /// The number of the system call.
    pub number: u32,
}

/// Length of an entry, bytes.
pub const ENTRY_BYTES: u64 = 32;
/// Number of entries.
pub const ENTRIES: usize = 16;
/// Length of the memory with the entries, bytes: a page.
pub const ENTRIES_BYTES: u64 = 4096;

/// A redirected call, as an entry passes it on.
#[derive(Debug)]
#[repr(C)]
pub struct Call {
    /// The arguments of the system call.
    pub arguments: [u64; 6],
    /// An address in the entry.
    pub inside: u64,
}
