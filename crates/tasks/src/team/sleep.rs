//! Sleeping threads of a team, and which of them are woken for a task.
//!
//! A thread that finds no task sets its bit in `idle`, and then looks for a task once more. A thread that has queued a task then reads
//! `idle`, and wakes one sleeper. Both have a fence (`fence`) between the write and the read, so at least one of the two sees the other's
//! write: no wake-up is lost.

use std::ptr::{self, NonNull};

use super::{Slot, Team};
use crate::fence;
use crate::park::bed;
use crate::sync::{Ordering, fence};
use crate::task::Task;

impl Team {
    /// Announces a task that was put into a queue: wakes a sleeper that may run it, and tells `umt-client`.
    #[inline]
    pub(crate) fn announce(&self, task: NonNull<Task>) {
        fence::light();
        if self.has_sleepers() {
            self.wake_for(task);
        }
        umt_client::has_put();
    }

    /// Returns whether a thread sleeps, or is about to.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.idle.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Wakes one sleeping thread that may run this task.
    #[cold]
    pub(crate) fn wake_for(&self, task: NonNull<Task>) {
        // SAFETY: memory of tasks is never freed. If the task has ended meanwhile, the answer may be wrong. Then the wrong thread is woken,
        // which does no harm.
        let may_run = |within: NonNull<Task>| unsafe { task.as_ref().is_below(within.as_ref()) };
        self.wake_one(|within| within.is_none_or(may_run));
    }

    /// Wakes one sleeping thread that may run this task, which is for members only. If there is none, wakes a member that left its tasks to
    /// standbys.
    #[cold]
    pub(crate) fn wake_member_for(&self, task: NonNull<Task>) {
        // SAFETY: memory of tasks is never freed. If the task has ended meanwhile, the wrong thread may be woken, which does no harm.
        let may_run = |within: NonNull<Task>| unsafe { task.as_ref().is_below(within.as_ref()) };
        if !self.wake_one(|within| within.is_none_or(may_run)) {
            self.wake_one(|within| within.is_some_and(|within| ptr::eq(within.as_ptr(), &raw const self.nobodys)));
        }
    }

    /// Wakes one sleeping thread for which `wanted` returns true. The argument of `wanted` is the task whose descendants the thread
    /// accepts; `None`: it accepts any task. Returns whether a thread was woken.
    fn wake_one(&self, wanted: impl Fn(Option<NonNull<Task>>) -> bool) -> bool {
        for (at, word) in self.idle.iter().enumerate() {
            let mut left = word.load(Ordering::Acquire);
            while left != 0 {
                let bit = left & left.wrapping_neg();
                left &= !bit;
                let Some(slot) = self.slot_of_bit(at, bit.trailing_zeros()) else { continue };
                let within = NonNull::new(slot.sleeps_in.load(Ordering::Acquire));
                if wanted(within) && word.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
                    bed(slot.thread.load(Ordering::Relaxed)).wake();
                    return true;
                }
            }
        }
        false
    }

    pub(super) fn wake_all(&self) {
        for (at, word) in self.idle.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut left = word.swap(0, Ordering::AcqRel);
            while left != 0 {
                let slot = self.slot_of_bit(at, left.trailing_zeros());
                slot.into_iter().for_each(|slot| bed(slot.thread.load(Ordering::Relaxed)).wake());
                left &= left - 1;
            }
        }
    }

    /// Marks the thread in this slot as asleep. It may be woken for descendants of `within`; without `within`, for any task. Must be called
    /// before the thread looks for a task for the last time.
    pub(crate) fn lie_down(&self, slot: &Slot, within: Option<&Task>) {
        let within = within.map_or(ptr::null(), ptr::from_ref);
        slot.sleeps_in.store(within.cast_mut(), Ordering::Release);
        self.idle[slot.number as usize / 64].fetch_or(1 << (slot.number % 64), Ordering::AcqRel);
        fence::heavy();
    }

    /// Marks the thread in this slot as asleep, and not to be woken for any task.
    pub(crate) fn lie_down_for_good(&self, slot: &Slot) {
        self.lie_down(slot, Some(&self.nobodys));
    }

    /// Wakes all sleeping threads, so that each checks again what it waits for.
    pub fn alarm(&self) {
        fence(Ordering::SeqCst);
        self.wake_all();
    }

    /// Marks the thread in this slot as awake. If it was woken for a task but is `busy` with something else, wakes other threads for that
    /// task.
    pub(crate) fn get_up(&self, slot: &Slot, busy: bool) {
        let bit = 1 << (slot.number % 64);
        let was_woken = self.idle[slot.number as usize / 64].fetch_and(!bit, Ordering::AcqRel) & bit == 0;
        if was_woken && busy {
            self.pass_on();
        }
    }

    /// Wakes one sleeping thread for the oldest task of each deque, and one for each task in the team's other queues.
    #[cold]
    fn pass_on(&self) {
        let oldest = self.slots.iter().chain(self.helpers()).filter_map(|slot| NonNull::new(slot.deque.oldest()));
        let queued = self.queued();
        oldest.chain(queued).for_each(|task| self.wake_for(task));
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::sync::atomic::AtomicU32;
    use loom::thread::spawn;

    use super::*;
    use crate::sync::explore;

    /// A team with one slot, and the number of tasks in its queue.
    struct Model {
        team: Team,
        tasks: AtomicU32,
    }

    /// A pointer in place of a task. It is never followed: the sleeping thread of this model accepts any task, so the task need not be
    /// checked.
    const TASK: NonNull<Task> = NonNull::dangling();

    /// One thread queues a task. The other thread finds no task, and sleeps until there is one.
    fn check(announce: fn(&Team), lie_down: fn(&Team, &Slot)) {
        explore(move || {
            let model = Arc::new(Model { team: Team::new(1), tasks: AtomicU32::new(0) });
            let slot = model.team.slot(0);
            slot.thread.store(0, Ordering::Relaxed);
            let queues = model.clone();
            let other = spawn(move || {
                queues.tasks.store(1, Ordering::Relaxed);
                announce(&queues.team);
            });
            while model.tasks.load(Ordering::Relaxed) == 0 {
                lie_down(&model.team, slot);
                if model.tasks.load(Ordering::Relaxed) == 0 {
                    bed(0).sleep();
                }
                model.team.get_up(slot, false);
            }
            other.join().unwrap();
        });
    }

    fn announces(team: &Team) {
        team.announce(TASK);
    }

    fn lies_down(team: &Team, slot: &Slot) {
        team.lie_down(slot, None);
    }

    #[test]
    fn a_sleeping_thread_overlooks_no_task() {
        check(announces, lies_down);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn a_sleeping_thread_overlooks_a_task_without_its_own_fence() {
        check(announces, |team, slot| {
            team.idle[0].fetch_or(1 << slot.number, Ordering::AcqRel);
        });
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn a_sleeping_thread_overlooks_a_task_without_the_other_threads_fence() {
        check(
            |team| {
                if team.has_sleepers() {
                    team.wake_for(TASK);
                }
            },
            lies_down,
        );
    }
}
