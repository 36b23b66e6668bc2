//! What follows the end of a task's body: successors become ready, waiting threads are woken, and memory is freed.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::depend::Listener;
use crate::park::bed;
use crate::tally::Counted;
use crate::task::{DEPENDS, HOLD, HOLDS, NOBODY, Task, USE};
use crate::worker::Worker;

impl Worker {
    /// Runs a task with a `detach` event. If the body ends before the event is fulfilled, the task is queued again when the event is
    /// fulfilled. Then this function is called for it a second time, does not run the body, and only ends the task.
    #[cold]
    pub(crate) fn run_detached(&self, this: NonNull<Task>) -> Option<NonNull<Task>> {
        // SAFETY: this thread took the task from a queue, or the task was never in one. So this thread owns it.
        let task = unsafe { this.as_ref() };
        if !task.event.has_left() && self.run_body(task) {
            // From here on, a child that ends on this thread is counted like a child that ends on another thread. So the thread that ends
            // this task finds all children in one count.
            task.own.slot.store(NOBODY, Ordering::Relaxed);
            if !task.event.body_ends() {
                return None;
            }
        }
        // If the task was cancelled, it ends without its event, and the program need not fulfil the event. If the program fulfils it later,
        // that must have no effect: the memory may be another task's by then.
        task.event.close();
        self.end(this)
    }

    /// Runs a task that has an event (`detach` clause) immediately, on the thread that created it. Then waits until the event is fulfilled, and
    /// ends the task. While it waits, this thread runs only descendants of `parent`, the task that created this one.
    #[cold]
    pub(crate) fn run_with_event(&self, this: NonNull<Task>, parent: &Task) -> Option<NonNull<Task>> {
        // SAFETY: the task was never in a queue, so only this thread has it.
        let task = unsafe { this.as_ref() };
        if self.run_body(task) {
            task.own.slot.store(NOBODY, Ordering::Relaxed);
            task.event.is_awaited_by(self.thread);
            self.wait(|| task.event.is_fulfilled(), Some(parent));
        }
        task.event.close();
        self.end(this)
    }

    /// Ends a task whose body has ended. Returns a successor (a task that waited for this one) that has become ready, if there is one.
    #[inline]
    pub(crate) fn end(&self, this: NonNull<Task>) -> Option<NonNull<Task>> {
        // SAFETY: this thread owns the task until it has registered the task's end in the counter of unfinished children (`tally`).
        let task = unsafe { this.as_ref() };
        let (_, slot) = self.place()?;
        let mut next = None;
        let depends = task.flags.get() & DEPENDS != 0;
        if depends {
            task.let_successors_go(|ready, awaited_by| match awaited_by {
                NOBODY => self.let_go(ready, &mut next),
                thread => self.wake(thread),
            });
        }
        self.forget_children(task);
        // SAFETY: the group stays valid until all its tasks have ended, and this is one of them.
        if let Some(group) = unsafe { task.group.get().as_ref() } {
            self.tell(group.tally.count(), None);
        }
        let missing = task.own.missing();
        let parent = NonNull::new(task.parent.load(Ordering::Relaxed));
        task.own.slot.store(NOBODY, Ordering::Relaxed);
        if let Some(parent) = parent {
            // If this task has unfinished descendants, a thread may follow the chain of parents from one of them through this task to its
            // parent. Then this task must keep its parent's memory allocated (*hold* it). The task has unfinished descendants in two cases:
            // one of its children is unfinished, or a child that has ended holds this task for the same reason. Check the cases in this
            // order. A child adds its hold before it is counted as ended, so once all children are counted, the second check sees all
            // holds.
            if missing != task.others.tally.ended_elsewhere() || task.is_held() {
                // SAFETY: a parent's memory is not freed before all its children have been counted as ended.
                unsafe { parent.as_ref() }.others.uses.fetch_add(HOLD, Ordering::Relaxed);
                task.flags.set(task.flags.get() | HOLDS);
            }
            // SAFETY: a parent's memory is not freed before all its children have been counted as ended.
            let own = unsafe { &parent.as_ref().own };
            if own.slot.load(Ordering::Relaxed) == self.thread {
                own.ended_here.set(own.ended_here.get().wrapping_add(1));
            } else {
                // SAFETY: a parent's memory is not freed before all its children have been counted as ended. This child is counted by the
                // call below; the reference is not used after it.
                let counted = unsafe { parent.as_ref() }.others.tally.count();
                self.tell(counted, Some(parent));
            }
        }
        if task.others.tally.end(missing) {
            self.forget(this);
        }
        slot.has_ended();
        next
    }

    /// Handles the task `ready`, which no longer waits for any other task. Of all tasks that become ready here, this thread runs the one with
    /// the highest priority next, and keeps it in `next`. The others go into queues.
    fn let_go(&self, ready: NonNull<Task>, next: &mut Option<NonNull<Task>>) {
        // SAFETY: the task has just become ready on this thread, and no other thread has it yet.
        let task = unsafe { ready.as_ref() };
        let ready = match next {
            // SAFETY: `first` became ready on this thread, too, and no other thread has it yet.
            Some(first) if unsafe { first.as_ref() }.priority.get() < task.priority.get() => next.replace(ready),
            Some(_) => Some(ready),
            None => next.replace(ready),
        };
        self.hand_on(ready);
    }

    /// Does what `counted`, the result of counting an ended child, requires: nothing, or wakes the waiting thread, or drops a reference to
    /// `task`. `task`: the child's parent; `None` if the child was counted in its group.
    #[inline]
    fn tell(&self, counted: Counted, task: Option<NonNull<Task>>) {
        match counted {
            Counted::Nothing => {}
            Counted::Wake(thread) => self.wake(thread),
            Counted::Free => task.into_iter().for_each(|task| self.forget(task)),
        }
    }

    /// Wakes a thread, unless it is this one.
    fn wake(&self, thread: u32) {
        if thread != self.thread {
            bed(thread).wake();
        }
    }

    /// Drops one reference ([`USE`]) to a task's memory. Called when the task and all its children have ended, and when its parent's table
    /// drops a reference to it. If this was the last reference, frees the memory; and if the task has kept its parent's memory allocated
    /// ([`HOLD`]), drops that reference too.
    #[inline]
    pub(crate) fn forget(&self, task: NonNull<Task>) {
        let (mut next, mut less) = (Some(task), USE);
        while let Some(this) = next.take() {
            // SAFETY: the reference that is dropped below keeps the task valid until then.
            let task = unsafe { this.as_ref() };
            if task.is_used_no_more(less) {
                if task.flags.get() & HOLDS != 0 {
                    (next, less) = (NonNull::new(task.parent.load(Ordering::Relaxed)), HOLD);
                }
                // SAFETY: the last reference to the task has been dropped, so no thread uses its memory.
                unsafe { self.pool.free(this) };
            }
        }
    }

    /// Clears a task's table of accesses. Called when the task creates no more children, or when all its children have ended.
    #[inline]
    pub(crate) fn forget_children(&self, task: &Task) {
        // SAFETY: the task runs on this thread, or has ended here.
        let table = unsafe { &mut *task.own.table.get() };
        if !table.is_empty() {
            table.clear(&mut Forgetting(self));
        }
    }
}

/// Listener that a table of accesses calls when it drops a reference to a task. Frees the task's memory if that was the last reference.
pub(crate) struct Forgetting<'w>(pub(crate) &'w Worker);

impl Listener<NonNull<Task>> for Forgetting<'_> {
    fn waits_for(&mut self, _: NonNull<Task>) {}

    fn forgotten(&mut self, earlier: NonNull<Task>) {
        self.0.forget(earlier);
    }
}
