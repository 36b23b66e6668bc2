//! Internal control variables (ICVs): values such as the number of threads of the next region, which OpenMP gives each task for itself.
//!
//! The runtime that makes the teams (libgomp) keeps them for each implicit task, and knows no task of ours. So where a thread passes from one
//! task to another whose values differ, it writes them into the runtime's implicit task: questions, regions and loops inside of the task find
//! them there.
//!
//! 1. A task points to its values (`Kept`, counted). Null stands for those that its region has begun with. A new task takes its creator's pointer.
//! 2. A program that sets a variable sets the runtime's. The task then keeps what the runtime says ([`Worker::set_icvs`]).
//! 3. A thread compares two pointers when a task begins on it, and two when the task has ended, and writes if they are not equal.
//! 4. A *member* of a team finds in the runtime what the region has begun with, and keeps a copy before it first writes (`base`). A *guest*, of
//!    which the runtime knows no region, needs the copy that the region's first task has left in the team (`Team::begins_with`).
//! 5. The default allocator is the thread's and not the task's (OpenMP 5.1, table 2.1: "implicit task"). A thread takes it along from task to
//!    task. A guest, which stands for no thread in particular, has the creator's in each task that it takes from a queue.
//!
//! As long as the program sets none (`is_ever_set`) nothing of this is done. Most programs that set one do so before their regions: then all tasks
//! of a region have the same values (`do_tasks_differ`), members find them in the runtime, and only guests have to be told.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::task::Task;
use crate::team::Team;
use crate::worker::Worker;

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

/// Access to the present values of the calling thread in a runtime, which is named as in [`Team::made_by`].
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// Reads them.
    pub read: fn(*mut c_void) -> Values,
    /// Replaces them.
    pub write: fn(*mut c_void, &Values),
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
static EVER_SET: AtomicBool = AtomicBool::new(false);
static TASKS_DIFFER: AtomicBool = AtomicBool::new(false);

/// The calling thread finds its values by these functions.
pub fn begin(runtime: Runtime) {
    let _ = RUNTIME.set(runtime);
}

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

/// Values and the number of those who point to them.
pub(crate) struct Kept {
    users: AtomicU32,
    values: Values,
}

/// A pointer to values that counts as a user of them; null: those of the region.
pub(crate) struct Pointer(Cell<*const Kept>);

impl Pointer {
    pub const fn null() -> Pointer {
        Pointer(Cell::new(ptr::null()))
    }

    fn is_null(&self) -> bool {
        self.0.get().is_null()
    }

    fn get(&self) -> Option<Values> {
        // SAFETY: counted as long as it is here.
        unsafe { self.0.get().as_ref() }.map(|kept| kept.values)
    }

    fn set(&self, values: Values) {
        self.clear();
        self.0.set(Box::into_raw(Box::new(Kept { users: AtomicU32::new(1), values })));
    }

    fn share(&self, other: &Pointer) {
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

    fn points_as(&self, other: Option<&Pointer>) -> bool {
        self.0.get() == other.map_or(ptr::null(), |other| other.0.get())
    }
}

/// One user less.
fn release(kept: *const Kept) {
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
    runtime: AtomicPtr<c_void>,
    /// Null: what the process has begun with. Compared by anybody, followed only by who holds [`LOCK`].
    kept: AtomicPtr<Kept>,
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

impl Team {
    /// Says which runtime has made the region.
    pub fn made_by(&self, runtime: *mut c_void) {
        let region = &self.icvs;
        if region.runtime.load(Ordering::Relaxed) != runtime {
            region.runtime.store(runtime, Ordering::Relaxed);
            // Guests compare pointers, and have written those values into another runtime.
            self.begins_with(None);
        }
    }

    /// The region has begun with these values. Before its first task can be found.
    fn begins_with(&self, values: Option<Values>) {
        let _held = hold();
        let region = &self.icvs.kept;
        // SAFETY: the team is a user.
        let before = unsafe { region.load(Ordering::Relaxed).as_ref() }.map(|kept| kept.values);
        if before != values {
            let new = Pointer::null();
            values.into_iter().for_each(|values| new.set(values));
            release(region.swap(new.0.get().cast_mut(), Ordering::Relaxed));
        }
    }
}

/// What a worker keeps.
pub(crate) struct OfWorker {
    /// What the runtime has where the present task points to nothing. Null: it has not been written to since.
    base: Pointer,
    /// The same while this thread is no guest: `base` is elsewhere meanwhile.
    as_guest: Pointer,
    /// What a guest's runtime has begun with.
    first: Cell<Option<Values>>,
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
pub(crate) struct Aside(*const Kept);

impl Worker {
    fn read_icvs(&self) -> Option<Values> {
        let team = self.team()?;
        RUNTIME.get().map(|runtime| (runtime.read)(team.icvs.runtime.load(Ordering::Relaxed)))
    }

    fn write_icvs(&self, values: &Values) {
        if let (Some(team), Some(runtime)) = (self.team(), RUNTIME.get()) {
            (runtime.write)(team.icvs.runtime.load(Ordering::Relaxed), values);
        }
    }

    /// What tasks that point to nothing have here. The present one does, or `base` is kept.
    fn base(&self) -> Option<Values> {
        if self.icvs.base.is_null() {
            self.icvs.base.set(self.read_icvs()?);
        }
        self.icvs.base.get()
    }

    fn values_of(&self, task: Option<&Task>) -> Option<Values> {
        task.and_then(|task| task.icvs.get()).or_else(|| self.base())
    }

    /// Calls what sets a variable of the present task in the runtime.
    pub fn set_icvs(&self, set: impl FnOnce()) {
        let Some(task) = self.current() else { return set() };
        will_be_set();
        let before = self.values_of(Some(task));
        set();
        let now = self.read_icvs();
        if let Some(now) = now
            && before != Some(now)
        {
            TASKS_DIFFER.store(true, Ordering::Relaxed);
            task.icvs.set(now);
        }
    }

    /// A new task has the values of this one, which runs here.
    #[inline]
    pub(crate) fn inherit_icvs(&self, task: &Task, creator: &Task) {
        if do_tasks_differ() {
            task.icvs.share(&creator.icvs);
        }
    }

    /// A task begins to run here, on top of another or of none.
    #[inline]
    pub(crate) fn enter_icvs(&self, task: &Task, around: *const Task) {
        if do_tasks_differ() {
            self.change_to(task, around);
        }
    }

    #[cold]
    fn change_to(&self, task: &Task, around: *const Task) {
        // SAFETY: null, or the task that ran here until now.
        let around = unsafe { around.as_ref() };
        if task.icvs.points_as(around.map(|around| &around.icvs)) {
            return;
        }
        let (Some(before), Some(mut values)) = (self.values_of(around), self.values_of(Some(task))) else { return };
        if around.is_some() && before.allocator != values.allocator {
            values.allocator = before.allocator;
            task.icvs.set(values);
        }
        self.write_icvs(&values);
    }

    /// A task has ended here; the one below, or none, goes on.
    #[inline]
    pub(crate) fn leave_icvs(&self, task: &Task, around: *const Task) {
        if do_tasks_differ() {
            self.change_back(task, around);
        }
    }

    #[cold]
    fn change_back(&self, task: &Task, around: *const Task) {
        // SAFETY: null, or the task that runs here from now on.
        let around = unsafe { around.as_ref() };
        if !task.icvs.points_as(around.map(|around| &around.icvs))
            && let (Some(before), Some(mut values)) = (self.values_of(Some(task)), self.values_of(around))
        {
            if let Some(around) = around
                && before.allocator != values.allocator
            {
                values.allocator = before.allocator;
                around.icvs.set(values);
            }
            self.write_icvs(&values);
        }
        task.icvs.clear();
    }

    /// The present task is about to make the region's first. Before that can be found guests have to know what the region has begun with.
    #[cold]
    pub(crate) fn note_icvs_of_region(&self, team: &Team) {
        if !is_ever_set() {
            return;
        }
        let values = if self.icvs.base.is_null() { self.read_icvs() } else { self.icvs.base.get() };
        team.begins_with(values);
    }

    /// A guest takes a task of its team's from a queue: it has to have what the region has begun with.
    #[inline]
    pub(crate) fn match_icvs_of_region(&self, team: &Team) {
        if is_ever_set() && !ptr::eq(self.icvs.base.0.get(), team.icvs.kept.load(Ordering::Relaxed)) {
            self.take_over(team);
        }
    }

    #[cold]
    fn take_over(&self, team: &Team) {
        let base = &self.icvs.base;
        let _held = hold();
        let theirs = team.icvs.kept.load(Ordering::Relaxed);
        if self.icvs.first.get().is_none() {
            self.icvs.first.set(self.read_icvs());
        }
        // SAFETY: the team is a user, and nobody else replaces it while the lock is held.
        let values = match unsafe { theirs.as_ref() } {
            Some(kept) => {
                kept.users.fetch_add(1, Ordering::Relaxed);
                Some(kept.values)
            }
            None => self.icvs.first.get(),
        };
        release(base.0.replace(theirs));
        values.into_iter().for_each(|values| self.write_icvs(&values));
    }

    /// Another context of the runtime begins, which has values of its own.
    #[inline]
    pub(crate) fn put_icvs_aside(&self) -> Aside {
        Aside(self.icvs.base.0.replace(ptr::null()))
    }

    /// … and has ended.
    #[inline]
    pub(crate) fn take_icvs_back(&self, aside: Aside) {
        if is_ever_set() {
            self.icvs.base.clear();
        }
        self.icvs.base.0.set(aside.0);
    }

    /// This thread becomes a guest, or is one no more: the runtime has the one thread for all regions that it helps in.
    pub(crate) fn swap_icvs_of_guest(&self) {
        self.icvs.base.0.swap(&self.icvs.as_guest.0);
    }
}
