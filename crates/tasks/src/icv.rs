//! Internal control variables (ICVs): values such as the number of threads of the next region. In OpenMP each task has its own values.
//!
//! The runtime that makes the teams (libgomp) keeps the values for each implicit task, and does not know this crate's tasks. So when a
//! thread changes from one task to another with different values, it writes the new values into the runtime's implicit task. The task's
//! queries, regions and loops find them there.
//!
//! 1. A task points to its values (`Pointer`, with a reference count). Null stands for the values with which its region began. A new task
//!    copies its creator's pointer.
//! 2. If the program sets a variable, the runtime stores the new value. The task then keeps the values that the runtime reports
//!    ([`Worker::set_icvs`]).
//! 3. When a task begins on a thread, or has ended there, the thread compares the pointers of this task and of the task that it interrupts.
//!    If they differ, the thread writes the values.
//! 4. A *member* of a team finds in the runtime the values with which the region began. Before it first writes other values, it keeps a
//!    copy of them (`base`). For a *helper* the runtime knows no region, so the helper needs the copy that the region's first task has left
//!    in the team (`Team::begins_with`).
//! 5. The default allocator belongs to the thread and not to the task (OpenMP 5.1, table 2.1: "implicit task"). So it stays the same when a
//!    thread changes to another task. A helper stands for no particular thread: in each task that it takes from a queue it uses the
//!    allocator of the task's creator.
//!
//! As long as the program sets no variable (`is_ever_set`), all this is skipped. Most programs that set one do so before their regions.
//! Then all tasks of a region have the same values (`do_tasks_differ` is false): members find them in the runtime, and only helpers have to
//! get them from the team.

pub(crate) mod kept;

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use self::kept::{do_tasks_differ, hold, is_ever_set, keep, release, retain, tasks_will_differ};
use crate::task::Task;
use crate::team::Team;
use crate::worker::Worker;

pub use self::kept::{Values, will_be_set};

/// Functions that access the calling thread's current values in a runtime. Their first argument is the runtime, as given to
/// [`Team::made_by`].
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// Reads the values.
    pub read: fn(*mut c_void) -> Values,
    /// Replaces the values.
    pub write: fn(*mut c_void, &Values),
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Sets the functions by which threads read and write their control variables in the runtime.
pub fn begin(runtime: Runtime) {
    let _ = RUNTIME.set(runtime);
}

impl Team {
    /// Sets the runtime that created the region.
    pub fn made_by(&self, runtime: *mut c_void) {
        let region = &self.icvs;
        if region.runtime.load(Ordering::Relaxed) != runtime {
            region.runtime.store(runtime, Ordering::Relaxed);
            // The new runtime does not have the region's values yet, so each helper has to write them. A helper writes them only if the
            // region's pointer to values differs from the helper's own pointer (`match_icvs_of_region`). So the region's pointer is changed
            // here.
            self.begins_with(None);
        }
    }

    /// Sets the values with which the region began. Must be called before a thread can find the region's first task.
    fn begins_with(&self, values: Option<Values>) {
        let _held = hold();
        let region = &self.icvs.kept;
        // SAFETY: the team has a counted reference to these values, and only a thread that holds the lock may drop it.
        let before = unsafe { region.load(Ordering::Relaxed).as_ref() }.copied();
        if before != values {
            let new = values.map_or(ptr::null(), keep);
            release(region.swap(new.cast_mut(), Ordering::Relaxed));
        }
    }
}

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

    /// Returns the control variables with which the region began. A task has these values if its own pointer to values is null. If `base` is
    /// not set, reads them from the runtime; then the current task's pointer must be null, because the runtime has the current task's values.
    fn base(&self) -> Option<Values> {
        if self.icvs.base.is_null() {
            self.icvs.base.set(self.read_icvs()?);
        }
        self.icvs.base.get()
    }

    fn values_of(&self, task: Option<&Task>) -> Option<Values> {
        task.and_then(|task| task.icvs.get()).or_else(|| self.base())
    }

    /// Calls `set`, which sets a control variable of the current task in the runtime (libgomp). Then stores the new values in the task.
    pub fn set_icvs(&self, set: impl FnOnce()) {
        let Some(task) = self.current() else { return set() };
        will_be_set();
        let before = self.values_of(Some(task));
        set();
        let now = self.read_icvs();
        if let Some(now) = now
            && before != Some(now)
        {
            tasks_will_differ();
            task.icvs.set(now);
        }
    }

    /// Gives a new task the control variables of its creator, which runs on this thread.
    #[inline]
    pub(crate) fn inherit_icvs(&self, task: &Task, creator: &Task) {
        if do_tasks_differ() {
            task.icvs.share(&creator.icvs);
        }
    }

    /// Called when a task begins on this thread: writes the task's control variables into the runtime. `around`: the task that it interrupts,
    /// or null.
    #[inline]
    pub(crate) fn enter_icvs(&self, task: &Task, around: *const Task) {
        if do_tasks_differ() {
            // SAFETY: `around` is null, or points to the interrupted task, which is alive: it ran on this thread until now.
            self.change_icvs(unsafe { around.as_ref() }, Some(task));
        }
    }

    /// Called when `task` has ended on this thread: writes the control variables of the task that it interrupted into the runtime again.
    /// `around`: the interrupted task, or null.
    #[inline]
    pub(crate) fn leave_icvs(&self, task: &Task, around: *const Task) {
        if do_tasks_differ() {
            // SAFETY: `around` is null, or points to the interrupted task, which is alive: it continues on this thread.
            self.change_icvs(Some(task), unsafe { around.as_ref() });
            task.icvs.clear();
        }
    }

    /// Writes the control variables of the task `to` into the runtime, if they differ from those of the task `from`, which ran on this thread
    /// before. The thread keeps its default allocator.
    #[cold]
    fn change_icvs(&self, from: Option<&Task>, to: Option<&Task>) {
        let pointer = |task: Option<&Task>| task.map_or(ptr::null(), |task| task.icvs.0.get());
        if pointer(from) == pointer(to) {
            return;
        }
        let (Some(before), Some(mut values)) = (self.values_of(from), self.values_of(to)) else { return };
        if let (Some(_), Some(to)) = (from, to)
            && before.allocator != values.allocator
        {
            values.allocator = before.allocator;
            to.icvs.set(values);
        }
        self.write_icvs(&values);
    }

    /// Stores in the team, for its helpers, the control variables with which the region began. Called before a thread can find the region's
    /// first task.
    #[cold]
    pub(crate) fn note_icvs_of_region(&self, team: &Team) {
        if !is_ever_set() {
            return;
        }
        let values = if self.icvs.base.is_null() { self.read_icvs() } else { self.icvs.base.get() };
        team.begins_with(values);
    }

    /// Writes the control variables with which the team's region began into the runtime, unless the runtime already has them on this thread.
    /// Called when this thread, a helper (no member of the team), has taken a task of the team from a queue.
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
        // The team has a reference to the values, and no other thread replaces this reference while the lock is held.
        release(base.0.replace(retain(theirs)));
        let values = base.get().or(self.icvs.first.get());
        values.into_iter().for_each(|values| self.write_icvs(&values));
    }

    /// Clears `base`, the control variables with which the thread's region began, and returns their previous value. Called when this thread
    /// enters another implicit task of the runtime, which has its own control variables.
    #[inline]
    pub(crate) fn put_icvs_aside(&self) -> *const Values {
        self.icvs.base.0.replace(ptr::null())
    }

    /// Restores `base`, the control variables with which this thread's region began, to the value that
    /// [`put_icvs_aside`](Worker::put_icvs_aside) returned. Called when this thread has left the implicit task that it entered after that
    /// call.
    #[inline]
    pub(crate) fn take_icvs_back(&self, aside: *const Values) {
        if is_ever_set() {
            self.icvs.base.clear();
        }
        self.icvs.base.0.set(aside);
    }

    /// Called when this thread becomes a helper of a team (runs tasks without being a member), and again when it stops: swaps the thread's two
    /// pointers to control variables, `base` and `as_helper`. On a helper's thread libgomp has one implicit task, whichever team the helper
    /// helps. Its values stay until the thread helps again, so the thread keeps the pointer to them in `as_helper`.
    pub(crate) fn swap_icvs_of_helper(&self) {
        self.icvs.base.0.swap(&self.icvs.as_helper.0);
    }
}
