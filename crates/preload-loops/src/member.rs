//! A thread as a member of a team: where it stands in the team's chain of instances, and what it needs for its next request.
//!
//! What a request reads is copied here when the thread joins an instance, so that the request touches no shared memory except the counter (and the
//! table's entry). The memory of a member belongs to one thread and needs no synchronisation.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use loops::blocks::Blocks;
use loops::fixed::Fixed;
use loops::hybrid::Hybrid;
use loops::steal::{Lane, Steal};
use loops::table::Table;
use loops::{Adaptive, Kind, Plan};
use wire::loop_records::Clause as Written;

use crate::bounds::{Bounds, Inclusive};
use crate::chain::Slot;
use crate::finished::Part;
use crate::instance::Instance;
use crate::measure::Measure;
use crate::plans::Prepared;
use crate::team::Team;
use crate::{clock, delays};
use loops::options::{Options, Wanted};

/// What the program says about a loop, apart from its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Clause {
    /// The schedule that it names.
    pub written: Written,
    /// Whether each thread must get its chunks in ascending order.
    pub monotonic: bool,
    /// The smallest size of a chunk; 1 if the program does not say.
    pub chunk: u64,
    /// Where the loop is in the program: the address behind the call that begins it; 0 if unknown.
    pub place: usize,
    /// Whether libomp would execute the loop; otherwise libgomp.
    pub is_libomp: bool,
}

/// Where the chunks of the current loop come from.
#[derive(Clone, Copy)]
enum Source {
    /// From the runtime, or there is no loop.
    Runtime,
    Fixed(Fixed),
    Table(*const Table),
    Hybrid(*const Hybrid),
    Steal(Steal),
    Adaptive(*const Adaptive),
    /// `static`: the plan tells the thread's chunks.
    Static(*const Plan),
    /// The thread has no more chunks.
    Ended,
    /// Requests are timed: `Member::timed` is the source.
    Timed,
}

/// A thread in a team.
#[repr(C)]
pub struct Member {
    /// Return address of the last call that began a loop; written by assembly.
    caller: usize,
    source: Source,
    counter: *const AtomicU64,
    bounds: Bounds,
    /// Chunks of this instance that depend on the thread only and that it has had. With stealing: 1 after the end of the loop.
    taken: u64,
    /// With chunks of one size: the number of chunks before the last one, and how far the counter goes in each.
    full: u64,
    stride: u64,
    at: *const Slot<Instance>,
    team: *const Team,
    options: &'static Options,
    thread: u32,
    threads: u32,
    measure: Measure,
    /// Chunks of this instance, if the instance's counter does not tell them.
    chunks: u64,
    /// The source, if each request is timed: then `source` is `Timed`.
    timed: Source,
    /// Time of the requests, ticks, and their number.
    request: (u64, u64),
    /// How long the thread has waited for a CPU since the instance began, before it came to it; `None` if that is not measured.
    waited_ns: Option<u64>,
    /// Weighted blocks of the last `static` loop, and its number of iterations.
    blocks: Option<(u64, Blocks)>,
}

/// Offset of the word where assembly stores the caller.
pub const CALLER_AT: usize = std::mem::offset_of!(Member, caller);

impl Member {
    /// Returns a member at the team's root. `thread` is its number in the team, and below `threads`.
    ///
    /// # Safety
    /// The team outlives the member.
    #[inline]
    pub unsafe fn new(team: *const Team, options: &'static Options, thread: u32, threads: u32) -> Member {
        Member {
            caller: 0,
            source: Source::Runtime,
            counter: std::ptr::null(),
            bounds: Bounds::default(),
            taken: 0,
            full: 0,
            stride: 0,
            // SAFETY: guaranteed by the caller.
            at: unsafe { &*team }.chain.root(),
            team,
            options,
            thread,
            threads,
            measure: Measure::default(),
            chunks: 0,
            timed: Source::Runtime,
            request: (0, 0),
            waited_ns: None,
            blocks: None,
        }
    }

    /// Returns the options of the process.
    #[inline]
    pub fn options(&self) -> &'static Options {
        self.options
    }

    /// Returns the return address of the last call that began a loop.
    #[inline]
    pub fn caller(&self) -> usize {
        self.caller
    }

    /// Returns whether the current loop is one of ours.
    #[inline]
    pub fn has_loop(&self) -> bool {
        !matches!(self.source, Source::Runtime)
    }

    /// Ends the current loop, or notes that the runtime schedules it.
    #[inline]
    pub fn leave_loop(&mut self) {
        self.source = Source::Runtime;
    }

    /// Joins the next instance of the team; opens it if this is the first thread there.
    ///
    /// # Safety
    /// Each thread of the team calls this for the same loops in the same order, or has left the team for good.
    pub unsafe fn begin_loop(&mut self, bounds: Bounds, clause: Clause) {
        // SAFETY: the team outlives its members.
        let team = unsafe { &*self.team };
        // SAFETY: the thread stands at `at`; `open` is called while no other thread has the slot.
        let instance = unsafe {
            self.at = team.chain.advance(self.at, self.threads, |instance| {
                instance.open(team, self.options, &bounds, self.threads, &clause);
                team.count();
            });
            &(*self.at).content
        };
        // SAFETY: the thread stands at the slot. `open` has stored a plan.
        let prepared: &Prepared = unsafe { &*instance.plan() };
        self.counter = instance.counter();
        self.bounds = bounds;
        (self.taken, self.chunks, self.request) = (0, 0, (0, 0));
        self.source = match &prepared.plan {
            Plan::Fixed(fixed) => {
                let chunks = if fixed.size() == 1 { bounds.trips } else { fixed.len() };
                self.full = chunks.saturating_sub(1);
                self.stride = bounds.value(fixed.size()).wrapping_sub(bounds.value(0));
                Source::Fixed(*fixed)
            }
            Plan::Table(table) => Source::Table(table),
            Plan::Hybrid(hybrid) => Source::Hybrid(hybrid),
            Plan::Steal(steal) => Source::Steal(*steal),
            Plan::Adaptive(adaptive) => {
                self.measure.begin(prepared, adaptive, self.thread, instance);
                Source::Adaptive(adaptive)
            }
            Plan::Blocks(_) | Plan::Cyclic(_) => Source::Static(&raw const prepared.plan),
        };
        // SAFETY: as above.
        let (measured, began) = unsafe { instance.measured() };
        if measured.requests {
            self.timed = std::mem::replace(&mut self.source, Source::Timed);
        }
        self.waited_ns = if measured.delays { waited_before(began) } else { None };
    }

    /// Stores the values at which the next chunk starts and ends. Returns false if the loop has ended.
    ///
    /// # Safety
    /// The thread is in a loop that it has begun, and the pointers are valid for writing.
    #[inline(always)]
    pub unsafe fn next(&mut self, from: *mut u64, to: *mut u64) -> bool {
        // The frequent cases are here, without a call, so that no register has to be saved.
        // SAFETY: the plan and the counter live until the thread leaves the slot; the pointers are valid.
        let chunk = unsafe {
            match self.source {
                Source::Fixed(fixed) => {
                    let k = self.count();
                    if k < self.full {
                        let start = self.bounds.value(k.wrapping_mul(fixed.size()));
                        (*from, *to) = (start, start.wrapping_add(self.stride));
                        return true;
                    }
                    fixed.chunk(k)
                }
                Source::Table(table) => (*table).chunk(self.count()),
                _ => return self.next_of_others(from, to),
            }
        };
        let Some(chunk) = chunk else {
            self.finish();
            return false;
        };
        // SAFETY: guaranteed by the caller.
        unsafe { (*from, *to) = self.bounds.values(&chunk) };
        true
    }

    #[inline(never)]
    unsafe fn next_of_others(&mut self, from: *mut u64, to: *mut u64) -> bool {
        // SAFETY: guaranteed by the caller.
        let Some(chunk) = (unsafe { self.other_chunk() }) else { return false };
        // SAFETY: guaranteed by the caller.
        unsafe { (*from, *to) = self.bounds.values(&chunk) };
        true
    }

    /// Returns the next chunk with its last value; `None` if the loop has ended.
    ///
    /// # Safety
    /// The thread is in a loop that it has begun.
    #[inline]
    pub unsafe fn next_inclusive(&mut self) -> Option<Inclusive> {
        // SAFETY: the plan and the counter live until the thread leaves the slot.
        let chunk = unsafe {
            match self.source {
                Source::Fixed(fixed) => fixed.chunk(self.count()),
                Source::Table(table) => (*table).chunk(self.count()),
                _ => return self.other_chunk().map(|chunk| self.bounds.inclusive_values(&chunk)),
            }
        };
        if chunk.is_none() {
            self.finish();
        }
        Some(self.bounds.inclusive_values(&chunk?))
    }

    /// Returns the thread's block of a loop with `schedule(static)`; `None` if the loop does not change. Only blocks by weights change it: the same
    /// ones for each loop of as many iterations, because a program may rely on that.
    pub fn block(&mut self, trips: u64) -> Option<Range<u64>> {
        let Options { all, wanted: Wanted::Schedule(schedule), inputs } = self.options else { return None };
        let weights = inputs.weights.as_ref().filter(|weights| weights.len() == self.threads as usize)?;
        if !all || schedule.kind != Kind::Static || schedule.chunk.is_some() {
            return None;
        }
        if self.blocks.as_ref().is_none_or(|(of, _)| *of != trips) {
            self.blocks = Some((trips, Blocks::weighted(trips, weights)));
        }
        self.blocks.as_ref().map(|(_, blocks)| blocks.of(self.thread as usize))
    }

    /// Adds 1 to the counter, and returns its old value.
    ///
    /// # Safety
    /// As for `next`.
    #[inline]
    unsafe fn count(&self) -> u64 {
        // SAFETY: guaranteed by the caller.
        let counter = unsafe { &*self.counter };
        if self.threads == 1 {
            // Nobody else uses it, so no locked instruction is needed.
            let count = counter.load(Ordering::Relaxed);
            counter.store(count + 1, Ordering::Relaxed);
            return count;
        }
        // Relaxed: the counter orders nothing but itself. What iterations write is ordered by the barriers of the runtime.
        counter.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that the thread has no more chunks of this instance.
    #[inline(never)]
    fn finish(&mut self) {
        self.source = Source::Ended;
        let (request, requests) = self.request;
        let at = clock::now();
        let waited_ns = self.waited_ns.and_then(|before| Some(before + delays::since_last()?));
        let part = Part { at, chunks: self.chunks, request, requests, waited_ns };
        // SAFETY: the thread stands at the slot.
        unsafe { (*self.at).content.finish(self.thread as usize, part) };
    }

    /// Returns the next chunk of the schedules whose requests take longer, and of timed instances.
    #[inline(never)]
    unsafe fn other_chunk(&mut self) -> Option<Range<u64>> {
        let chunk = if matches!(self.source, Source::Timed) {
            let asked = clock::now();
            // SAFETY: guaranteed by the caller.
            let chunk = unsafe { self.chunk_of(self.timed) };
            let (ticks, requests) = self.request;
            self.request = (ticks + clock::now().wrapping_sub(asked), requests + 1);
            chunk
        } else {
            // SAFETY: guaranteed by the caller.
            unsafe { self.chunk_of(self.source) }
        };
        match chunk {
            Some(_) => self.chunks += 1,
            None if !matches!(self.source, Source::Ended) => self.finish(),
            None => {}
        }
        chunk
    }

    /// Returns the next chunk of a source.
    ///
    /// # Safety
    /// As for `next`.
    unsafe fn chunk_of(&mut self, source: Source) -> Option<Range<u64>> {
        let thread = self.thread as usize;
        // SAFETY: the plan and the words of the instance live until the thread leaves the slot.
        unsafe {
            match source {
                Source::Fixed(fixed) => fixed.chunk(self.count()),
                Source::Table(table) => (*table).chunk(self.count()),
                Source::Static(plan) => {
                    self.taken += 1;
                    match &*plan {
                        Plan::Cyclic(cyclic) => cyclic.chunk(thread, self.taken - 1),
                        Plan::Blocks(blocks) => {
                            Some(blocks.of(thread)).filter(|block| self.taken == 1 && !block.is_empty())
                        }
                        _ => None,
                    }
                }
                Source::Hybrid(hybrid) => {
                    self.taken += 1;
                    let block = Some((*hybrid).block(thread)).filter(|block| self.taken == 1 && !block.is_empty());
                    block.or_else(|| (*hybrid).chunk(self.count()))
                }
                // gcc's code takes the values of `lastprivate` variables from the thread whose last chunk ends where the loop ends. So a thread
                // that has executed the end of the loop executes no other chunk after it.
                Source::Steal(_) if self.taken != 0 => None,
                Source::Steal(steal) => {
                    let chunk = self.steal(&steal);
                    self.taken = chunk.as_ref().is_some_and(|chunk| chunk.end == self.bounds.trips).into();
                    chunk
                }
                Source::Adaptive(adaptive) => {
                    let counter = &*self.counter;
                    self.measure.next(&*adaptive, counter, thread)
                }
                _ => None,
            }
        }
    }

    /// Takes a chunk of the thread's own lane, or steals. The protocol is that of [`loops::steal`].
    ///
    /// # Safety
    /// As for `next`.
    unsafe fn steal(&mut self, steal: &Steal) -> Option<Range<u64>> {
        // Relaxed: a lane's word is its whole state, and orders nothing else.
        const ORDER: Ordering = Ordering::Relaxed;
        let thread = self.thread as usize;
        // SAFETY: the thread stands at the slot.
        let lanes = unsafe { (*self.at).content.lanes() };
        let own = &lanes.get(thread)?.0;
        let mut word = own.load(ORDER);
        loop {
            while let Some((chunk, rest)) = Lane::from_word(word).take() {
                match own.compare_exchange_weak(word, rest.word(), ORDER, ORDER) {
                    Ok(_) => return steal.iterations(chunk),
                    Err(newer) => word = newer,
                }
            }
            let stolen = steal.victims(thread).find_map(|victim| rob(&lanes.get(victim)?.0))?;
            // Takes the first chunk at once, so that a thread which has stolen executes something before others can steal it all.
            let (chunk, rest) = stolen.take()?;
            own.store(rest.word(), ORDER);
            word = rest.word();
            if let Some(iterations) = steal.iterations(chunk) {
                return Some(iterations);
            }
        }
    }
}

/// Returns how long the thread has waited for a CPU since the instance began. It may have waited before that as well, so it is no longer than the thread
/// is late.
#[cold]
fn waited_before(began: u64) -> Option<u64> {
    let late_ns = (clock::now().wrapping_sub(began) as i64).max(0) as f64 * clock::ns_per_tick();
    delays::since_last().map(|ns| ns.min(late_ns as u64))
}

/// Steals from a lane; `None` if it is empty.
fn rob(lane: &AtomicU64) -> Option<Lane> {
    let mut word = lane.load(Ordering::Relaxed);
    loop {
        let (rest, stolen) = Lane::from_word(word).steal()?;
        match lane.compare_exchange_weak(word, rest.word(), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some(stolen),
            Err(newer) => word = newer,
        }
    }
}
