//! What the threads of an instance share: its plan, a counter, and what each thread has published.
//!
//! The opening thread has exclusive access to all of it (see [`crate::chain`]), and then nobody writes the plan. Words that threads change while
//! others ask are on cache lines of their own.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loops::Plan;

use crate::options::Options;
use crate::plans::{Key, Plans, Prepared};
use crate::published::{Published, SMALL, Shared};

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
    /// What all threads change.
    shared: Shared,
}

impl Instance {
    /// Prepares the slot for an instance.
    ///
    /// # Safety
    /// Only the thread that opens the instance calls this, while no other thread has the slot. `plans` is its team's.
    #[inline]
    pub unsafe fn open(&self, options: &Options, key: Key, plans: *mut Plans) {
        // SAFETY: the caller is the only one with access to the slot.
        let plan = unsafe { &mut *self.plan.get() };
        if plan.as_ref().is_none_or(|prepared| prepared.key != key) {
            // SAFETY: only the opening thread uses the table.
            *plan = Some(Arc::clone(unsafe { &mut *plans }.get(options, key)));
        }
        self.shared.counter.store(0, Ordering::Relaxed);
        if let Some(prepared) = plan {
            prepared.count(options);
            // SAFETY: as above.
            unsafe { self.open_words(prepared) };
        }
    }

    /// Prepares the words that each thread has of its own.
    ///
    /// # Safety
    /// As for `open`.
    #[inline]
    unsafe fn open_words(&self, prepared: &Prepared) {
        let threads = prepared.key.threads as usize;
        match &prepared.plan {
            Plan::Adaptive(_) if threads <= SMALL => self.shared.forget(threads),
            Plan::Adaptive(_) => {
                // SAFETY: the caller is the only one with access to the slot.
                let (number, published) = unsafe { (&mut *self.number.get(), &mut *self.published.get()) };
                *number += 1;
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
