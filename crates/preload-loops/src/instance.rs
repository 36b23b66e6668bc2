//! What the threads of an instance share: its plan, a counter, and what each thread has published.
//!
//! The opening thread has exclusive access to all of it (see [`crate::chain`]), and then nobody writes the plan. Words that threads change while
//! others ask are on cache lines of their own.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loops::Plan;

use crate::bounds::Bounds;
use crate::clause::Clause;
use crate::clock;
use crate::finished::{Finished, Part};
use crate::known::{Ended, KnownLoop, Measured};
use crate::opener::Opener;
use crate::plans::{Key, Prepared};
use crate::published::{Published, SMALL, Shared};
use loops::options::Options;

/// A word in a pair of cache lines of its own: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Line(pub AtomicU64);

/// The content of a slot.
#[derive(Default)]
#[repr(C)]
pub struct Instance {
    plan: UnsafeCell<Option<Arc<Prepared>>>,
    /// Number of the slot's instance, which tells published values of earlier instances from those of this one.
    number: UnsafeCell<u64>,
    /// One for each thread, if the plan has ever been adaptive and the team is not small.
    published: UnsafeCell<Box<[Published]>>,
    /// One for each thread, if the plan has ever been one of stealing.
    lanes: UnsafeCell<Box<[Line]>>,
    /// The loop; null if its last instance has been added to its sums.
    known: UnsafeCell<Known>,
    /// One for each thread.
    finished: UnsafeCell<Box<[Finished]>>,
    /// What all threads change.
    shared: Shared,
}

/// The loop of a slot.
struct Known {
    at: *mut KnownLoop,
    is_open: bool,
    /// When the first thread arrived, ticks, if times are measured.
    began: u64,
    /// What is measured in it.
    measured: Measured,
}

impl Default for Known {
    fn default() -> Known {
        Known { at: ptr::null_mut(), is_open: false, began: 0, measured: Measured::default() }
    }
}

impl Instance {
    /// Prepares the slot for an instance.
    ///
    /// # Safety
    /// Only the thread that opens the instance calls this, while no other thread has the slot. `opener` is its team's.
    #[inline]
    pub unsafe fn open(&self, opener: &Opener, options: &Options, bounds: &Bounds, threads: u32, clause: &Clause) {
        // SAFETY: the caller is the only one with access to the slot, and to the loop, which is one of this team.
        let same = unsafe { (*self.known.get()).at.as_ref() }.filter(|one| one.is(clause, threads));
        let (is_same, will_be_timed) = (same.is_some(), same.is_none_or(KnownLoop::will_be_timed));
        let began = if will_be_timed { clock::now() } else { 0 };
        // SAFETY: guaranteed by the caller.
        unsafe { self.close() };
        // SAFETY: the caller is the only one with access to the slot.
        let (known, plan) = unsafe { (&mut *self.known.get(), &mut *self.plan.get()) };
        if !is_same {
            // SAFETY: this is the opening thread.
            known.at = unsafe { opener.known(options, clause, threads) };
        }
        // SAFETY: as above.
        let (rule, measured) = unsafe { &mut *known.at }.open(options, clause);
        let Clause { monotonic, chunk, place, .. } = *clause;
        let key = Key { trips: bounds.trips, threads, monotonic, chunk, place, rule };
        if plan.as_ref().is_none_or(|prepared| prepared.key != key) {
            // SAFETY: only the opening thread uses the table.
            *plan = Some(Arc::clone(unsafe { &mut *opener.plans.get() }.get(options, key)));
        }
        let began = if measured.times && !will_be_timed { clock::now() } else { began };
        (known.is_open, known.began, known.measured) = (true, began, measured);
        self.shared.counter.store(0, Ordering::Relaxed);
        if let Some(prepared) = plan {
            prepared.count();
            // SAFETY: as above.
            unsafe { self.open_words(prepared) };
        }
    }

    /// Adds the slot's instance to its loop's sums, unless this has been done.
    ///
    /// # Safety
    /// Only the thread that opens the slot's next instance calls this, or the one that ends the region.
    pub unsafe fn close(&self) {
        // SAFETY: the caller is the only one with access to the slot.
        let (known, plan) = unsafe { (&mut *self.known.get(), &*self.plan.get()) };
        let Some(prepared) = plan.as_ref().filter(|_| std::mem::take(&mut known.is_open)) else { return };
        // SAFETY: as above.
        let (number, finished) = unsafe { (*self.number.get(), &*self.finished.get()) };
        let finished = finished.get(..prepared.key.threads as usize).unwrap_or_default();
        let (began, measured) = (known.began, known.measured);
        let counter = self.shared.counter.load(Ordering::Relaxed);
        let ended = Ended { prepared, began, measured, counter, number, finished };
        // SAFETY: a loop of this team, which only the opening thread uses.
        unsafe { &mut *known.at }.close(&ended);
    }

    /// Prepares the words that each thread has of its own.
    ///
    /// # Safety
    /// As for `open`.
    #[inline]
    unsafe fn open_words(&self, prepared: &Prepared) {
        let threads = prepared.key.threads as usize;
        // SAFETY: the caller is the only one with access to the slot.
        let (number, finished) = unsafe { (&mut *self.number.get(), &mut *self.finished.get()) };
        *number += 1;
        if finished.len() < threads {
            *finished = (0..threads).map(|_| Finished::default()).collect();
        }
        match &prepared.plan {
            Plan::Adaptive(_) if threads <= SMALL => self.shared.forget(threads),
            Plan::Adaptive(_) => {
                // SAFETY: as above.
                let published = unsafe { &mut *self.published.get() };
                if published.len() < threads {
                    *published = (0..threads).map(|_| Published::default()).collect();
                }
            }
            Plan::Steal(steal) => {
                // SAFETY: as above.
                let lanes = unsafe { &mut *self.lanes.get() };
                if lanes.len() < threads {
                    *lanes = (0..threads).map(|_| Line::default()).collect();
                }
                for (thread, lane) in lanes.iter().enumerate().take(threads) {
                    lane.0.store(steal.lane(thread).word(), Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }

    /// Returns the plan; null before the first instance.
    ///
    /// # Safety
    /// The calling thread stands at the slot. The plan lives until it leaves.
    #[inline]
    pub unsafe fn plan(&self) -> *const Prepared {
        // SAFETY: nobody changes the plan while a thread stands at the slot.
        unsafe { &*self.plan.get() }.as_ref().map_or(ptr::null(), Arc::as_ptr)
    }

    /// Returns the shared counter.
    #[inline]
    pub fn counter(&self) -> &AtomicU64 {
        &self.shared.counter
    }

    /// Returns the counter and what the threads of a small team have published.
    #[inline]
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the number of the slot's instance.
    ///
    /// # Safety
    /// The calling thread stands at the slot.
    #[inline]
    pub unsafe fn number(&self) -> u64 {
        // SAFETY: nobody changes it while a thread stands at the slot.
        unsafe { *self.number.get() }
    }

    /// Stores what a thread has done in the instance.
    ///
    /// # Safety
    /// The calling thread stands at the slot, and its number in the team is `thread`.
    #[inline]
    pub unsafe fn finish(&self, thread: usize, part: Part) {
        // SAFETY: nobody replaces the lines while a thread stands at the slot.
        let (number, finished) = unsafe { (*self.number.get(), &*self.finished.get()) };
        if let Some(line) = finished.get(thread) {
            line.set(number, part);
        }
    }

    /// Returns what is measured, and when the first thread arrived, ticks, if times are measured.
    ///
    /// # Safety
    /// The calling thread stands at the slot.
    #[inline]
    pub unsafe fn measured(&self) -> (Measured, u64) {
        // SAFETY: nobody changes it while a thread stands at the slot.
        let known = unsafe { &*self.known.get() };
        (known.measured, known.began)
    }

    /// Returns what each thread of a larger team has published; nothing for a small team.
    ///
    /// # Safety
    /// The calling thread stands at the slot, and keeps the result no longer than that.
    #[inline]
    pub unsafe fn published<'a>(&self, threads: u32) -> &'a [Published] {
        if threads as usize <= SMALL {
            return &[];
        }
        // SAFETY: nobody replaces it while a thread stands at the slot.
        unsafe { &*self.published.get() }
    }

    /// Returns the chunks that are left to each thread.
    ///
    /// # Safety
    /// As for `published`.
    #[inline]
    pub unsafe fn lanes<'a>(&self) -> &'a [Line] {
        // SAFETY: nobody replaces them while a thread stands at the slot.
        unsafe { &*self.lanes.get() }
    }
}
