//! How a thread waits: for children of its task, at a barrier, at the end of a region. Meanwhile it runs other tasks, and sleeps if there
//! are none.

use std::hint::spin_loop;
use std::sync::atomic::Ordering;

use crate::park::bed;
use crate::task::{NOBODY, Task};
use crate::team::Team;
use crate::worker::Worker;

/// Number of times that a thread looks for a task before it sleeps. A wake-up takes some microseconds; a look takes a few dozen
/// nanoseconds.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 200 };

/// Number of pause instructions between two attempts to find a task.
const SPINS: u32 = 16;

impl Worker {
    /// Waits for the children of the current task.
    pub fn wait_for_children(&self) {
        if self.frames.get() > 0 {
            // The current task runs in a frame (immediately, without a `Task`), so it has no children: `Task`s are made before a child is created.
            return;
        }
        let Some(task) = self.current() else { return };
        let own = &task.own;
        if own.missing() != task.others.tally.ended_elsewhere() {
            let number = self.lend_number();
            // First run tasks until all children have ended or no task is found: meanwhile, children that end on this thread are counted
            // without an atomic operation.
            let all = || own.missing() == task.others.tally.ended_elsewhere();
            self.run_while(|| !all(), Some(task));
            own.slot.store(NOBODY, Ordering::Relaxed);
            if task.others.tally.ask(own.missing(), self.thread) {
                self.wait(|| task.others.tally.is_enough(), Some(task));
            }
            own.slot.store(self.thread, Ordering::Relaxed);
            self.take_number_back(number);
        }
        self.has_no_children(task);
    }

    /// Resets the counters of children of `task`, the current task, and clears its table of accesses. Called when all its children have ended.
    pub(crate) fn has_no_children(&self, task: &Task) {
        task.others.tally.reset();
        task.own.made.set(0);
        task.own.ended_here.set(0);
        self.forget_children(task);
    }

    /// Waits until all members of the team have arrived here and all tasks have ended. Runs tasks meanwhile.
    pub fn barrier(&self) {
        self.meet(false);
    }

    /// Ends a region. If the region was begun as one that may have tasks (see [`begin`](Team::begin)), this call is a barrier.
    ///
    /// If the region was begun as one that probably has no tasks, the caller executes a barrier of its own after this call. If no task was
    /// created, this call returns at once. If one was created nevertheless, the thread that created it waits here until no task is left,
    /// and so does each member that arrives later. Members that arrived earlier already sleep in the caller's barrier; standbys run tasks
    /// in their place.
    pub fn end_region(&self) {
        let Some((team, _)) = self.place() else { return };
        if !team.lets_go() {
            self.barrier();
        } else if team.has_tasks() {
            self.stay_while_there_are_tasks(team);
        }
    }

    #[cold]
    fn stay_while_there_are_tasks(&self, team: &Team) {
        let number = self.lend_number();
        // This member is counted before it looks for tasks. The thread that ends the last task checks this count, and wakes sleeping members only
        // if it is not 0.
        team.meeting.0.staying.fetch_add(1, Ordering::AcqRel);
        loop {
            self.run_while(|| true, None);
            if team.let_go_if_quiet() {
                break;
            }
            self.look_around(|| team.is_quiet(), None);
        }
        team.meeting.0.staying.fetch_sub(1, Ordering::AcqRel);
        self.take_number_back(number);
        self.current().into_iter().for_each(|task| self.has_no_children(task));
    }

    /// Waits as [`barrier`](Worker::barrier) does, but returns early if the region is cancelled. Returns whether the region is cancelled.
    pub fn barrier_or_cancel(&self) -> bool {
        if self.team().is_some_and(Team::is_cancelled) {
            return true;
        }
        self.meet(true)
    }

    /// Waits at a barrier. If it is `cancellable` and the region is cancelled, the thread is released early. Returns whether it was
    /// released early.
    fn meet(&self, cancellable: bool) -> bool {
        let Some((team, slot)) = self.place() else { return false };
        let number = self.lend_number();
        let (generation, last) = team.arrive(slot);
        let waited_at = self.waits_at.replace(Some(generation));
        // A member that has just arrived last, or has just run out of tasks, has to check whether the barrier can be passed.
        let mut asks = last;
        if last && !team.has_tasks() {
            asks = false;
            team.try_to_pass(generation);
        }
        let is_let_go = || cancellable && team.is_last_barrier(generation);
        let goes_on = || team.has_passed(generation) || is_let_go();
        while !goes_on() {
            asks |= self.run_while(|| !goes_on(), None);
            if std::mem::take(&mut asks) {
                team.try_to_pass(generation);
            } else {
                self.look_around(goes_on, None);
                asks = true;
            }
        }
        self.waits_at.set(waited_at);
        self.take_number_back(number);
        if is_let_go() {
            // Report the cancellation even if this barrier has been passed by now. Members that the cancellation released stay counted as
            // arrived. So when the other members arrive at the region's end, all members may be counted, and the barrier is passed.
            return true;
        }
        // All tasks of the team have ended, so the children of this member's task have ended, too.
        self.current().into_iter().for_each(|task| self.has_no_children(task));
        false
    }

    /// Waits until `enough` returns true. Meanwhile runs tasks (with `within`, only descendants of that task), and sleeps if there are
    /// none.
    pub(crate) fn wait(&self, enough: impl Fn() -> bool, within: Option<&Task>) {
        let number = self.lend_number();
        while !enough() {
            if !self.run_while(|| !enough(), within) {
                self.look_around(&enough, within);
            }
        }
        self.take_number_back(number);
    }

    /// Returns whether this thread should leave its tasks to standbys (additional threads, which run tasks in its place) and sleep.
    #[inline]
    pub(crate) fn may_leave(&self) -> bool {
        umt_client::is_live()
            && self.place().is_some_and(|(team, slot)| !slot.is_for_helper && team.can_spare_members())
            && umt_client::may_leave()
    }

    /// Called when there was no task: looks for one for a while, then sleeps until another thread wakes this one. Returns early if `enough`
    /// returns true, or if there is a task; it runs the task first. With `within`, only a descendant of that task counts.
    fn look_around(&self, enough: impl Fn() -> bool, within: Option<&Task>) {
        let Some((team, slot)) = self.place() else { return };
        let mut looks = 0;
        let mut leaves = self.may_leave();
        while looks < LOOKS && !leaves {
            for _ in 0..SPINS {
                spin_loop();
                if enough() {
                    return;
                }
            }
            if self.run_one(within) {
                return;
            }
            looks += 1;
            leaves = self.may_leave();
        }
        if leaves {
            // Another thread works on this CPU. Standbys run the remaining tasks; this thread sleeps until `enough` may be true.
            team.lie_down_for_good(slot);
            // Move this thread's tasks to the heap, which all threads search first. They may be the oldest tasks of the team; in this
            // thread's deque, other threads would find them last.
            team.leave_behind(slot);
            // Checked again after the fence in `lie_down_for_good`: a thread that finds out that there can be no more standbys wakes all
            // sleepers, and may have done so before this thread was marked as asleep.
            if !enough() && self.may_leave() {
                bed(self.thread).sleep();
            }
            team.get_up(slot, false);
            return;
        }
        team.lie_down(slot, within);
        // This search finds all tasks that were queued before this thread was marked as asleep. A thread that queues a task later sees the
        // mark, and wakes a sleeper.
        let found = if enough() { None } else { self.find(within) };
        if found.is_none() && !enough() {
            bed(self.thread).sleep();
        }
        team.get_up(slot, found.is_some() || enough());
        self.hand_on(found.and_then(|task| self.run(task)));
    }
}
