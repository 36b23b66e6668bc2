//! Where members meet: barriers, and ends of regions.
//!
//! **Barrier.** It is passed when all members have come and no task of the team is left. Tasks are counted by seat,
//! those made and those ended, in words that only grow and that only their seat writes. They are added up *ended
//! first*: at any moment no more have ended than were made, so if the sums are equal, they were equal in the moment
//! between the two; and as all members have come, nobody was there who could make another. It is added up by whoever
//! has just come last, or has just run out of tasks; both have a full fence before, so the last of them sees all.
//!
//! **Cancellation.** Who cancels a region is at no barrier, so the one that members come to next cannot be passed before it comes
//! there, which it does at the region's end: everybody's last barrier is that one. Who waits there already is let go, stays counted,
//! and comes to the end without being counted again. No task begins any more, so nobody who is counted makes one.
//!
//! **Ends of regions.** Where nobody is expected to make tasks the end is no barrier (`lets_go`): who has made some after all stays until none is
//! left, and so does who comes later. Nobody is counted as come, so one that was let go from a cancelled barrier is forgotten when the next
//! region begins.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::{Seat, Team};
use crate::begun::Taker;
use crate::fence;

impl Team {
    /// Whether members go on from the region's end when there is no task, though others may still be to come.
    #[inline]
    pub(crate) fn lets_go(&self) -> bool {
        self.lets_go.load(Ordering::Relaxed)
    }

    /// Cancels the region, by a member in its implicit task: no task begins any more, and who waits at a barrier that may be
    /// cancelled goes on.
    pub fn cancel(&self) {
        self.cancelled.store(u64::from(self.generation()) + 1, Ordering::Release);
        fence::light();
        self.wake_all();
    }

    /// Whether the region was cancelled.
    #[inline]
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire) != 0
    }

    /// Whether a thread that has taken a task which only members may run has begun its construct.
    #[inline]
    pub(crate) fn has_begun(&self, preemptor: Taker) -> bool {
        preemptor.has_begun(&self.generation.0)
    }

    /// Whether the region is cancelled, and has no barrier behind this one.
    pub(crate) fn is_last_barrier(&self, generation: u32) -> bool {
        self.cancelled.load(Ordering::Acquire) == u64::from(generation) + 1
    }

    /// A member comes to the barrier: which one it is, and whether it has to ask if all have come.
    #[inline]
    pub(crate) fn arrive(&self, seat: &Seat) -> (u32, bool) {
        let last = self.cancelled.load(Ordering::Acquire);
        if last != 0 && seat.own.came_to.load(Ordering::Relaxed) == last {
            return ((last - 1) as u32, true);
        }
        let generation = self.generation.0.load(Ordering::Relaxed);
        seat.own.came_to.store(u64::from(generation) + 1, Ordering::Relaxed);
        (generation, self.meeting.0.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.size())
    }

    /// The barrier that members come to next, or wait at.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.0.load(Ordering::Acquire)
    }

    /// Whether this barrier has been passed.
    #[inline]
    pub(crate) fn has_passed(&self, generation: u32) -> bool {
        self.generation.0.load(Ordering::Acquire) != generation
    }

    /// Lets all members pass if all have come and no task is left: to be asked by who has come last, and by who has ended a task
    /// and finds no other.
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

    /// Ends a barrier. Several may have seen that it is time: one of them is first, and only then is the count of the next barrier begun. Nobody
    /// comes to that one before it has seen the generation change.
    pub(super) fn pass(&self, generation: u32) {
        let next = generation.wrapping_add(1);
        if self.meeting.0.passing.compare_exchange(generation, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.meeting.0.arrived.store(0, Ordering::Relaxed);
            self.generation.0.store(next, Ordering::Release);
            fence::light();
            self.wake_all();
        }
    }

    /// A member stays at the end of a region that [lets go](Team::lets_go), until no task is left: to be said before it looks.
    pub(crate) fn begin_to_stay(&self) {
        self.meeting.0.staying.fetch_add(1, Ordering::AcqRel);
    }

    /// … and goes on.
    pub(crate) fn end_to_stay(&self) {
        self.meeting.0.staying.fetch_sub(1, Ordering::AcqRel);
    }

    /// Wakes those that stay if no task is left. Whether none is.
    pub(crate) fn let_go_if_quiet(&self) -> bool {
        fence(Ordering::SeqCst);
        let is_quiet = self.is_quiet();
        if is_quiet {
            self.wake_all();
        }
        is_quiet
    }

    /// Whether no task is left.
    pub(crate) fn is_quiet(&self) -> bool {
        if !self.has_tasks() {
            return true;
        }
        let sum = |word: fn(&Seat) -> &AtomicU64| -> u64 {
            let words = self.seats.iter().chain(self.guests()).map(|seat| word(seat).load(Ordering::Acquire));
            words.fold(0, u64::wrapping_add)
        };
        let ended = sum(|seat| &seat.own.ended);
        ended == sum(|seat| &seat.own.made)
    }
}
