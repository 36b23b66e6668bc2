//! Tasks that are done at once, most of which need not be tasks.
//!
//! A false `if`, a final task, and tasks beyond those worth a queue are run by their creator on the spot. Nearly always nothing in them asks
//! whose it is: they make no children and begin no group. So such a task is only a *frame* at first, counted on top of the present task. Who needs
//! the present task itself has frames made into tasks first ([`Worker::current`]).
//!
//! A frame ends as it was: if the present task is the one it began on, it was never needed; else the present task is the
//! frame's own, since all that were begun within it have ended.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::pool::Needs;
use crate::task::Task;
use crate::work::Work;
use crate::worker::Worker;

unsafe extern "C-unwind" fn nothing(_: *mut c_void) {}

impl Worker {
    /// Runs a task's body on the spot.
    ///
    /// # Safety
    /// A body that takes such data.
    #[inline]
    pub(crate) unsafe fn run_in_frame(&self, work: Work, data: *mut c_void) {
        let (below, frames, number) = (self.current.get(), self.frames.get(), self.number.get());
        self.frames.set(frames + 1);
        // SAFETY: the caller's promise.
        unsafe { work(data) };
        self.give_number_back(number);
        if std::ptr::eq(self.current.get(), below) {
            self.frames.set(frames);
        } else {
            self.end_frame();
        }
    }

    /// A frame that has been made into a task meanwhile has ended.
    #[cold]
    fn end_frame(&self) {
        let Some(task) = self.current() else { return };
        let below = task.parent.load(std::sync::atomic::Ordering::Relaxed);
        self.current.set(below);
        self.leave_icvs(task, below);
        let next = self.end(NonNull::from(task));
        self.hand_on(next);
    }

    /// Makes tasks of all frames; the innermost. Without memory for them it is the task that they are in, which then waits for
    /// more than it should.
    #[cold]
    pub(crate) fn make_frames(&self) -> Option<&Task> {
        // SAFETY: null, or the task that runs on this thread.
        let below = unsafe { self.current.get().as_ref() }?;
        let frames: Vec<NonNull<Task>> = (0..self.frames.get())
            .map_while(|_| Some(self.pool.make(nothing, below, Needs { bytes: 0, align: 1, edges: 0 })?.task))
            .collect();
        if frames.len() < self.frames.get() as usize {
            // SAFETY: just made, and nobody knows them.
            frames.into_iter().for_each(|task| unsafe { self.pool.free(task) });
            return Some(below);
        }
        let mut innermost = below;
        for frame in frames {
            // SAFETY: just made; stays until it is ended, by `end_frame`.
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
