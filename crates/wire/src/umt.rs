//! The memory through which a runtime inside a program and the kernel tell each other about blocked threads and pending tasks: the Rust mirror of
//! `include/cox/umt.h`, which defines each word. Sizes and offsets are asserted in both files.
//!
//! Every word is an atomic: the other side may write it at any time, and may write any value.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

pub use bytemuck::bytes_of;
use bytemuck::{Pod, Zeroable};

/// The magic number: `coxumt` in memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"coxumt\0\0");
/// Version of this layout, and of [`Hello`] and [`Welcome`].
pub const VERSION: u32 = 4;
/// Number of doorbells of a process. A doorbell is a descriptor on which one parked standby thread waits.
pub const BELLS: usize = 16;
/// Number of places in the hash table of threads.
pub const TABLE: usize = 2048;
/// Number of consecutive places of the hash table in which a thread may be (linear probing).
pub const PROBES: u32 = 16;
/// Number of queues of ready tasks.
pub const QUEUES: usize = 192;
/// Number of classes in the histogram of delays (from a doorbell's ring to the first task): four for each factor of two, beginning at 1 us.
pub const DELAYS: usize = 40;

/// Returns the class of a delay in the histogram ([`DELAYS`]). In integers, so that libcox_preload.so does not need libm.
#[must_use]
pub fn delay_class(delay_ns: u64) -> usize {
    // `⌊4 log2 x⌋ = ⌊log2 x⁴⌋`. The last class begins below 1 ms, so a delay may be limited for the fourth power to fit.
    let delay_ns = u128::from(delay_ns.clamp(1_000, u64::from(u32::MAX)));
    let class = (delay_ns.pow(4) / 1_000_u128.pow(4)).ilog2() as usize;
    class.min(DELAYS - 1)
}

/// Number of words in a mask of CPUs.
pub const CPU_WORDS: usize = 16;
/// Number of CPUs that can be distinguished.
pub const CPUS: usize = 64 * CPU_WORDS;
/// Bit of [`ProgramPage::tells`]: BPF rings a CPU's doorbell (wakes a standby thread) when a thread there is no longer ready (`COX_UMT_TELL_BLOCKS`).
pub const TELL_BLOCKS: u32 = 1;
/// Bit of [`ProgramPage::tells`]: BPF rings a CPU's doorbell (wakes a standby thread) when a thread there becomes ready (`COX_UMT_TELL_UNBLOCKS`).
pub const TELL_UNBLOCKS: u32 = 2;
/// Bit of [`ProgramPage::tells`]: BPF rings a CPU's doorbell (wakes a standby thread) when no thread on the CPU is ready any more
/// (`COX_UMT_TELL_IDLE`).
pub const TELL_IDLE: u32 = 4;
/// Maximum number of standbys: as many as a team has helper slots. If more tasks than this block forever, the process has no standbys left.
pub const STANDBYS_AT_MOST: u32 = 64;
/// Maximum number of processes in a session at the same time.
pub const PROCESSES: usize = 128;

/// One word on two cache lines of its own, since the prefetcher fetches lines in pairs.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Line(pub AtomicI64);

/// Both ends of a queue of ready tasks; see `struct cox_umt_queue`.
#[derive(Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Queue {
    pub begin: Line,
    pub end: Line,
}

/// A word that several writers (threads, or BPF and threads) change, on two cache lines of its own, because processors prefetch lines in pairs.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Apart<T>(pub T);

/// The program page, which the program writes; see `struct cox_program_page`.
#[derive(Debug)]
#[repr(C, align(4096))]
#[allow(missing_docs)]
pub struct ProgramPage {
    pub version: AtomicU32,
    pub cpus: AtomicU32,
    pub queues: AtomicU32,
    pub generation: AtomicU32,
    pub allowed: [AtomicU64; CPU_WORDS],
    pub tells: AtomicU32,
    pub parked: Apart<AtomicU64>,
    pub counts: Apart<Counts>,
    pub heard: Apart<[AtomicU64; DELAYS]>,
    pub tids: [AtomicU32; TABLE],
    pub queue: [Queue; QUEUES],
}

/// Counters for the report; see `struct cox_program_page`.
#[derive(Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Counts {
    pub standbys: AtomicU64,
    pub ran: AtomicU64,
    pub empty: AtomicU64,
    pub surrendered: AtomicU64,
    pub own_rings: AtomicU64,
    pub failed: AtomicU64,
    pub thread_data: AtomicU64,
    pub shared_numbers: AtomicU64,
    pub bound: AtomicU64,
    pub unseen: AtomicU64,
    pub unshared: AtomicU64,
    pub scan_rescues: AtomicU64,
    pub at_limit: AtomicU64,
    pub error: AtomicU64,
}

/// Counts of blocks and unblocks on a CPU, from one load; see `struct cox_umt_cpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Moves {
    pub blocked: u32,
    pub unblocked: u32,
}

impl Moves {
    /// Returns the number of ready threads on the CPU. Only valid for counts since the start, not for a difference of counts.
    #[inline]
    #[must_use]
    pub fn ready(self) -> i32 {
        self.unblocked.wrapping_sub(self.blocked) as i32
    }

    /// Returns the blocks and unblocks since `before`.
    #[inline]
    #[must_use]
    pub fn since(self, before: Moves) -> Moves {
        Moves {
            blocked: self.blocked.wrapping_sub(before.blocked),
            unblocked: self.unblocked.wrapping_sub(before.unblocked),
        }
    }
}

/// Mirror of `struct cox_umt_cpu`: the number of blocks in one half, the number of unblocks in the other. BPF increments the two halves separately.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Cpu(pub AtomicU64);

impl Cpu {
    /// Reads both counts, of blocks and of unblocks, in one load.
    #[inline]
    #[must_use]
    pub fn moves(&self) -> Moves {
        bytemuck::cast(self.0.load(Ordering::Acquire))
    }
}

/// The kernel page, which the kernel writes; see `struct cox_kernel_page`.
#[derive(Debug)]
#[repr(C, align(4096))]
#[allow(missing_docs)]
pub struct KernelPage {
    pub runnable: AtomicI32,
    pub pad: u32,
    pub blocks: AtomicU64,
    pub unblocks: AtomicU64,
    pub rings: AtomicU64,
    pub no_standby: AtomicU64,
    pub corrected: AtomicU64,
    pub rung_ns: [AtomicU64; BELLS],
    pub pad2: [u64; 490],
    pub cpu: [Cpu; CPUS],
    pub thread_blocks: [AtomicU32; TABLE],
}

/// The request that a process sends to cox to get its program page and its kernel page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Hello {
    pub magic: u64,
    pub version: u32,
    pub pad: u32,
    /// The nonce from the program's environment, by which cox recognises its own programs.
    pub nonce: [u8; 16],
}

/// The answer to a [`Hello`]. It comes with descriptors of the process's two pages and of its doorbells (on which standby threads wait).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Welcome {
    pub magic: u64,
    pub version: u32,
    /// A [`How`].
    pub how: u32,
}

/// Who notices that a thread has blocked, and wakes a standby thread to use its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum How {
    /// BPF notices the block, and wakes a standby thread.
    Bpf,
    /// A sentinel notices the block, and wakes a standby thread. A sentinel is a thread of the idle class, which runs when no other thread wants its
    /// CPU.
    Sentinels,
    /// The kernel writes a record of each context switch. Each record of a switch-out wakes a parked standby thread directly.
    Records,
    /// The kernel writes a record of each context switch. Each record wakes one leader thread, and the leader wakes standby threads.
    Leader,
}

impl How {
    /// Returns the value with this number; `Bpf` for an unknown number.
    #[inline]
    #[must_use]
    pub fn from_number(number: u32) -> How {
        match number {
            1 => How::Sentinels,
            2 => How::Records,
            3 => How::Leader,
            _ => How::Bpf,
        }
    }

    /// Returns whether each thread has a log of its switches.
    #[inline]
    #[must_use]
    pub fn has_logs(self) -> bool {
        matches!(self, How::Records | How::Leader)
    }
}

/// Returns the n-th place of the hash table in which the thread `tid` may be (linear probing).
#[must_use]
pub const fn place(tid: u32, n: u32) -> usize {
    ((tid.wrapping_mul(2_654_435_761) >> 16).wrapping_add(n)) as usize & (TABLE - 1)
}

impl ProgramPage {
    /// Returns an empty page.
    #[must_use]
    pub const fn empty() -> ProgramPage {
        // SAFETY: the page consists of integers and atomics, for which zero is valid.
        unsafe { std::mem::zeroed() }
    }
}

const _: () = {
    assert!(size_of::<Queue>() == 256 && offset_of!(Queue, end) == 128);
    assert!(offset_of!(ProgramPage, allowed) == 16 && offset_of!(ProgramPage, tells) == 144);
    assert!(offset_of!(ProgramPage, parked) == 256 && offset_of!(ProgramPage, counts) == 384);
    assert!(offset_of!(ProgramPage, tids) == 896 && offset_of!(ProgramPage, queue) == 9088);
    assert!(size_of::<ProgramPage>() == 61440);
    assert!(
        size_of::<KernelPage>() == 20480
            && offset_of!(KernelPage, cpu) == 4096
            && offset_of!(KernelPage, thread_blocks) == 12288
            && size_of::<Cpu>() == size_of::<Moves>()
            && offset_of!(Moves, unblocked) == 4
            && offset_of!(KernelPage, blocks) == 8
            && offset_of!(KernelPage, rung_ns) == 48
    );
    assert!(size_of::<Hello>() == 32 && size_of::<Welcome>() == 16);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_delays_are_quarters_of_a_doubling() {
        for delay_ns in (0..2_000_000).step_by(77).chain([u64::from(u32::MAX), u64::MAX]) {
            let class = ((delay_ns.max(1_000) as f64 / 1_000.0).log2() * 4.0) as usize;
            assert_eq!(delay_class(delay_ns), class.min(DELAYS - 1), "{delay_ns} ns");
        }
    }
}
