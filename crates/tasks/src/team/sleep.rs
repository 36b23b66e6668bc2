//! Who sleeps, and who is woken for what.
//!
//! A thread that finds no task sets its bit in `idle` and looks once more. A thread that queues a task reads `idle` and wakes one. Both have a fence
//! (`fence`) between the write and the read, so that one of the two sees the other.

use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, fence};

use super::{Seat, Team};
use crate::fence;
use crate::park::bed;
use crate::task::Task;

impl Team {
    /// A task was put somewhere.
    #[inline]
    pub(crate) fn announce(&self, task: NonNull<Task>) {
        fence::light();
        if self.has_sleepers() {
            self.wake_for(task);
        }
        signal::has_put();
    }

    /// Whether somebody sleeps, or is about to.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.idle.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Wakes one who sleeps and may run this task.
    #[cold]
    pub(crate) fn wake_for(&self, task: NonNull<Task>) {
        // SAFETY: memory of tasks stays; a task that is gone is below nobody, or it wakes the wrong one.
        let may_run = |within: NonNull<Task>| unsafe { task.as_ref().is_below(within.as_ref()) };
        self.wake_one(|within| within.is_none_or(may_run));
    }

    /// Wakes one who may run this task, which is for members: also one that has left its tasks to standbys.
    #[cold]
    pub(crate) fn wake_member_for(&self, task: NonNull<Task>) {
        // SAFETY: as above.
        let may_run = |within: NonNull<Task>| unsafe { task.as_ref().is_below(within.as_ref()) };
        if !self.wake_one(|within| within.is_none_or(may_run)) {
            self.wake_one(|within| within.is_some_and(|within| ptr::eq(within.as_ptr(), &raw const self.nobodys)));
        }
    }

    /// Wakes one whose sleep is `wanted`: it is asked for tasks below one, or any. Whether there was one.
    fn wake_one(&self, wanted: impl Fn(Option<NonNull<Task>>) -> bool) -> bool {
        for (at, word) in self.idle.iter().enumerate() {
            let mut left = word.load(Ordering::Acquire);
            while left != 0 {
                let bit = left & left.wrapping_neg();
                left &= !bit;
                let Some(seat) = self.seat_of_bit(at, bit.trailing_zeros()) else { continue };
                let within = NonNull::new(seat.sleeps_in.load(Ordering::Acquire));
                if wanted(within) && word.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
                    bed(seat.thread.load(Ordering::Relaxed)).wake();
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
                let seat = self.seat_of_bit(at, left.trailing_zeros());
                seat.into_iter().for_each(|seat| bed(seat.thread.load(Ordering::Relaxed)).wake());
                left &= left - 1;
            }
        }
    }

    /// The thread on this seat is about to sleep, for tasks below one or for any: to be said before it looks for the last time.
    pub(crate) fn lie_down(&self, seat: &Seat, within: Option<&Task>) {
        let within = within.map_or(ptr::null(), ptr::from_ref);
        seat.sleeps_in.store(within.cast_mut(), Ordering::Release);
        self.idle[seat.number as usize / 64].fetch_or(1 << (seat.number % 64), Ordering::AcqRel);
        fence::heavy();
    }

    /// The thread on this seat is about to sleep, and no task is for it.
    pub(crate) fn lie_down_for_good(&self, seat: &Seat) {
        self.lie_down(seat, Some(&self.nobodys));
    }

    /// Wakes all who sleep, whatever for: they look again.
    pub fn alarm(&self) {
        fence(Ordering::SeqCst);
        self.wake_all();
    }

    /// It does not sleep, or no longer. If somebody has woken it for a task and it is `busy` with something else, that task is
    /// somebody else's now.
    pub(crate) fn get_up(&self, seat: &Seat, busy: bool) {
        let bit = 1 << (seat.number % 64);
        let was_woken = self.idle[seat.number as usize / 64].fetch_and(!bit, Ordering::AcqRel) & bit == 0;
        if was_woken && busy {
            self.pass_on();
        }
    }

    /// Wakes somebody for each task that somebody could take now.
    #[cold]
    fn pass_on(&self) {
        let oldest = self.seats.iter().chain(self.guests()).filter_map(|seat| NonNull::new(seat.deque.oldest()));
        let queued = self.queued();
        oldest.chain(queued).for_each(|task| self.wake_for(task));
    }
}
