//! Layout of the histograms of single waits and slices in the kernel (`include/cox/latency.h`), and in a record. `ledger` has the rule of the buckets.

use bytemuck::{Pod, Zeroable};

use crate::Clock;

/// The kinds of intervals whose single lengths are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Interval {
    /// From the wake-up, or the creation, to the switch-in.
    WakeDelay = 0,
    /// From a switch-out while runnable to the switch-in.
    PreemptWait,
    /// From a switch-out while not runnable to the wake-up.
    Blocked,
    /// From the switch-in to the switch-out.
    Slice,
}

/// How many kinds of intervals there are.
pub const INTERVALS: usize = 4;
/// Buckets of a histogram.
pub const BUCKETS: usize = 1409;
/// Index behind the buckets of a histogram, of the longest interval in ns.
pub const LONGEST: u16 = BUCKETS as u16;
/// Words of a histogram.
pub const WORDS: usize = BUCKETS + 1;
/// Limit of the memory for histograms of threads, and of the memory for those of programs.
pub const BYTES: usize = 64 << 20;
/// Threads that can have histograms of their own.
pub const PLACES: u32 = (BYTES / (INTERVALS * WORDS * size_of::<u64>())) as u32;
/// The highest number that a program can have in [`Clock::flags`].
pub const LAST_PROGRAM: u32 = 255;

/// Which programs and threads have histograms of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Number of programs.
    pub programs: u32,
    /// Whether threads have some.
    pub threads: bool,
}

impl Default for Scope {
    fn default() -> Scope {
        Scope { programs: 1, threads: false }
    }
}

impl Scope {
    /// Returns the number of histograms of programs: one for each program and CPU, within [`BYTES`] but for the first program.
    #[must_use]
    pub fn shared(self, cpus: u32) -> u32 {
        let most = (PLACES / cpus.max(1)).clamp(1, LAST_PROGRAM);
        self.programs.clamp(1, most) * cpus
    }

    /// Returns the number of histograms of threads.
    #[must_use]
    pub fn places(self) -> u32 {
        if self.threads { PLACES } else { 0 }
    }
}

impl Interval {
    /// All, in order.
    pub const ALL: [Interval; INTERVALS] =
        [Interval::WakeDelay, Interval::PreemptWait, Interval::Blocked, Interval::Slice];
}

/// A word of a histogram that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LatencyCount {
    /// The owner: the number of a program, or [`of_place`](LatencyCount::of_place).
    pub of: u32,
    /// The kind, an [`Interval`].
    pub interval: u16,
    /// The bucket, or [`LONGEST`].
    pub bucket: u16,
    /// The number of intervals in the bucket, or the longest interval in ns.
    pub count: u64,
}

impl LatencyCount {
    /// Returns the owner's number of a thread with this place.
    #[must_use]
    pub const fn of_place(place: u16) -> u32 {
        1 << 16 | place as u32
    }

    /// Returns the words of an owner that are not 0. `words` has [`WORDS`] for each kind, one kind after another.
    pub fn all<'w>(of: u32, words: impl IntoIterator<Item = u64> + 'w) -> impl Iterator<Item = LatencyCount> + 'w {
        let counts = words.into_iter().enumerate().filter(|(_, count)| *count > 0);
        counts.map(move |(at, count)| {
            let (interval, bucket) = ((at / WORDS) as u16, (at % WORDS) as u16);
            LatencyCount { of, interval, bucket, count }
        })
    }
}

/// Position of the program's number in [`Clock::flags`].
pub const PROGRAM_SHIFT: u32 = 8;
/// Position of the place in [`Clock::flags`].
pub const PLACE_SHIFT: u32 = 16;

impl Clock {
    /// Returns the place of the thread's histograms, if it has some; places begin at 1.
    #[must_use]
    pub fn place(&self) -> Option<u16> {
        Some((self.flags >> PLACE_SHIFT) as u16).filter(|place| *place > 0)
    }
}
