//! The values of the control variables of tasks, regions and threads, and how tasks share them.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A task's control variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// Number of threads of a region without a `num_threads` clause.
    pub threads: c_int,
    /// Nonzero if the runtime may choose fewer threads.
    pub dynamic: c_int,
    /// Largest number of nested active regions.
    pub levels: c_int,
    /// Kind and chunk size of loops with `schedule(runtime)`.
    pub schedule: (c_int, c_int),
    /// The default device.
    pub device: c_int,
    /// The default allocator. It belongs to the thread, not to the task.
    pub allocator: usize,
}

static EVER_SET: AtomicBool = AtomicBool::new(false);
static TASKS_DIFFER: AtomicBool = AtomicBool::new(false);

/// Notes that the program is about to set a control variable: from now on regions may have other values than the process began with.
#[inline]
pub fn will_be_set() {
    if !is_ever_set() {
        EVER_SET.store(true, Ordering::Relaxed);
    }
}

/// Returns whether a region may have other values than the process began with.
#[inline]
pub(crate) fn is_ever_set() -> bool {
    EVER_SET.load(Ordering::Relaxed)
}

/// Returns whether a task may have other values than its region began with. A thread that has such a task reads true: the flag is stored
/// before the first such task is published.
#[inline]
pub(crate) fn do_tasks_differ() -> bool {
    TASKS_DIFFER.load(Ordering::Relaxed)
}

/// Notes that tasks will have different values. Must be called before the first such task is published.
pub(crate) fn tasks_will_differ() {
    TASKS_DIFFER.store(true, Ordering::Relaxed);
}

/// The values of a task's control variables, with a reference count.
pub(crate) struct Kept {
    pub users: AtomicU32,
    pub values: Values,
}

/// A counted reference to values. Null stands for the region's values.
pub(crate) struct Pointer(pub Cell<*const Kept>);

impl Pointer {
    pub const fn null() -> Pointer {
        Pointer(Cell::new(ptr::null()))
    }

    pub fn is_null(&self) -> bool {
        self.0.get().is_null()
    }

    pub fn get(&self) -> Option<Values> {
        // SAFETY: null, or values that are not freed, because this pointer is counted as a reference.
        unsafe { self.0.get().as_ref() }.map(|kept| kept.values)
    }

    pub fn set(&self, values: Values) {
        self.clear();
        self.0.set(Box::into_raw(Box::new(Kept { users: AtomicU32::new(1), values })));
    }

    pub fn share(&self, other: &Pointer) {
        self.clear();
        // SAFETY: null, or values that are not freed, because `other` is counted as a reference.
        if let Some(kept) = unsafe { other.0.get().as_ref() } {
            kept.users.fetch_add(1, Ordering::Relaxed);
            self.0.set(kept);
        }
    }

    pub fn clear(&self) {
        release(self.0.replace(ptr::null()));
    }

    pub fn points_as(&self, other: Option<&Pointer>) -> bool {
        self.0.get() == other.map_or(ptr::null(), |other| other.0.get())
    }
}

/// Drops one reference.
pub(crate) fn release(kept: *const Kept) {
    // SAFETY: the caller had a reference until now.
    if let Some(this) = unsafe { kept.as_ref() }
        && this.users.fetch_sub(1, Ordering::AcqRel) == 1
    {
        // SAFETY: made by `Pointer::set`, and this was the last user.
        drop(unsafe { Box::from_raw(kept.cast_mut()) });
    }
}

/// The values with which a team's region began, and the runtime that they belong to.
pub(crate) struct OfRegion {
    pub runtime: AtomicPtr<c_void>,
    /// Null: the values with which the process began. Any thread may compare this pointer; only a holder of [`LOCK`] may follow it.
    pub kept: AtomicPtr<Kept>,
}

/// Held by a thread that replaces a region's values, or takes a reference to them.
static LOCK: Mutex<()> = Mutex::new(());

/// Takes the lock on the values of regions.
pub(crate) fn hold() -> MutexGuard<'static, ()> {
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OfRegion {
    pub const fn new() -> OfRegion {
        OfRegion { runtime: AtomicPtr::new(ptr::null_mut()), kept: AtomicPtr::new(ptr::null_mut()) }
    }
}

/// Values of control variables that a worker keeps.
pub(crate) struct OfWorker {
    /// The values of tasks whose own pointer is null. Null: this thread has not written to the runtime since the region began, so the
    /// runtime still has these values.
    pub base: Pointer,
    /// The `base` that this thread has as a helper. It is swapped with `base` when the thread begins to help a team, and when it stops.
    pub as_helper: Pointer,
    /// The runtime's values on this thread before this thread, as a helper, wrote a team's values for the first time.
    pub first: Cell<Option<Values>>,
}

impl OfWorker {
    pub const fn new() -> OfWorker {
        OfWorker { base: Pointer::null(), as_helper: Pointer::null(), first: Cell::new(None) }
    }
}

impl Drop for OfWorker {
    fn drop(&mut self) {
        self.base.clear();
        self.as_helper.clear();
    }
}

/// The `base` that `put_icvs_aside` has saved.
#[derive(Clone, Copy)]
pub(crate) struct Aside(pub *const Kept);
