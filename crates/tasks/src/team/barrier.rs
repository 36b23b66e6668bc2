//! Barriers, and ends of regions.
//!
//! **Barrier.** A barrier is passed when all members have arrived and no task of the team is left. Each slot counts the tasks made and the
//! tasks ended there. Only the slot's own thread writes these two words, and they only grow. A thread that checks adds up the *ended* words
//! first, then the *made* words. At any moment at most as many tasks have ended as were made. So if the sums are equal, no task was left at
//! the moment between the two additions; and as all members had arrived, no thread could make another. Two kinds of threads check: the
//! member that arrives last, and a thread that has just run out of tasks. Both have a full fence before the check, so the last of them sees
//! everything.
//!
//! **Cancellation.** The member that cancels a region is at no barrier. So the barrier that the others come to next cannot be passed before
//! that member arrives, which it does at the region's end: it is the last barrier of every member. Members that already wait there are
//! released. They stay counted, and are not counted again at the region's end. No task begins any more, so no member that is counted makes
//! one.
//!
//! **Ends of regions.** If no member is expected to make tasks, the region's end is no barrier (`lets_go`). If a member makes tasks after
//! all, it stays until none is left, and so does every member that arrives later. None of them is counted as arrived, so the count of
//! members that were released from a cancelled barrier is cleared when the next region begins.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::{Slot, Team};
use crate::begun::Taker;
use crate::fence;

impl Team {
    /// Returns whether members leave the region's end as soon as there is no task, even if others have not arrived.
    #[inline]
    pub(crate) fn lets_go(&self) -> bool {
        self.lets_go.load(Ordering::Relaxed)
    }

    /// Cancels the region. Called by a member in its implicit task. No task begins any more, and threads that wait at a cancellable barrier
    /// go on.
    pub fn cancel(&self) {
        self.cancelled.store(u64::from(self.generation()) + 1, Ordering::Release);
        fence::light();
        self.wake_all();
    }

    /// Returns whether the region was cancelled.
    #[inline]
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire) != 0
    }

    /// Returns whether a thread that has taken a members-only task has begun the task's construct.
    #[inline]
    pub(crate) fn has_begun(&self, taker: Taker) -> bool {
        taker.has_begun(&self.generation.0)
    }

    /// Returns whether the region is cancelled and this barrier is its last.
    pub(crate) fn is_last_barrier(&self, generation: u32) -> bool {
        self.cancelled.load(Ordering::Acquire) == u64::from(generation) + 1
    }

    /// Registers a member's arrival at the barrier. Returns the barrier's generation, and whether this member has to check if the barrier
    /// can be passed.
    #[inline]
    pub(crate) fn arrive(&self, slot: &Slot) -> (u32, bool) {
        let last = self.cancelled.load(Ordering::Acquire);
        if last != 0 && slot.own.came_to.load(Ordering::Relaxed) == last {
            return ((last - 1) as u32, true);
        }
        let generation = self.generation.0.load(Ordering::Relaxed);
        slot.own.came_to.store(u64::from(generation) + 1, Ordering::Relaxed);
        (generation, self.meeting.0.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.size())
    }

    /// Returns the generation of the barrier that members wait at, or come to next.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.0.load(Ordering::Acquire)
    }

    /// Returns whether the barrier of this generation has been passed.
    #[inline]
    pub(crate) fn has_passed(&self, generation: u32) -> bool {
        self.generation.0.load(Ordering::Acquire) != generation
    }

    /// Lets all members pass if all have arrived and no task is left. Called by the member that arrived last, and by a thread that has
    /// ended a task and finds no other.
    #[inline]
    pub(crate) fn try_to_pass(&self, generation: u32) {
        fence(Ordering::SeqCst);
        if self.meeting.0.arrived.load(Ordering::Acquire) != self.size() {
            if self.meeting.0.staying.load(Ordering::Relaxed) > 0 {
                self.let_go_if_quiet();
            }
            return;
        }
        if !self.is_quiet() {
            return;
        }
        self.pass(generation);
    }

    /// Ends a barrier. Several threads may have found that it can be passed: one of them wins, and only that one resets the count for the
    /// next barrier. No member arrives there before it has seen the generation change.
    pub(super) fn pass(&self, generation: u32) {
        let next = generation.wrapping_add(1);
        if self.meeting.0.passing.compare_exchange(generation, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.meeting.0.arrived.store(0, Ordering::Relaxed);
            self.generation.0.store(next, Ordering::Release);
            fence::light();
            self.wake_all();
        }
    }

    /// Counts a member as staying at the end of a region that [lets go](Team::lets_go), until no task is left. To be called before the
    /// member looks for tasks.
    pub(crate) fn begin_to_stay(&self) {
        self.meeting.0.staying.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends the stay that [`begin_to_stay`](Team::begin_to_stay) began.
    pub(crate) fn end_to_stay(&self) {
        self.meeting.0.staying.fetch_sub(1, Ordering::AcqRel);
    }

    /// Wakes the members that stay, if no task is left. Returns whether none is left.
    pub(crate) fn let_go_if_quiet(&self) -> bool {
        fence(Ordering::SeqCst);
        let is_quiet = self.is_quiet();
        if is_quiet {
            self.wake_all();
        }
        is_quiet
    }

    /// Returns whether no task is left.
    pub(crate) fn is_quiet(&self) -> bool {
        if !self.has_tasks() {
            return true;
        }
        let sum = |word: fn(&Slot) -> &AtomicU64| -> u64 {
            let words = self.slots.iter().chain(self.helpers()).map(|slot| word(slot).load(Ordering::Acquire));
            words.fold(0, u64::wrapping_add)
        };
        let ended = sum(|slot| &slot.own.ended);
        ended == sum(|slot| &slot.own.made)
    }
}
