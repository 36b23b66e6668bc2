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

pub(crate) mod kept;

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use self::kept::{Aside, Pointer, do_tasks_differ, hold, is_ever_set, release, tasks_will_differ};
use crate::task::Task;
use crate::team::Team;
use crate::worker::Worker;

pub use self::kept::{Values, will_be_set};

/// Access to the present values of the calling thread in a runtime, which is named as in [`Team::made_by`].
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// Reads them.
    pub read: fn(*mut c_void) -> Values,
    /// Replaces them.
    pub write: fn(*mut c_void, &Values),
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// The calling thread finds its values by these functions.
pub fn begin(runtime: Runtime) {
    let _ = RUNTIME.set(runtime);
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
            tasks_will_differ();
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
