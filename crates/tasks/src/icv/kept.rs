//! Values of control variables: of tasks, who share them, of regions and of threads.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// Threads of a region that asks for no number.
    pub threads: c_int,
    /// Whether the runtime may take fewer.
    pub dynamic: c_int,
    /// Active regions within each other.
    pub levels: c_int,
    /// Kind and chunk size of loops with `schedule(runtime)`.
    pub schedule: (c_int, c_int),
    /// The default device.
    pub device: c_int,
    /// The default allocator. The thread's, not the task's.
    pub allocator: usize,
}

static EVER_SET: AtomicBool = AtomicBool::new(false);
static TASKS_DIFFER: AtomicBool = AtomicBool::new(false);

/// Some regions have other values than the process has begun with, or soon will: the program is about to set one.
#[inline]
pub fn will_be_set() {
    if !is_ever_set() {
        EVER_SET.store(true, Ordering::Relaxed);
    }
}

/// Whether any region may have other values than the process has begun with.
#[inline]
pub(crate) fn is_ever_set() -> bool {
    EVER_SET.load(Ordering::Relaxed)
}

/// Whether any task may have other values than its region has begun with. A thread that has such a task reads true: the flag is stored before
/// the first such task is published.
#[inline]
pub(crate) fn do_tasks_differ() -> bool {
    TASKS_DIFFER.load(Ordering::Relaxed)
}

/// Tasks will differ: before the first that does is published.
pub(crate) fn tasks_will_differ() {
    TASKS_DIFFER.store(true, Ordering::Relaxed);
}

/// Values and the number of those who point to them.
pub(crate) struct Kept {
    pub users: AtomicU32,
    pub values: Values,
}

/// A pointer to values that counts as a user of them; null: those of the region.
pub(crate) struct Pointer(pub Cell<*const Kept>);

impl Pointer {
    pub const fn null() -> Pointer {
        Pointer(Cell::new(ptr::null()))
    }

    pub fn is_null(&self) -> bool {
        self.0.get().is_null()
    }

    pub fn get(&self) -> Option<Values> {
        // SAFETY: counted as long as it is here.
        unsafe { self.0.get().as_ref() }.map(|kept| kept.values)
    }

    pub fn set(&self, values: Values) {
        self.clear();
        self.0.set(Box::into_raw(Box::new(Kept { users: AtomicU32::new(1), values })));
    }

    pub fn share(&self, other: &Pointer) {
        self.clear();
        // SAFETY: as in `get`.
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

/// One user less.
pub(crate) fn release(kept: *const Kept) {
    // SAFETY: the caller was a user until now.
    if let Some(this) = unsafe { kept.as_ref() }
        && this.users.fetch_sub(1, Ordering::AcqRel) == 1
    {
        // SAFETY: made by `Pointer::set`, and this was the last user.
        drop(unsafe { Box::from_raw(kept.cast_mut()) });
    }
}

/// Values that a team's region has begun with, and the runtime they are of.
pub(crate) struct OfRegion {
    pub runtime: AtomicPtr<c_void>,
    /// Null: what the process has begun with. Compared by anybody, followed only by who holds [`LOCK`].
    pub kept: AtomicPtr<Kept>,
}

/// Held by who replaces a region's values, and by who begins to use them.
static LOCK: Mutex<()> = Mutex::new(());

/// The lock on values of regions.
pub(crate) fn hold() -> MutexGuard<'static, ()> {
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OfRegion {
    pub const fn new() -> OfRegion {
        OfRegion { runtime: AtomicPtr::new(ptr::null_mut()), kept: AtomicPtr::new(ptr::null_mut()) }
    }
}

/// What a worker keeps.
pub(crate) struct OfWorker {
    /// What the runtime has where the present task points to nothing. Null: it has not been written to since.
    pub base: Pointer,
    /// The same while this thread is no guest: `base` is elsewhere meanwhile.
    pub as_guest: Pointer,
    /// What a guest's runtime has begun with.
    pub first: Cell<Option<Values>>,
}

impl OfWorker {
    pub const fn new() -> OfWorker {
        OfWorker { base: Pointer::null(), as_guest: Pointer::null(), first: Cell::new(None) }
    }
}

impl Drop for OfWorker {
    fn drop(&mut self) {
        self.base.clear();
        self.as_guest.clear();
    }
}

/// Where a thread has put its base aside.
#[derive(Clone, Copy)]
pub(crate) struct Aside(pub *const Kept);
