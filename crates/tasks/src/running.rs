//! How a thread finds a task and runs it.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::begun::Taker;
use crate::group::Group;
use crate::task::{COPIED, DETACHED, RANGE, Task};
use crate::team::Team;
use crate::worker::Worker;

impl Worker {
    /// Runs another task, if there is one that may interrupt the current task.
    pub fn give_way(&self) {
        if self.frames.get() > 0 {
            // The current task runs in a frame (immediately, without a `Task`). Only its descendants may interrupt it, and it has none.
            return;
        }
        let number = self.lend_number();
        self.run_one(self.current());
        self.take_number_back(number);
    }

    /// Runs tasks while `goes_on` returns true and a task is found. With `within`, runs only descendants of that task. Stops early if this
    /// thread may leave its tasks to standbys (additional threads, which run tasks in its place). Returns whether it ran any task.
    pub(crate) fn run_while(&self, mut goes_on: impl FnMut() -> bool, within: Option<&Task>) -> bool {
        let (mut ran, mut next) = (false, None);
        while goes_on() && !self.may_leave() {
            let Some(task) = next.take().or_else(|| self.find(within)) else { return ran };
            next = self.run(task);
            ran = true;
        }
        self.hand_on(next);
        ran
    }

    /// Puts a ready task, if there is one, into a queue.
    #[inline]
    pub(crate) fn hand_on(&self, ready: Option<NonNull<Task>>) {
        if let (Some(ready), Some((team, slot))) = (ready, self.place()) {
            team.put(slot, ready);
        }
    }

    /// Runs one task; with `within`, only a descendant of that task. Returns whether it found one.
    pub(crate) fn run_one(&self, within: Option<&Task>) -> bool {
        let mut once = true;
        self.run_while(|| std::mem::take(&mut once), within)
    }

    #[inline]
    pub(crate) fn find(&self, within: Option<&Task>) -> Option<NonNull<Task>> {
        let mut random = self.random.get();
        let (team, slot) = self.place()?;
        let found = team.find(slot, within, &mut random);
        self.random.set(random);
        match found {
            // Check that this thread has begun the task's construct. With `within` no check is needed: the task is then a descendant of
            // this thread's current task, so this thread has begun its construct.
            Some(task) if within.is_none() && self.is_late_for(team, task) => {
                team.put_for_members(task);
                None
            }
            found => found,
        }
    }

    /// Returns whether this thread has to leave the task for later. This is so if the thread is a member that waits at a barrier of its
    /// team, and the task belongs to a construct after that barrier.
    #[inline]
    fn is_late_for(&self, team: &Team, task: NonNull<Task>) -> bool {
        let barrier = self.waits_at.get();
        // SAFETY: this thread took the task from a queue, so it owns the task.
        barrier.is_some() && !Worker::has_begun(team, unsafe { task.as_ref() }, Taker::Member(barrier))
    }

    /// Returns whether `taker` may run this task, which it has taken from a queue. If the task belongs to a construct with
    /// `reduction(task, …)`, only a member that has begun the construct may run it (see `begun`). Other tasks may run on any thread.
    #[inline]
    pub(crate) fn has_begun(team: &Team, task: &Task, taker: Taker) -> bool {
        // SAFETY: the group stays valid until all its tasks have ended, and this is one of them.
        let group = unsafe { task.group.get().as_ref() };
        !group.is_some_and(|group| group.is_for_members.get()) || taker.has_begun(&team.generation.0)
    }

    /// Runs a task that this thread owns. Returns a successor that has become ready, if there is one; this thread owns the successor too.
    #[inline]
    pub(crate) fn run(&self, this: NonNull<Task>) -> Option<NonNull<Task>> {
        // SAFETY: this thread took the task from a queue, or the task was never in one. So this thread owns it.
        let task = unsafe { this.as_ref() };
        if task.flags.get() & DETACHED != 0 {
            return self.run_detached(this);
        }
        self.run_body(task);
        self.end(this)
    }

    /// Returns whether the current task's group or its region is cancelled. If so, the task has to end at this point, and tasks that it
    /// creates do not begin.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        // SAFETY: the group stays valid while it has unfinished tasks, and the current task is one of them or creates them.
        let group = unsafe { self.group().as_ref() };
        group.is_some_and(Group::is_cancelled) || self.team().is_some_and(Team::is_cancelled)
    }

    /// Runs a task's body. If the task's group or the region is cancelled, the body runs only if it has copies to destroy ([`COPIED`]).
    /// Returns whether the body ran.
    #[inline]
    pub(crate) fn run_body(&self, task: &Task) -> bool {
        let (before, frames) = (self.current.replace(task), self.frames.replace(0));
        let number = self.number.get();
        self.begins(task);
        self.enter_icvs(task, before);
        let runs = task.flags.get() & COPIED != 0 || !self.is_cancelled();
        if runs {
            if task.flags.get() & RANGE == 0 {
                // SAFETY: the task has a function that the compiler made, and the data that this function takes.
                unsafe { (task.work.get())(task.data.get()) };
            } else {
                // SAFETY: `put_parts` made the task, as `run_range` requires: only `put_parts` sets the flag `RANGE`.
                unsafe { self.run_range(task) };
            }
        }
        self.give_number_back(number);
        self.leave_icvs(task, before);
        self.current.set(before);
        self.frames.set(frames);
        runs
    }

    /// Notes that a task's body begins on this thread.
    #[inline]
    pub(crate) fn begins(&self, task: &Task) {
        task.own.slot.store(self.thread, Ordering::Relaxed);
        task.own.groups.set(task.group.get());
    }
}
