//! Taskgroups of a thread's current task: how they are begun, waited for and left.

use std::ptr;

use crate::group::Group;
use crate::worker::Worker;

impl Worker {
    /// Begins a taskgroup of the current task.
    ///
    /// # Safety
    /// The group lives until [`end_group`](Worker::end_group) has returned.
    pub unsafe fn begin_group(&self, group: &Group) {
        if let Some(task) = self.current() {
            task.own.groups.set(group);
        }
    }

    /// Returns the innermost taskgroup of the current task; null if there is none.
    #[inline]
    pub fn group(&self) -> *const Group {
        // A task that runs immediately inside the current task may have no `Task` of its own (a frame). It is in the same group.
        // SAFETY: `current` is null, or points to the task that runs on this thread.
        unsafe { self.current.get().as_ref() }.map_or(ptr::null(), |task| task.own.groups.get())
    }

    /// Waits for all tasks of the innermost group, and leaves it.
    pub fn end_group(&self) {
        let Some(task) = self.current() else { return };
        // SAFETY: the group lives until this call has returned.
        let Some(group) = (unsafe { task.own.groups.get().as_ref() }) else { return };
        if group.tally.ask(0, self.thread) {
            self.wait(|| group.tally.is_enough(), Some(task));
        }
        task.own.groups.set(group.around);
    }

    /// Leaves the innermost group. Does not wait for its tasks, because this is called after a barrier, when they have ended.
    pub fn leave_group(&self) {
        let Some(task) = self.current() else { return };
        // SAFETY: the group lives until this call has returned.
        let around = unsafe { task.own.groups.get().as_ref() }.map_or(ptr::null(), |group| group.around);
        task.own.groups.set(around);
    }
}
