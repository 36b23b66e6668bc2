//! What follows when a task's body has ended: who may begin, who is told, and whose memory is free.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::depend::Listener;
use crate::park::bed;
use crate::tally::Counted;
use crate::task::{DEPENDS, HOLD, HOLDS, NOBODY, Task, USE};
use crate::worker::Worker;

impl Worker {
    /// Runs a task with an event, or only ends it: it comes a second time if its event was fulfilled after its body had ended.
    #[cold]
    pub(crate) fn run_detached(&self, this: NonNull<Task>) -> Option<NonNull<Task>> {
        // SAFETY: taken from a queue, or never in one: this thread has it alone.
        let task = unsafe { this.as_ref() };
        if !task.event.has_left() && self.run_body(task) {
            // Children that end from here on count as elsewhere: who ends the task has to find them all in one place.
            task.own.seat.store(NOBODY, Ordering::Relaxed);
            if !task.event.body_ends() {
                return None;
            }
        }
        // A cancelled task has ended without its event, which need not be fulfilled and must not be looked at if it is.
        task.event.close();
        self.end(this)
    }

    /// Runs a task with an event at once, for its creator, and waits for the event.
    #[cold]
    pub(crate) fn run_with_event(&self, this: NonNull<Task>, parent: &Task) -> Option<NonNull<Task>> {
        // SAFETY: never in a queue: this thread has it alone.
        let task = unsafe { this.as_ref() };
        if self.run_body(task) {
            task.own.seat.store(NOBODY, Ordering::Relaxed);
            task.event.is_awaited_by(self.thread);
            self.wait(|| task.event.is_fulfilled(), Some(parent));
        }
        task.event.close();
        self.end(this)
    }

    /// A task's body has ended. Another that may begin now, if there is one.
    #[inline]
    pub(crate) fn end(&self, this: NonNull<Task>) -> Option<NonNull<Task>> {
        // SAFETY: this thread's, until its tally says otherwise.
        let task = unsafe { this.as_ref() };
        let (_, seat) = self.place()?;
        let mut next = None;
        let depends = task.flags.get() & DEPENDS != 0;
        if depends {
            task.let_successors_go(|ready, awaited_by| match awaited_by {
                NOBODY => self.let_go(ready, &mut next),
                thread => self.wake(thread),
            });
        }
        self.forget_children(task);
        // SAFETY: not over while it has tasks, of which this is one.
        if let Some(group) = unsafe { task.group.get().as_ref() } {
            self.tell(group.tally.count(), None);
        }
        let missing = task.own.missing();
        let parent = NonNull::new(task.parent.load(Ordering::Relaxed));
        task.own.seat.store(NOBODY, Ordering::Relaxed);
        if let Some(parent) = parent {
            // It ends before its children, or is held by one that did: those below may be asked whose they are. A hold comes
            // before the child's count, which has been seen.
            if task.is_held() || missing != task.others.tally.ended_elsewhere() {
                // SAFETY: as below.
                unsafe { parent.as_ref() }.others.uses.fetch_add(HOLD, Ordering::Relaxed);
                task.flags.set(task.flags.get() | HOLDS);
            }
            // SAFETY: a parent's memory stays until all its children have said that they have ended.
            let own = unsafe { &parent.as_ref().own };
            if own.seat.load(Ordering::Relaxed) == self.thread {
                own.ended_here.set(own.ended_here.get().wrapping_add(1));
            } else {
                // SAFETY: as above; not touched after this.
                let counted = unsafe { parent.as_ref() }.others.tally.count();
                self.tell(counted, Some(parent));
            }
        }
        if task.others.tally.end(missing) {
            self.forget(this);
        }
        seat.has_ended();
        next
    }

    /// A task waits for nobody any more.
    fn let_go(&self, ready: NonNull<Task>, next: &mut Option<NonNull<Task>>) {
        // SAFETY: nobody has it yet.
        let task = unsafe { ready.as_ref() };
        let ready = match next {
            // The most urgent goes on here, the others are for everybody.
            // SAFETY: as above.
            Some(first) if unsafe { first.as_ref() }.priority.get() < task.priority.get() => next.replace(ready),
            Some(_) => Some(ready),
            None => next.replace(ready),
        };
        self.hand_on(ready);
    }

    /// Does what a count asks for.
    #[inline]
    fn tell(&self, counted: Counted, task: Option<NonNull<Task>>) {
        match counted {
            Counted::Nothing => {}
            Counted::Wake(thread) => self.wake(thread),
            Counted::Free => task.into_iter().for_each(|task| self.forget(task)),
        }
    }

    /// Wakes a thread; this one is awake.
    fn wake(&self, thread: u32) {
        if thread != self.thread {
            bed(thread).wake();
        }
    }

    /// One use of a task is over: it has ended and so have its children, its parent's table has forgotten it, or a child that
    /// held it is free.
    #[inline]
    pub(crate) fn forget(&self, task: NonNull<Task>) {
        let (mut next, mut less) = (Some(task), USE);
        while let Some(this) = next.take() {
            // SAFETY: whoever calls this has known it until now.
            let task = unsafe { this.as_ref() };
            if task.is_used_no_more(less) {
                if task.flags.get() & HOLDS != 0 {
                    (next, less) = (NonNull::new(task.parent.load(Ordering::Relaxed)), HOLD);
                }
                // SAFETY: nobody knows it any more.
                unsafe { self.pool.free(this) };
            }
        }
    }

    /// Its table of accesses is no longer needed: no more children come, or all that came have ended.
    #[inline]
    pub(crate) fn forget_children(&self, task: &Task) {
        // SAFETY: the task runs on this thread, or has ended here.
        let table = unsafe { &mut *task.own.table.get() };
        if !table.is_empty() {
            table.clear(&mut Forgetting(self));
        }
    }
}

/// Where a table's memory of a task ends.
pub(crate) struct Forgetting<'w>(pub(crate) &'w Worker);

impl Listener<NonNull<Task>> for Forgetting<'_> {
    fn waits_for(&mut self, _: NonNull<Task>) {}

    fn forgotten(&mut self, earlier: NonNull<Task>) {
        self.0.forget(earlier);
    }
}
