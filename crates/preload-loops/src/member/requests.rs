//! A member's requests: its next chunk from each kind of plan, and the end of its part of an instance.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use loops::Plan;
use loops::steal::{Lane, Steal};

use super::{Member, Source};
use crate::bounds::Inclusive;
use crate::finished::Part;
use crate::{clock, delays};

impl Member {
    /// Returns whether the chunks of the current loop have one size: [`Member::next_fixed`] may be called.
    #[inline]
    pub fn is_fixed(&self) -> bool {
        !self.fixed.is_null()
    }

    /// Returns whether the chunks of the current loop are in a table: [`Member::next_in_table`] may be called.
    #[inline]
    pub fn is_in_table(&self) -> bool {
        matches!(self.source, Source::Table(_))
    }

    /// Stores the values at which the next chunk starts and ends. Returns false if the loop has ended.
    ///
    /// # Safety
    /// The thread is in a loop that it has begun, and the pointers are valid for writing.
    #[inline]
    pub unsafe fn next(&mut self, from: *mut u64, to: *mut u64) -> bool {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.source {
                Source::Fixed(_) => self.next_fixed(from, to),
                Source::Table(_) => self.next_in_table(from, to),
                _ => self.next_of_others(from, to),
            }
        }
    }

    /// Does what [`Member::next`] does if the chunks have one size. All but the last chunk are found here, without a call and without a branch that
    /// could panic, so that no register has to be saved.
    ///
    /// # Safety
    /// As for `next`, and [`Member::is_fixed`] is true.
    #[inline(always)]
    pub unsafe fn next_fixed(&mut self, from: *mut u64, to: *mut u64) -> bool {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let k = count(self.fixed);
            if k >= self.full {
                return self.last_numbered(k, from, to);
            }
            let start = self.bounds.value(0).wrapping_add(k.wrapping_mul(self.stride));
            (*from, *to) = (start, start.wrapping_add(self.stride));
        }
        true
    }

    /// Does what [`Member::next`] does if the chunks are in a table. All chunks with entries are found here, as in [`Member::next_fixed`].
    ///
    /// # Safety
    /// As for `next`, and [`Member::is_in_table`] is true.
    #[inline(always)]
    pub unsafe fn next_in_table(&mut self, from: *mut u64, to: *mut u64) -> bool {
        // SAFETY: guaranteed by the caller. A table has an entry behind that of each chunk below `full`. It lives until the thread leaves the slot.
        unsafe {
            let k = count(self.counter);
            if k >= self.full {
                return self.last_numbered(k, from, to);
            }
            let (start, end) = (*self.cuts.add(k as usize), *self.cuts.add(k as usize + 1));
            (*from, *to) = self.bounds.values(&(start..end));
        }
        true
    }

    /// Stores the values of chunk `k`, which is one of the last or none.
    #[inline(never)]
    unsafe fn last_numbered(&mut self, k: u64, from: *mut u64, to: *mut u64) -> bool {
        let chunk = match self.source {
            Source::Fixed(fixed) => fixed.chunk(k),
            // SAFETY: the plan lives until the thread leaves the slot.
            Source::Table(table) => unsafe { (*table).chunk(k) },
            _ => None,
        };
        let Some(chunk) = chunk else {
            self.finish();
            return false;
        };
        // SAFETY: guaranteed by the caller.
        unsafe { (*from, *to) = self.bounds.values(&chunk) };
        true
    }

    /// Does what [`Member::next`] does if the chunks have no numbers.
    ///
    /// # Safety
    /// As for `next`.
    #[inline(never)]
    pub unsafe fn next_of_others(&mut self, from: *mut u64, to: *mut u64) -> bool {
        // SAFETY: guaranteed by the caller.
        let Some(chunk) = (unsafe { self.unnumbered() }) else { return false };
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
                Source::Fixed(fixed) => fixed.chunk(count(self.counter)),
                Source::Table(table) => (*table).chunk(count(self.counter)),
                _ => return self.unnumbered().map(|chunk| self.bounds.inclusive_values(&chunk)),
            }
        };
        if chunk.is_none() {
            self.finish();
        }
        Some(self.bounds.inclusive_values(&chunk?))
    }

    /// Returns the next chunk of a loop whose chunks have no numbers.
    ///
    /// # Safety
    /// As for `next`.
    #[inline]
    unsafe fn unnumbered(&mut self) -> Option<Range<u64>> {
        // SAFETY: the plan and the words of the instance live until the thread leaves the slot.
        unsafe {
            match self.source {
                Source::Adaptive(adaptive) => {
                    let chunk = self.measure.next(&*adaptive, &*self.counter, self.thread as usize);
                    self.counted(chunk)
                }
                _ => self.other_chunk(),
            }
        }
    }

    /// Notes that the thread has no more chunks of this instance.
    #[inline(never)]
    fn finish(&mut self) {
        self.fixed = std::ptr::null();
        self.source = Source::Ended;
        let (request, requests) = self.request;
        let at = if self.is_timed { clock::now() } else { 0 };
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
        self.counted(chunk)
    }

    /// Counts a chunk; if there is none any more, the thread has finished.
    #[inline]
    fn counted(&mut self, chunk: Option<Range<u64>>) -> Option<Range<u64>> {
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
                Source::Fixed(fixed) => fixed.chunk(count(self.counter)),
                Source::Table(table) => (*table).chunk(count(self.counter)),
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
                    // The thread has its block now. All later chunks are those of a table.
                    let rest = self.table((*hybrid).rest());
                    let is_timed = matches!(self.source, Source::Timed);
                    *(if is_timed { &mut self.timed } else { &mut self.source }) = rest;
                    let block = Some((*hybrid).block(thread)).filter(|block| !block.is_empty());
                    block.or_else(|| (*hybrid).chunk(count(self.counter)))
                }
                // gcc's code takes the values of `lastprivate` variables from the thread whose last chunk ends where the loop ends. So a thread
                // that has executed the end of the loop executes no other chunk after it.
                Source::Steal(_) if self.taken != 0 => None,
                Source::Steal(steal) => {
                    let chunk = self.steal(&steal);
                    self.taken = chunk.as_ref().is_some_and(|chunk| chunk.end == self.bounds.trips).into();
                    chunk
                }
                Source::Adaptive(adaptive) => self.measure.next(&*adaptive, &*self.counter, thread),
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

/// Adds 1 to a counter, and returns its old value. A branch that avoids the locked instruction in a team of one thread would take longer than it.
///
/// # Safety
/// The counter is the one of an instance at whose slot the calling thread stands.
#[inline(always)]
unsafe fn count(counter: *const AtomicU64) -> u64 {
    // Relaxed: the counter orders nothing but itself. What iterations write is ordered by the barriers of the runtime.
    // SAFETY: guaranteed by the caller.
    unsafe { &*counter }.fetch_add(1, Ordering::Relaxed)
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
