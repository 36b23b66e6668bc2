//! Barriers, and ends of regions.
//!
//! **Barrier.** A barrier is passed when all members have arrived and no task of the team is left. Each slot counts the tasks that its
//! threads create and the tasks that they end. Only the slot's own thread writes these two words, and they only grow. A thread that checks
//! adds up the *ended* words first, then the *made* words. At any moment, no more tasks have ended than were created. So if the sums are
//! equal, no task was left at the moment between the two additions; and as all members had arrived, no thread could create another task.
//! Two kinds of threads check: the member that arrives last, and a thread that has just run out of tasks. Both execute a full fence before
//! the check, so the last thread that checks sees all counts.
//!
//! **Cancellation.** The member that cancels a region is not at a barrier, and its next barrier is the region's end. The other members
//! cannot pass their next barrier before this member arrives, so that barrier is the region's last one for them too. Members that already
//! wait there are released. They stay counted as arrived, and are not counted again at the region's end. So the member that cancels can
//! pass the region's end before a released member arrives there: the caller needs its own barrier afterwards. After the cancellation no
//! task begins, so a counted member creates none.
//!
//! **Ends of regions.** If no member is expected to create tasks, the region ends without a barrier (`lets_go`). If a member creates tasks
//! nevertheless, it stays at the end until no task is left, and so does every member that arrives later. Members are not counted as arrived
//! there, and no barrier is passed. So if the region was cancelled, the members that were released from its barrier stay counted until the
//! next region begins, which clears the count.

use super::{Slot, Team};
use crate::fence;
use crate::sync::{AtomicU64, Ordering, fence};

impl Team {
    /// Returns whether members leave the region as soon as no task is left, even if other members have not arrived at its end.
    #[inline]
    pub(crate) fn lets_go(&self) -> bool {
        self.lets_go.load(Ordering::Relaxed)
    }

    /// Cancels the region. Called by a member in its implicit task. After this no task begins, and threads that wait at a cancellable
    /// barrier are released.
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

    /// Returns whether the region is cancelled and this barrier is its last.
    pub(crate) fn is_last_barrier(&self, generation: u32) -> bool {
        self.cancelled.load(Ordering::Acquire) == u64::from(generation) + 1
    }

    /// Registers a member's arrival at the barrier. Returns the barrier's number (generation), and whether this member has to check if the
    /// barrier can be passed.
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

    /// Returns the number of the barrier at which members wait, or will wait next. It increases by one with each barrier.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.0.load(Ordering::Acquire)
    }

    /// Returns whether the barrier with this number has been passed.
    #[inline]
    pub(crate) fn has_passed(&self, generation: u32) -> bool {
        self.generation.0.load(Ordering::Acquire) != generation
    }

    /// Lets all members pass the barrier with the number `generation` if all have arrived and no task is left. Called by the member that
    /// arrived last, and by a thread that has ended a task and finds no other one.
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

    /// Lets all members pass the barrier. Several threads may call this for the same barrier. Only one of them wins, and resets the count
    /// of arrived members. No member arrives at the next barrier before it has seen the new value of `generation`.
    pub(super) fn pass(&self, generation: u32) {
        let next = generation.wrapping_add(1);
        if self.meeting.0.passing.compare_exchange(generation, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.meeting.0.arrived.store(0, Ordering::Relaxed);
            self.generation.0.store(next, Ordering::Release);
            fence::light();
            self.wake_all();
        }
    }

    /// If no task is left, wakes the members that stay at the region's end. Returns whether no task is left.
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

#[cfg(all(test, loom))]
mod tests;
