//! The memory that the preload library inside a program shares with cox: the Rust mirror of `include/cox/preload.h`, which defines each word.
//! Sizes and offsets are asserted in both files.
//!
//! Every word is an atomic: the other side may write it at any time, and may write any value.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::log_linear;

/// Name of the memfd; /proc/PID/maps shows it as `/memfd:coxswain-preload`.
pub const NAME: &std::ffi::CStr = c"coxswain-preload";
/// Lowest number that the library gives to its descriptor of the shared memory. The descriptor stays open, so that a cox of the same user can map the
/// memory. The number is large, because programs may
/// rely on their small descriptor numbers, and below 1024, because most programs may have up to 1024 descriptors.
pub const KEPT_FROM: i32 = 1000;
/// The magic number: `coxprlpg` in memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"coxprlpg");
/// Version of this layout.
pub const VERSION: u32 = 1;
/// Size of a page, bytes. Each writer has pages of its own.
pub const PAGE: usize = 4096;
/// Number of slots in the table.
pub const SLOTS: usize = 1024;
/// Maximum number of the preload library's own threads in a program.
pub const HELPERS: usize = 4;
/// Size of the whole memory: the program's page, cox's page, and the table.
pub const BYTES: usize = 2 * PAGE + SLOTS * size_of::<Slot>();
/// Offset of cox's page, an [`Orders`].
pub const ORDERS_AT: usize = PAGE;
/// Offset of the lengths of phases in the program's page, a [`PhaseLengths`].
pub const PHASES_AT: usize = 1024;
/// Number of buckets for lengths of phases: eight for each doubling, from 128 ns on; the last has no upper end.
pub const PHASE_BUCKETS: usize = 264;
/// Base-2 logarithm of the number of buckets for each doubling.
const EIGHTHS: u32 = 3;
/// Lengths below 128 ns are in the first bucket.
const FIRST_BUCKET: usize = log_linear::bucket(128, EIGHTHS);
/// Offset of the table, an array of [`Slot`].
pub const SLOTS_AT: usize = 2 * PAGE;

/// [`PreloadPage::seen`]: the program has used teams of libgomp.
pub const LIBGOMP: u32 = 1;
/// [`PreloadPage::seen`]: the program has used teams of libomp.
pub const LIBOMP: u32 = 2;
/// [`PreloadPage::seen`]: the program has used pthread barriers.
pub const PTHREAD: u32 = 4;
/// [`PreloadPage::seen`]: the program has used tasks, so a thread in a barrier may be running one.
pub const TASKS: u32 = 8;

/// [`PreloadPage::seen`]: the program has used collective operations of MPI in which all ranks wait for each other.
pub const MPI: u32 = 16;

/// [`PreloadPage::throttle`]: libgomp waits as it was configured at its start.
pub const AS_IT_WAS: u32 = 0;
/// [`PreloadPage::throttle`]: libgomp's threads soon go to sleep at barriers.
pub const THROTTLED: u32 = 1;
/// [`PreloadPage::throttle`]: the throttle is not possible: the threads that it needs could not be created, or would be visible to the program.
pub const REFUSED: u32 = 2;

/// [`Slot::role`]: any thread.
pub const ROLE_THREAD: u32 = 0;
/// [`Slot::role`]: a thread that has worked in a team of libgomp.
pub const ROLE_TEAM: u32 = 1;

/// The program's page; see `struct cox_preload` for each field.
#[derive(Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct PreloadPage {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub bytes: AtomicU32,
    pub pid: AtomicU32,
    pub slots: AtomicU32,
    pub given: AtomicU32,
    pub seen: AtomicU32,
    pub cpus_at_start: AtomicU32,
    pub team_threads: AtomicU32,
    pub throttle: AtomicU32,
    pub helpers: [AtomicU32; HELPERS],
    pub pad: u32,
}

/// Lengths of the phases of the thread that has the first slot; see `struct cox_preload_phases`.
#[derive(Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct PhaseLengths {
    pub sum_ns: AtomicU64,
    pub longest_ns: AtomicU64,
    pub counts: [AtomicU64; PHASE_BUCKETS],
}

/// Returns the bucket of a length in ns.
#[must_use]
pub fn phase_bucket(ns: u64) -> usize {
    log_linear::bucket(ns, EIGHTHS).saturating_sub(FIRST_BUCKET).min(PHASE_BUCKETS - 1)
}

/// Returns the middle of a bucket in ns, which differs from the lengths in it by at most 7 %; of the first bucket's lengths,
/// and of those above the last, by more.
#[must_use]
pub fn phase_middle_ns(bucket: usize) -> u64 {
    log_linear::middle(bucket + FIRST_BUCKET, EIGHTHS)
}

/// The page that cox writes; see `struct cox_preload_orders`.
#[derive(Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Orders {
    pub cpus_now: AtomicU32,
    pub pad: u32,
    pub until_ns: AtomicU64,
}

/// A thread's slot in the table; see `struct cox_preload_slot`.
#[derive(Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Slot {
    pub tid: AtomicU32,
    pub in_barrier: AtomicU32,
    pub phases: AtomicU64,
    pub role: AtomicU32,
    pub ended: AtomicU32,
    pub pad: [u32; 10],
}

const _: () = {
    assert!(size_of::<PreloadPage>() == 64);
    assert!(offset_of!(PreloadPage, given) == 24 && offset_of!(PreloadPage, throttle) == 40);
    assert!(size_of::<Orders>() == 16 && offset_of!(Orders, until_ns) == 8);
    assert!(size_of::<Slot>() == 64);
    assert!(offset_of!(Slot, phases) == 8 && offset_of!(Slot, ended) == 20);
    assert!(offset_of!(PhaseLengths, counts) == 16 && size_of::<PhaseLengths>() == 2128);
    assert!(PHASES_AT + size_of::<PhaseLengths>() <= PAGE);
    assert!(BYTES == 73728);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_contains_its_middle_and_lengths_near_it() {
        for bucket in 0..PHASE_BUCKETS {
            assert_eq!(phase_bucket(phase_middle_ns(bucket)), bucket);
        }
        let mut last = 0;
        for ns in (128..100_000).chain([1 << 20, (1 << 33) + 77, 1 << 38]) {
            let bucket = phase_bucket(ns);
            let middle = phase_middle_ns(bucket);
            assert!(bucket >= last && ns.abs_diff(middle) * 100 <= ns * 7, "{ns}: {middle}");
            last = bucket;
        }
        assert_eq!((phase_bucket(0), phase_bucket(127), phase_bucket(u64::MAX)), (0, 0, PHASE_BUCKETS - 1));
    }
}
