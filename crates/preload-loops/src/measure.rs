//! The requests of adaptive schedules: what a thread measures between them, and how it gets its next chunk.
//!
//! | schedule | readings of the clock | what is published |
//! |---|---|---|
//! | `wf` | none | nothing |
//! | `awf` | two for each instance | the speed in all instances so far, in the plan |
//! | `awf_b`, `awf_c`, `af` | one for each request, sometimes two: the request does not count | pace |
//! | `awf_d`, `awf_e`, `maf` | one for each request: the request counts | pace |
//! | `bold` | one for each request | the chunk that is executed, and since when |
//!
//! A time is published in ticks of the clock where only ratios of times count: all but `bold`, whose inputs are nanoseconds, and unless CPU time counts
//! (`--timing`). Then each reading of the clock is also one of the thread's CPU time ([`crate::cpu_time`]).
//!
//! If the request does not count, a chunk begins at its end. A second reading of the clock would tell when that is, and take as long as the rest of the
//! request. So it is taken for some requests only ([`RequestTime`]), and the others are assumed to take as long. The error is some ten nanoseconds for
//! each chunk.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use loops::adaptive::Request;
use loops::cpu_share::Share;
use loops::{Adaptive, Finished, Kind, Statistics};

use crate::clock;
use crate::cpu_time::{self, Stopwatch};
use crate::instance::Instance;
use crate::plans::Prepared;
use crate::published::{Published, Shared, View};

/// How long a request takes.
#[derive(Debug, Default)]
struct RequestTime {
    /// Requests so far.
    requests: u32,
    /// The shortest one of those measured, ticks. What others take in addition is chance, as a race for a cache line.
    shortest: u64,
}

impl RequestTime {
    /// Number of the first requests that are measured.
    const FIRST: u32 = 4;
    /// Of the later ones, one in so many is measured.
    const EVERY: u32 = 16;

    /// Returns when the request that began at the time `asked` ends. Called at its end.
    #[inline]
    fn end(&mut self, asked: u64, now: impl FnOnce() -> u64) -> u64 {
        let number = self.requests;
        self.requests = number.wrapping_add(1);
        if number >= RequestTime::FIRST && !number.is_multiple_of(RequestTime::EVERY) {
            return asked.wrapping_add(self.shortest);
        }
        let now = now();
        let ticks = now.saturating_sub(asked);
        self.shortest = if number == 0 { ticks } else { self.shortest.min(ticks) };
        now
    }
}

/// What a thread knows about its current instance of an adaptive loop.
pub struct Measure {
    kind: Kind,
    statistics: Option<Statistics>,
    prepared: *const Prepared,
    shared: *const Shared,
    lines: *const [Published],
    instance: u64,
    ns_per_tick: f64,
    /// The request, if it is the same in the whole instance.
    fixed: Option<Request>,
    /// Whether the instance is added to the thread's history.
    has_history: bool,
    /// Iterations of the running chunk; 0 if there is none.
    iterations: u64,
    /// When the running chunk began, or the request for it; for `awf`, the instance. Ticks.
    began: u64,
    /// Iterations in this instance.
    all: u64,
    /// CPU time, unless wall time is all that counts.
    stopwatch: Option<Stopwatch>,
    request_time: RequestTime,
}

impl Default for Measure {
    fn default() -> Measure {
        Measure {
            kind: Kind::Wf,
            statistics: None,
            prepared: std::ptr::null(),
            shared: std::ptr::null(),
            lines: std::ptr::slice_from_raw_parts(std::ptr::NonNull::dangling().as_ptr(), 0),
            instance: 0,
            ns_per_tick: 1.0,
            fixed: None,
            has_history: false,
            iterations: 0,
            began: 0,
            all: 0,
            stopwatch: None,
            request_time: RequestTime::default(),
        }
    }
}

impl Measure {
    /// Begins an instance, at whose slot the thread `thread` of `threads` stands.
    pub fn begin(&mut self, prepared: &Prepared, adaptive: &Adaptive, thread: u32, threads: u32, instance: &Instance) {
        // SAFETY: the thread stands at the slot, and does not use what it got here after it has left.
        unsafe {
            self.instance = instance.number();
            self.lines = instance.published(threads);
        }
        self.shared = instance.shared();
        self.kind = prepared.kind;
        self.prepared = prepared;
        (self.iterations, self.all, self.has_history, self.stopwatch) = (0, 0, false, None);
        self.fixed = adaptive.constant_request(thread as usize);
        match self.kind {
            Kind::Wf => {}
            Kind::Awf => {
                self.fixed = Some(adaptive.request(thread as usize, &prepared.histories));
                self.has_history = true;
                self.began = clock::now();
                self.stopwatch = Stopwatch::start(prepared.timing, self.began);
            }
            Kind::Bold => self.ns_per_tick = clock::ns_per_tick(),
            _ => {
                self.stopwatch = Stopwatch::start(prepared.timing, clock::now());
                let statistics = adaptive.statistics(prepared.timing);
                let share = if self.stopwatch.is_some() { cpu_time::share() } else { Share::default() };
                self.statistics = Some(statistics.with_share(share));
            }
        }
    }

    #[inline]
    fn view(&self, now: u64) -> View<'_> {
        // SAFETY: the memory lives until the thread leaves the instance, and `begin` replaces it.
        let (shared, lines) = unsafe { (&*self.shared, &*self.lines) };
        View { shared, lines, instance: self.instance, now, ns_per_tick: self.ns_per_tick }
    }

    /// Returns the next chunk; `None` at the loop's end.
    #[inline]
    pub fn next(&mut self, adaptive: &Adaptive, counter: &AtomicU64, thread: usize) -> Option<Range<u64>> {
        if let Some(request) = &self.fixed {
            let chunk = take(adaptive, request, counter);
            match &chunk {
                Some(chunk) => self.all += chunk.end - chunk.start,
                None if self.has_history => self.end_instance(thread),
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
            Kind::AwfB | Kind::AwfC | Kind::Af => self.request_time.end(asked, clock::now),
            _ => asked,
        };
        if self.kind == Kind::Bold {
            self.view(asked).set_running(thread, self.iterations, self.began);
        }
        chunk
    }

    /// Adds the running chunk, which ends now, to the statistics, and publishes the pace.
    #[inline]
    fn finish(&mut self, thread: usize, now: u64) {
        let Some(statistics) = self.statistics.as_mut().filter(|_| self.iterations > 0) else { return };
        // A chunk that is shorter than the error of its beginning has taken some time, too.
        let wall_ns = now.saturating_sub(self.began).max(1) as f64;
        let pace = match &mut self.stopwatch {
            None => statistics.finish(&Finished { iterations: self.iterations, wall_ns, ..Finished::default() }),
            Some(stopwatch) => {
                let pace = statistics.finish(&stopwatch.lap(self.iterations, self.began, now));
                cpu_time::set_share(statistics.share());
                pace
            }
        };
        self.view(now).set_pace(thread, pace);
    }

    /// Adds the instance to the thread's history.
    fn end_instance(&mut self, thread: usize) {
        // A cancelled loop's threads ask again and again at its end.
        let iterations = std::mem::take(&mut self.all);
        let now = clock::now();
        let wall_ns = now.wrapping_sub(self.began) as f64;
        if iterations > 0 {
            let wall = Finished { iterations, wall_ns, ..Finished::default() };
            let instance = self.stopwatch.as_mut().map_or(wall, |watch| watch.lap(iterations, self.began, now));
            // SAFETY: the plan lives until the thread leaves the instance.
            let histories = unsafe { &(*self.prepared).histories };
            histories.add(thread, &instance);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_requests_are_assumed_to_take_as_long_as_the_shortest() {
        let mut time = RequestTime::default();
        let mut end = |asked, now| time.end(asked, || now);
        assert_eq!([end(100, 190), end(200, 250), end(300, 370), end(400, 460)], [190, 250, 370, 460]);
        assert_eq!([end(1000, 0), end(2000, 0)], [1050, 2050]);
        for number in 6..16 {
            assert_eq!(end(number, 0), number + 50);
        }
        // The seventeenth is measured again.
        assert_eq!([end(3000, 3020), end(4000, 0)], [3020, 4020]);
    }
}
