//! What a runtime inside a program and the kernel say to each other about blocking: the Rust mirror of
//! `include/cox/umt.h`, which says what each word means. Sizes and offsets are asserted here and there.
//!
//! Every word is an atomic: the other side may write it at any time, and may write anything.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

use bytemuck::{Pod, Zeroable};

/// `coxumt` in memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"coxumt\0\0");
/// Version of this layout, and of [`Hello`] and [`Welcome`].
pub const VERSION: u32 = 4;
/// Doorbells of a process.
pub const BELLS: usize = 16;
/// Places for threads.
pub const TABLE: usize = 2048;
/// Places a thread may be in.
pub const PROBES: u32 = 16;
/// Queues of ready tasks.
pub const QUEUES: usize = 192;
/// Classes of delays, four to an octave from 1 us on.
pub const DELAYS: usize = 40;
/// Words of a mask of CPUs.
pub const CPU_WORDS: usize = 16;
/// CPUs that can be told apart.
pub const CPUS: usize = 64 * CPU_WORDS;
/// Bits of [`Said::tells`]; see `COX_UMT_TELL_BLOCKS`.
pub const TELL_BLOCKS: u32 = 1;
/// See `COX_UMT_TELL_UNBLOCKS`.
pub const TELL_UNBLOCKS: u32 = 2;
/// See `COX_UMT_TELL_IDLE`.
pub const TELL_IDLE: u32 = 4;
/// As many as a team has slots for helpers: a process that blocks more tasks for good than these has no more standbys.
pub const STANDBYS_AT_MOST: u32 = 64;
/// Processes of a session at the same time.
pub const PROCESSES: usize = 128;

/// One word on two cache lines of its own: the prefetcher fetches them in pairs.
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

/// A word that BPF and threads write, on lines of its own.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Apart<T>(pub T);

/// What the program says; see `struct cox_umt_said`.
#[derive(Debug)]
#[repr(C, align(4096))]
#[allow(missing_docs)]
pub struct Said {
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

/// Counters for the report; see `struct cox_umt_said`.
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

/// What threads have done on a CPU, as one load has it; see `struct cox_umt_cpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Moves {
    pub blocked: u32,
    pub unblocked: u32,
}

impl Moves {
    /// Threads that are ready, if these are all that there ever were.
    #[inline]
    #[must_use]
    pub fn ready(self) -> i32 {
        self.unblocked.wrapping_sub(self.blocked) as i32
    }

    /// Those since `before`.
    #[inline]
    #[must_use]
    pub fn since(self, before: Moves) -> Moves {
        Moves {
            blocked: self.blocked.wrapping_sub(before.blocked),
            unblocked: self.unblocked.wrapping_sub(before.unblocked),
        }
    }
}

/// `struct cox_umt_cpu`, whose halves BPF counts up one by one.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Cpu(pub AtomicU64);

impl Cpu {
    /// Both halves of one moment.
    #[inline]
    #[must_use]
    pub fn moves(&self) -> Moves {
        bytemuck::cast(self.0.load(Ordering::Acquire))
    }
}

/// What the kernel says; see `struct cox_umt_seen`.
#[derive(Debug)]
#[repr(C, align(4096))]
#[allow(missing_docs)]
pub struct Seen {
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

/// A process asks for its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Hello {
    pub magic: u64,
    pub version: u32,
    pub pad: u32,
    /// The number that cox has given the program to know it by.
    pub nonce: [u8; 16],
}

/// The answer, with descriptors: of the process' two pages, and of its bells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Welcome {
    pub magic: u64,
    pub version: u32,
    /// A [`How`].
    pub how: u32,
}

/// By whom blocked threads are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum How {
    /// By BPF, which rings.
    Bpf,
    /// By threads of the idle class.
    Sentinels,
    /// By standbys, whom the kernel's records of switches wake.
    Records,
    /// By one thread, which these records wake, and which rings.
    Leader,
}

impl How {
    /// That of this number; a strange one is `Bpf`.
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

    /// Whether each thread has a log of its switches.
    #[inline]
    #[must_use]
    pub fn has_logs(self) -> bool {
        matches!(self, How::Records | How::Leader)
    }
}

impl Hello {
    /// What is sent.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytemuck::bytes_of(self)
    }
}

impl Welcome {
    /// What is sent.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytemuck::bytes_of(self)
    }
}

/// The n-th place at which a thread is looked for.
#[must_use]
pub const fn place(tid: u32, n: u32) -> usize {
    ((tid.wrapping_mul(2_654_435_761) >> 16).wrapping_add(n)) as usize & (TABLE - 1)
}

impl Said {
    /// Nothing was said yet.
    #[must_use]
    pub const fn new() -> Said {
        Said {
            version: AtomicU32::new(0),
            cpus: AtomicU32::new(0),
            queues: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            allowed: [const { AtomicU64::new(0) }; CPU_WORDS],
            tells: AtomicU32::new(0),
            parked: Apart(AtomicU64::new(0)),
            counts: Apart(Counts {
                standbys: AtomicU64::new(0),
                ran: AtomicU64::new(0),
                empty: AtomicU64::new(0),
                surrendered: AtomicU64::new(0),
                own_rings: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                thread_data: AtomicU64::new(0),
                shared_numbers: AtomicU64::new(0),
                bound: AtomicU64::new(0),
                unseen: AtomicU64::new(0),
                unshared: AtomicU64::new(0),
                scan_rescues: AtomicU64::new(0),
                at_limit: AtomicU64::new(0),
                error: AtomicU64::new(0),
            }),
            heard: Apart([const { AtomicU64::new(0) }; DELAYS]),
            tids: [const { AtomicU32::new(0) }; TABLE],
            queue: [const { Queue { begin: Line(AtomicI64::new(0)), end: Line(AtomicI64::new(0)) } }; QUEUES],
        }
    }
}

impl Default for Said {
    fn default() -> Said {
        Said::new()
    }
}

const _: () = {
    assert!(size_of::<Queue>() == 256 && offset_of!(Queue, end) == 128);
    assert!(offset_of!(Said, allowed) == 16 && offset_of!(Said, tells) == 144);
    assert!(offset_of!(Said, parked) == 256 && offset_of!(Said, counts) == 384);
    assert!(offset_of!(Said, tids) == 896 && offset_of!(Said, queue) == 9088);
    assert!(size_of::<Said>() == 61440);
    assert!(
        size_of::<Seen>() == 20480
            && offset_of!(Seen, cpu) == 4096
            && offset_of!(Seen, thread_blocks) == 12288
            && size_of::<Cpu>() == size_of::<Moves>()
            && offset_of!(Moves, unblocked) == 4
            && offset_of!(Seen, blocks) == 8
            && offset_of!(Seen, rung_ns) == 48
    );
    assert!(size_of::<Hello>() == 32 && size_of::<Welcome>() == 16);
};

#[cfg(all(test, feature = "native"))]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn cox_native_umt_place(tid: u32, n: u32) -> u32;
    }

    #[test]
    fn both_sides_look_in_the_same_places() {
        for tid in (1..u32::MAX).step_by(7_919_777) {
            for n in 0..PROBES {
                // SAFETY: a pure function of two numbers.
                assert_eq!(place(tid, n), unsafe { cox_native_umt_place(tid, n) } as usize);
            }
        }
        let close: std::collections::BTreeSet<usize> = (1000..1256).map(|tid| place(tid, 0)).collect();
        assert!(close.len() > 200, "threads made one after the other have places of their own: {}", close.len());
    }
}
