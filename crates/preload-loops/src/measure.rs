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
//! A time is published in ticks of the clock where only ratios of times count: all but `bold`, whose inputs are nanoseconds.
//!
//! If the request does not count, a chunk begins at its end. A second reading of the clock would tell when that is, and take as long as the rest of the
//! request. So it is taken for some requests only ([`RequestTime`]), and the others are assumed to take as long. The error is some ten nanoseconds for
//! each chunk.
//!
//! A chunk that takes no longer than some requests is therefore measured badly, and measuring it would take longer than executing it. As soon as a thread
//! has published a pace, only one in [`SHORT_EVERY`] of such chunks is measured. The others count neither as fast nor as slow.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use arch::prefetch_for_writing;
use loops::adaptive::Request;
use loops::adaptive::ahead::Ahead;
use loops::{Adaptive, Finished, Kind, Statistics, Timing};

use crate::clock;
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

/// A chunk is short if it is expected to take less time than this many requests.
const SHORT_REQUESTS: f64 = 4.0;
/// One in so many short chunks is measured: iterations may turn out to take longer.
const SHORT_EVERY: u32 = 8;

/// What a thread knows about its current instance of an adaptive loop.
pub struct Measure {
    kind: Kind,
    statistics: Option<Statistics>,
    prepared: *const Prepared,
    shared: *const Shared,
    lines: *const [Published],
    instance: u64,
    ns_per_tick: f64,
    /// The last request, and the fingerprint of what the team had published then.
    request: Option<(u64, Request)>,
    /// Sizes for it that were computed in advance.
    ahead: Ahead,
    /// Whether the request is the same in the whole instance.
    is_constant: bool,
    /// Whether the instance is added to the thread's history.
    has_history: bool,
    /// Iterations of the running chunk; 0 if there is none.
    iterations: u64,
    /// Where the thread's last chunk ends; 0 before the first one.
    end: u64,
    /// Whether the running chunk is measured.
    is_measured: bool,
    /// When the running chunk began, or the request for it; for `awf`, the instance. Ticks.
    began: u64,
    /// Iterations in this instance.
    all: u64,
    /// Mean time of an iteration as last published, ticks; 0 before that.
    mean: f64,
    /// Short chunks so far.
    short: u32,
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
            request: None,
            ahead: Ahead::default(),
            is_constant: false,
            has_history: false,
            iterations: 0,
            end: 0,
            is_measured: false,
            began: 0,
            all: 0,
            mean: 0.0,
            short: 0,
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
        (self.iterations, self.all, self.has_history) = (0, 0, false);
        (self.is_measured, self.mean, self.end) = (false, 0.0, 0);
        self.request = adaptive.constant_request(thread as usize).map(|request| (0, request));
        match self.kind {
            Kind::Wf => {}
            Kind::Awf => {
                self.request = Some((0, adaptive.request(thread as usize, &prepared.histories)));
                self.has_history = true;
                self.began = clock::now();
            }
            Kind::Bold => (self.ns_per_tick, self.is_measured) = (clock::ns_per_tick(), true),
            _ => self.statistics = Some(adaptive.statistics(Timing::Wall)),
        }
        self.is_constant = self.request.is_some();
        match &self.request {
            Some((_, request)) => adaptive.look_ahead(request, 0, &mut self.ahead),
            // The sizes may be those of another plan.
            None => self.ahead.clear(),
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
        if let (true, Some((_, request))) = (self.is_constant, &self.request) {
            let chunk = take(adaptive, request, &mut self.ahead, counter);
            match &chunk {
                Some(chunk) => self.all += chunk.end - chunk.start,
                None if self.has_history => self.end_instance(thread),
                None => {}
            }
            return chunk;
        }
        // Reading the line first would take it twice: to read, and to write. The clock is read meanwhile.
        prefetch_for_writing(std::ptr::from_ref(counter).expose_provenance() as u64);
        let asked = self.is_measured.then(clock::now);
        if let Some(asked) = asked {
            self.finish(thread, asked);
        }
        let request = self.request(adaptive, thread, asked);
        let chunk = take(adaptive, &request, &mut self.ahead, counter);
        self.end = chunk.as_ref().map_or(self.end, |chunk| chunk.end);
        self.begin_chunk(chunk.as_ref().map_or(0, |chunk| chunk.end - chunk.start), asked);
        if let (Kind::Bold, Some(asked)) = (self.kind, asked) {
            self.view(asked).set_running(thread, self.iterations, self.began);
        }
        chunk
    }

    /// Returns what the thread needs to know for the next size. As long as the team has published nothing else, that is the same as before.
    #[inline]
    fn request(&mut self, adaptive: &Adaptive, thread: usize, asked: Option<u64>) -> Request {
        let view = self.view(asked.unwrap_or(0));
        if self.kind == Kind::Bold {
            return adaptive.request(thread, &view);
        }
        let seen = view.fingerprint(adaptive.threads());
        match &self.request {
            Some((of, request)) if *of == seen => *request,
            _ => {
                let request = adaptive.request(thread, &view);
                self.request = Some((seen, request));
                adaptive.look_ahead(&request, self.end, &mut self.ahead);
                request
            }
        }
    }

    /// Begins a chunk, for which the thread has asked at the time `asked` if that is known.
    #[inline]
    fn begin_chunk(&mut self, iterations: u64, asked: Option<u64>) {
        self.iterations = iterations;
        self.is_measured = self.kind == Kind::Bold || self.is_worth_measuring();
        self.began = match (self.kind, asked) {
            _ if !self.is_measured => 0,
            (Kind::AwfB | Kind::AwfC | Kind::Af, Some(asked)) => self.request_time.end(asked, clock::now),
            (_, Some(asked)) => {
                self.request_time.end(asked, clock::now);
                asked
            }
            (Kind::AwfB | Kind::AwfC | Kind::Af, None) => clock::now(),
            (_, None) => clock::now().saturating_sub(self.request_time.shortest),
        };
    }

    /// Returns whether the running chunk is measured.
    #[inline]
    fn is_worth_measuring(&mut self) -> bool {
        let expected = self.iterations as f64 * self.mean;
        if self.mean == 0.0 || expected >= SHORT_REQUESTS * self.request_time.shortest as f64 {
            return self.iterations > 0;
        }
        self.short = self.short.wrapping_add(1);
        self.short.is_multiple_of(SHORT_EVERY) && self.iterations > 0
    }

    /// Adds the running chunk, which ends now, to the statistics, and publishes the pace.
    #[inline]
    fn finish(&mut self, thread: usize, now: u64) {
        let Some(statistics) = self.statistics.as_mut().filter(|_| self.iterations > 0) else { return };
        // A chunk that is shorter than the error of its beginning has taken some time, too.
        let wall_ns = now.saturating_sub(self.began).max(1) as f64;
        let pace = statistics.finish(&Finished { iterations: self.iterations, wall_ns, ..Finished::default() });
        self.mean = pace.mean_ns;
        self.view(now).set_pace(thread, pace);
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
fn take(adaptive: &Adaptive, request: &Request, ahead: &mut Ahead, counter: &AtomicU64) -> Option<Range<u64>> {
    let trips = adaptive.trips();
    let mut given_out = counter.load(Ordering::Relaxed);
    loop {
        let size = match ahead.size(given_out) {
            Some(size) => size.min(trips - given_out),
            None => adaptive.size(request, given_out),
        };
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
    fn short_chunks_are_measured_now_and_then() {
        let mut measure = Measure { iterations: 3, ..Measure::default() };
        assert!(measure.is_worth_measuring(), "the pace is unknown");
        // A request takes 100 ticks, the chunk is expected to take 30.
        (measure.mean, measure.request_time.shortest) = (10.0, 100);
        assert_eq!((0..80).filter(|_| measure.is_worth_measuring()).count(), 10);
        measure.iterations = 40;
        assert!((0..80).all(|_| measure.is_worth_measuring()));
        measure.iterations = 0;
        assert!(!(0..80).any(|_| measure.is_worth_measuring()));
    }

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
