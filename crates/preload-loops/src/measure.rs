//! The requests of adaptive schedules: what a thread measures between them, and how it gets its next chunk.
//!
//! | schedule | readings of the clock | what is published |
//! |---|---|---|
//! | `wf` | none | nothing |
//! | `awf` | two for each instance | the speed in all instances so far, in the plan |
//! | `awf_b`, `awf_c`, `af` | two for each request: the request does not count | pace |
//! | `awf_d`, `awf_e`, `maf` | one for each request: the request counts | pace |
//! | `bold` | one for each request | the chunk that is executed, and since when |
//!
//! A time is published in ticks of the clock where only ratios of times count: all but `bold`, whose inputs are nanoseconds.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use loops::adaptive::Request;
use loops::{Adaptive, Finished, Kind, Statistics, Timing};

use crate::clock;
use crate::instance::Instance;
use crate::plans::Prepared;
use crate::published::{Published, View};

/// What a thread knows about its current instance of an adaptive loop.
pub struct Measure {
    kind: Kind,
    statistics: Option<Statistics>,
    prepared: *const Prepared,
    published: *const [Published],
    instance: u64,
    ns_per_tick: f64,
    /// The request, if it is the same in the whole instance.
    fixed: Option<Request>,
    /// Iterations of the running chunk; 0 if there is none.
    iterations: u64,
    /// When the running chunk began, or the request for it; for `awf`, the instance. Ticks.
    began: u64,
    /// Iterations in this instance.
    all: u64,
}

impl Default for Measure {
    fn default() -> Measure {
        Measure {
            kind: Kind::Wf,
            statistics: None,
            prepared: std::ptr::null(),
            published: std::ptr::slice_from_raw_parts(std::ptr::NonNull::dangling().as_ptr(), 0),
            instance: 0,
            ns_per_tick: 1.0,
            fixed: None,
            iterations: 0,
            began: 0,
            all: 0,
        }
    }
}

impl Measure {
    /// Begins an instance, at whose slot the thread `thread` stands.
    pub fn begin(&mut self, prepared: &Prepared, adaptive: &Adaptive, thread: u32, instance: &Instance) {
        // SAFETY: the thread stands at the slot, and does not use what it got here after it has left.
        unsafe {
            self.instance = instance.number();
            self.published = instance.published();
        }
        self.kind = prepared.kind;
        self.prepared = prepared;
        (self.iterations, self.all, self.fixed) = (0, 0, None);
        match self.kind {
            Kind::Wf => self.fixed = Some(adaptive.request(thread as usize, &self.view(0))),
            Kind::Awf => {
                self.fixed = Some(adaptive.request(thread as usize, &prepared.histories));
                self.began = clock::now();
            }
            Kind::Bold => self.ns_per_tick = clock::ns_per_tick(),
            _ => self.statistics = Some(adaptive.statistics(Timing::Wall)),
        }
    }

    fn view(&self, now: u64) -> View<'_> {
        // SAFETY: the memory lives until the thread leaves the instance, and `begin` replaces it.
        let published = unsafe { &*self.published };
        View { published, instance: self.instance, now, ns_per_tick: self.ns_per_tick }
    }

    /// Returns the next chunk; `None` at the loop's end.
    pub fn next(&mut self, adaptive: &Adaptive, counter: &AtomicU64, thread: usize) -> Option<Range<u64>> {
        if let Some(request) = self.fixed {
            let chunk = take(adaptive, &request, counter);
            match &chunk {
                Some(chunk) => self.all += chunk.end - chunk.start,
                None if self.kind == Kind::Awf => self.end_instance(thread),
                None => {}
            }
            return chunk;
        }
        let asked = clock::now();
        self.finish(thread, asked);
        let request = adaptive.request(thread, &self.view(asked));
        let chunk = take(adaptive, &request, counter);
        self.iterations = chunk.as_ref().map_or(0, |chunk| chunk.end - chunk.start);
        self.began = match self.kind {
            Kind::AwfB | Kind::AwfC | Kind::Af => clock::now(),
            _ => asked,
        };
        if self.kind == Kind::Bold
            && let Some(line) = self.view(asked).published.get(thread)
        {
            line.set_running(self.instance, self.iterations, self.began);
        }
        chunk
    }

    /// Adds the running chunk, which ends now, to the statistics, and publishes the pace.
    fn finish(&mut self, thread: usize, now: u64) {
        let Some(statistics) = self.statistics.as_mut().filter(|_| self.iterations > 0) else { return };
        let wall_ns = now.wrapping_sub(self.began) as f64;
        let pace = statistics.finish(&Finished { iterations: self.iterations, wall_ns, ..Finished::default() });
        if let Some(line) = self.view(now).published.get(thread) {
            line.set_pace(self.instance, pace);
        }
    }

    /// Adds the instance to the thread's history.
    fn end_instance(&mut self, thread: usize) {
        // A cancelled loop's threads ask again and again at its end.
        let iterations = std::mem::take(&mut self.all);
        let wall_ns = clock::now().wrapping_sub(self.began) as f64;
        if iterations > 0 {
            // SAFETY: the plan lives until the thread leaves the instance.
            let histories = unsafe { &(*self.prepared).histories };
            histories.add(thread, &Finished { iterations, wall_ns, ..Finished::default() });
        }
    }
}

/// Takes the next chunk by compare-and-swap.
#[inline]
fn take(adaptive: &Adaptive, request: &Request, counter: &AtomicU64) -> Option<Range<u64>> {
    let mut given_out = counter.load(Ordering::Relaxed);
    loop {
        let size = adaptive.size(request, given_out);
        if size == 0 {
            return None;
        }
        // Relaxed: as the counter of other schedules.
        match counter.compare_exchange_weak(given_out, given_out + size, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some(given_out..given_out + size),
            Err(newer) => given_out = newer,
        }
    }
}
