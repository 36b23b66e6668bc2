//! The values of the control variables of tasks, regions and threads, and how tasks share them.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// Records that the program is about to set a control variable: from now on regions may have other control variables than the process began
/// with.
#[inline]
pub fn will_be_set() {
    if !is_ever_set() {
        EVER_SET.store(true, Ordering::Relaxed);
    }
}

/// Returns whether a region may have other control variables than the process began with.
#[inline]
pub(crate) fn is_ever_set() -> bool {
    EVER_SET.load(Ordering::Relaxed)
}

/// Returns whether a task may have other control variables than its region began with. A thread that has such a task reads true: the flag
/// is stored before the first such task is published.
#[inline]
pub(crate) fn do_tasks_differ() -> bool {
    TASKS_DIFFER.load(Ordering::Relaxed)
}

/// Records that tasks of one region will have different control variables. Must be called before the first such task is published.
pub(crate) fn tasks_will_differ() {
    TASKS_DIFFER.store(true, Ordering::Relaxed);
}

/// A counted reference to the values of a task's control variables, from [`Arc::into_raw`]. Null stands for the region's values.
pub(crate) struct Pointer(pub Cell<*const Values>);

impl Pointer {
    pub fn is_null(&self) -> bool {
        self.0.get().is_null()
    }

    pub fn get(&self) -> Option<Values> {
        // SAFETY: the pointer is null, or points to values that are not freed, because it is counted as a reference.
        unsafe { self.0.get().as_ref() }.copied()
    }

    pub fn set(&self, values: Values) {
        release(self.0.replace(keep(values)));
    }

    pub fn share(&self, other: &Pointer) {
        release(self.0.replace(retain(other.0.get())));
    }

    pub fn clear(&self) {
        release(self.0.replace(ptr::null()));
    }
}

impl Default for Pointer {
    fn default() -> Pointer {
        Pointer(Cell::new(ptr::null()))
    }
}

/// Moves the values of control variables to the heap. Returns a counted reference, the only one so far.
pub(crate) fn keep(values: Values) -> *const Values {
    Arc::into_raw(Arc::new(values))
}

/// Adds a reference. Returns its argument, which may be null.
pub(crate) fn retain(values: *const Values) -> *const Values {
    if !values.is_null() {
        // SAFETY: `keep` has made the pointer. The values are alive: the caller has a reference to them; or a region has one, and the caller
        // holds the lock on the regions' values.
        unsafe { Arc::increment_strong_count(values) };
    }
    values
}

/// Drops one reference, unless `values` is null.
pub(crate) fn release(values: *const Values) {
    if !values.is_null() {
        // SAFETY: `keep` has made the pointer, and the caller gives up its reference here.
        drop(unsafe { Arc::from_raw(values) });
    }
}

/// The values with which a team's region began, and the runtime that they belong to.
#[derive(Default)]
pub(crate) struct OfRegion {
    pub runtime: AtomicPtr<c_void>,
    /// Null: the values with which the process began. Any thread may compare this pointer; only a holder of [`LOCK`] may follow it.
    pub kept: AtomicPtr<Values>,
}

/// Held by a thread that replaces a region's values, or takes a reference to them.
static LOCK: Mutex<()> = Mutex::new(());

/// Takes the lock on the values of regions.
pub(crate) fn hold() -> MutexGuard<'static, ()> {
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Values of control variables that a worker keeps.
#[derive(Default)]
pub(crate) struct OfWorker {
    /// The control variables of tasks that have no values of their own (the task's pointer is null). If `base` is null, this thread has not
    /// written to the runtime since the region began, so the runtime still has these values.
    pub base: Pointer,
    /// While this thread is not a helper: the value that `base` gets when the thread becomes one. `base` and this field are swapped when
    /// the thread begins to help a team, and swapped back when it stops.
    pub as_helper: Pointer,
    /// The values that the runtime had on this thread before the thread, as a helper, replaced them by a team's values for the first time.
    pub first: Cell<Option<Values>>,
}

impl Drop for OfWorker {
    fn drop(&mut self) {
        self.base.clear();
        self.as_helper.clear();
    }
}
