//! Frames: tasks that their creator runs immediately, and for which a `Task` is made only if code needs one.
//!
//! Three kinds of tasks run immediately: tasks with a false `if` clause, tasks created in a final task, and tasks created while the deque
//! has enough of them. Nearly always such a task creates no children and begins no group, so nothing refers to it. Then it is only a
//! *frame*: the worker counts the frames on top of the current task. Code that needs the innermost task itself first turns the frames into
//! tasks ([`Worker::current`]).
//!
//! When a frame ends, there are two cases. If the current task is the one on which the frame began, the frame was never turned into a task.
//! Otherwise the current task is the one made from this frame, because all frames that began within it have ended.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::pool::Needs;
use crate::task::{Task, Work, nothing};
use crate::worker::Worker;

impl Worker {
    /// Runs a task's body in a frame, that is, immediately and without making a `Task` for it.
    ///
    /// # Safety
    /// `work` is a task's body that takes `data`.
    #[inline]
    pub(crate) unsafe fn run_in_frame(&self, work: Work, data: *mut c_void) {
        let (below, frames, number) = (self.current.get(), self.frames.get(), self.number.get());
        self.frames.set(frames + 1);
        // SAFETY: guaranteed by the caller.
        unsafe { work(data) };
        self.give_number_back(number);
        if std::ptr::eq(self.current.get(), below) {
            self.frames.set(frames);
        } else {
            self.end_frame();
        }
    }

    /// Ends a frame (a task that its creator runs immediately) for which a `Task` was made in the meantime.
    #[cold]
    fn end_frame(&self) {
        let Some(task) = self.current() else { return };
        let below = task.parent.load(std::sync::atomic::Ordering::Relaxed);
        self.current.set(below);
        self.leave_icvs(task, below);
        let next = self.end(NonNull::from(task));
        self.hand_on(next);
    }

    /// Makes a `Task` for each of this thread's frames (tasks that run immediately and have no `Task` yet). Returns the innermost one. If there
    /// is no memory for them, returns the task below the frames. A caller that then waits for the children of the returned task waits for
    /// more tasks than it should.
    #[cold]
    pub(crate) fn make_frames(&self) -> Option<&Task> {
        // SAFETY: `current` is null, or points to the task that runs on this thread.
        let below = unsafe { self.current.get().as_ref() }?;
        let frames: Vec<NonNull<Task>> = (0..self.frames.get())
            .map_while(|_| Some(self.pool.make(nothing, below, Needs { bytes: 0, align: 1, edges: 0 })?.task))
            .collect();
        if frames.len() < self.frames.get() as usize {
            // SAFETY: these tasks have just been made, and no other thread knows them.
            frames.into_iter().for_each(|task| unsafe { self.pool.free(task) });
            return Some(below);
        }
        let mut innermost = below;
        for frame in frames {
            // SAFETY: the task has just been made, and is valid until `end_frame` ends it.
            let task = unsafe { frame.as_ref() };
            task.parent.store(std::ptr::from_ref(innermost).cast_mut(), std::sync::atomic::Ordering::Relaxed);
            self.becomes_child(task, innermost);
            self.begins(task);
            innermost = task;
        }
        self.frames.set(0);
        self.current.set(innermost);
        Some(innermost)
    }
}
