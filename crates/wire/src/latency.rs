//! Layout of the histograms of interval lengths, in the kernel (`include/cox/latency.h`) and in a record.
//!
//! An interval is one wake delay, preempt wait, block or time slice. A thread with histograms of its own has a *place*, the number of these
//! histograms (from 1 on). The intervals of other threads are in histograms of their program. `ledger` computes buckets and quantiles.

use bytemuck::{Pod, Zeroable};

use crate::Clock;

/// Kinds of intervals whose lengths are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Interval {
    /// From a thread's wake-up, or its creation, to the switch-in.
    WakeDelay = 0,
    /// From a switch-out while runnable to the switch-in.
    PreemptWait,
    /// From a switch-out while not runnable to the wake-up.
    Blocked,
    /// From the switch-in to the switch-out.
    Slice,
}

/// Number of kinds of intervals.
pub const INTERVALS: usize = 4;
/// Number of buckets of a histogram.
pub const BUCKETS: usize = 1409;
/// Index of the word after the buckets, which is the length of the longest interval in ns.
pub const LONGEST: u16 = BUCKETS as u16;
/// Number of 64-bit words of a histogram.
pub const WORDS: usize = BUCKETS + 1;
/// Limit of the memory for histograms of threads, in bytes. The same limit applies again to histograms of programs.
pub const BYTES: usize = 64 << 20;
/// Number of threads that can have histograms of their own.
pub const PLACES: u32 = (BYTES / (INTERVALS * WORDS * size_of::<u64>())) as u32;
/// The highest number of a program. [`Clock::flags`] has 8 bits for this number.
pub const LAST_PROGRAM: u32 = 255;
/// Maximum number of programs in one session.
pub const MAX_PROGRAMS: u32 = 16;

/// Which programs and threads get histograms of interval lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Number of programs.
    pub programs: u32,
    /// Whether each thread gets histograms of its own, as long as places are free.
    pub threads: bool,
}

impl Default for Scope {
    fn default() -> Scope {
        Scope { programs: 1, threads: false }
    }
}

impl Scope {
    /// Returns how many of the session's programs get histograms on a machine with `cpus` CPUs. Each program needs one histogram set per CPU, so only
    /// the first programs get them, as many as fit into [`BYTES`], and at least one.
    #[must_use]
    pub fn programs_with_histograms(self, cpus: u32) -> u32 {
        let most = (PLACES / cpus.max(1)).clamp(1, LAST_PROGRAM);
        self.programs.clamp(1, most)
    }

    /// Returns the number of histogram sets of programs: one for each CPU and each program that has histograms.
    #[must_use]
    pub fn shared(self, cpus: u32) -> u32 {
        self.programs_with_histograms(cpus) * cpus
    }

    /// Returns how many threads can have histograms of their own: [`PLACES`] if threads get them in this session, otherwise 0.
    #[must_use]
    pub fn places(self) -> u32 {
        if self.threads { PLACES } else { 0 }
    }

    /// Returns the size of all histograms, bytes.
    #[must_use]
    pub fn bytes(self, cpus: u32) -> u64 {
        u64::from(self.shared(cpus) + self.places()) * (INTERVALS * WORDS * size_of::<u64>()) as u64
    }
}

impl Interval {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Interval; INTERVALS] =
        [Interval::WakeDelay, Interval::PreemptWait, Interval::Blocked, Interval::Slice];
}

/// A nonzero word of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LatencyCount {
    /// Owner of the histogram: the number of a program, or for a thread the number from [`of_place`](LatencyCount::of_place).
    pub of: u32,
    /// Kind of interval, an [`Interval`].
    pub interval: u16,
    /// Index of the bucket, or [`LONGEST`].
    pub bucket: u16,
    /// Number of intervals in the bucket, or for [`LONGEST`] the length of the longest interval in ns.
    pub count: u64,
}

impl LatencyCount {
    /// Returns the number that identifies a thread as owner of histograms ([`LatencyCount::of`]). `place` is the number of the thread's own
    /// histograms.
    #[must_use]
    pub const fn of_place(place: u16) -> u32 {
        1 << 16 | place as u32
    }

    /// Returns the nonzero words of the histograms of a program or thread, which has the number `of`. `words`: all words of these
    /// histograms, [`WORDS`] for each kind of interval, one kind after the other.
    pub fn all<'w>(of: u32, words: impl IntoIterator<Item = u64> + 'w) -> impl Iterator<Item = LatencyCount> + 'w {
        let counts = words.into_iter().enumerate().filter(|(_, count)| *count > 0);
        counts.map(move |(at, count)| {
            let (interval, bucket) = ((at / WORDS) as u16, (at % WORDS) as u16);
            LatencyCount { of, interval, bucket, count }
        })
    }
}

/// Lowest bit of the program's number in [`Clock::flags`].
pub const PROGRAM_SHIFT: u32 = 8;
/// Lowest bit of the thread's place in [`Clock::flags`].
pub const PLACE_SHIFT: u32 = 16;

impl Clock {
    /// Returns the thread's place, the number of its own histograms from 1 on, or `None` if it has none.
    #[must_use]
    pub fn place(&self) -> Option<u16> {
        Some((self.flags >> PLACE_SHIFT) as u16).filter(|place| *place > 0)
    }
}
