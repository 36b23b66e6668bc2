//! When each thread of an instance finished, and what it did: one line for each thread, which the thread that opens the slot's next instance reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A thread's line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Finished {
    /// Number of the slot's instance that the thread has finished.
    instance: AtomicU64,
    /// When, ticks.
    at: AtomicU64,
    /// Chunks that it had, if only the thread knows that.
    chunks: AtomicU64,
    /// Time of its requests, ticks; 0 if they were not timed.
    request: AtomicU64,
    /// Its requests that were timed.
    requests: AtomicU64,
    /// How long it waited for a CPU, nanoseconds; `UNKNOWN` if that was not measured.
    waited_ns: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

/// What a thread did in an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// When it finished, ticks; 0 if times are not measured.
    pub at: u64,
    /// Chunks that it had, if only the thread knows that.
    pub chunks: u64,
    /// Time of its requests, ticks.
    pub request: u64,
    /// Its requests that were timed.
    pub requests: u64,
    /// How long it waited for a CPU, nanoseconds; `None` if that was not measured.
    pub waited_ns: Option<u64>,
}

impl Finished {
    /// Stores the thread's part. Relaxed: the thread leaves the slot afterwards, and that orders it before the slot's next instance.
    #[inline]
    pub fn set(&self, instance: u64, part: Part) {
        self.at.store(part.at, Ordering::Relaxed);
        self.chunks.store(part.chunks, Ordering::Relaxed);
        self.request.store(part.request, Ordering::Relaxed);
        self.requests.store(part.requests, Ordering::Relaxed);
        self.waited_ns.store(part.waited_ns.unwrap_or(UNKNOWN), Ordering::Relaxed);
        self.instance.store(instance, Ordering::Relaxed);
    }

    /// Returns the thread's part of an instance; `None` if it has not come to its end.
    #[inline]
    pub fn part(&self, instance: u64) -> Option<Part> {
        (self.instance.load(Ordering::Relaxed) == instance).then(|| Part {
            at: self.at.load(Ordering::Relaxed),
            chunks: self.chunks.load(Ordering::Relaxed),
            request: self.request.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            waited_ns: Some(self.waited_ns.load(Ordering::Relaxed)).filter(|ns| *ns != UNKNOWN),
        })
    }
}
