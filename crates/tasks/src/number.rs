//! The thread numbers that tasks see if threads from outside the team run some of them.
//!
//! A program may ask for its thread's number in a task, and use data that belongs to that number until the task ends or waits. So no two
//! threads should have the same number at the same time. But there are only as many numbers as members.
//!
//! 1. A task *holds* a number from the first time that it asks for one until its end. At a scheduling point it *lends* the number: other
//!    tasks may hold it until this task continues. A member's implicit task has the member's own number. An explicit task on a member's
//!    thread has the member's number if that is free, else any free one. A task on a helper's thread has any free number.
//! 2. When a task asks for its number, its function is remembered ([`asks`]). From then on only members run tasks of this function, with
//!    their own numbers. So on helpers only the first tasks of a function ask. Exception: if members may already have left the region
//!    ([`Team::lets_go`]), helpers run such tasks too, with the numbers of those members.
//! 3. A thread that finds no free number waits, but only for a limited time, because the task that holds a number may be waiting for this
//!    thread's task. After [`PATIENCE`] attempts, the thread shares a number that is held. This is counted and reported.
//!
//! A task that does not ask costs little: at each scheduling point, its thread compares two words of its own.

use std::ptr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::asking::{asks, remember};
use crate::biased_lock::NONE;
use crate::nesting::Numbers;
use crate::task::{RANGE, Task, Work};
use crate::team::{Slot, Team};
use crate::worker::Worker;

/// Time between two attempts to get a free number. Waiting is rare, so polling is good enough.
const PAUSE: Duration = Duration::from_micros(20);
/// Number of attempts to get a free thread number. If all fail (they take about 100 ms in total), the thread shares a number that another
/// task holds.
const PATIENCE: u32 = 2000;

/// Records that tasks of this function ask for their thread's number. Standbys may no longer run such tasks, so this call wakes the members
/// that left their tasks to standbys.
fn is_known_to_ask(work: Work, team: &Team) {
    if !asks(work) {
        remember(work);
        team.alarm();
    }
}

/// Calls `take` until it returns a free number. `None`: there was none in [`PATIENCE`] attempts, so a number is shared, which is counted.
fn patiently(mut take: impl FnMut() -> Option<u32>) -> Option<u32> {
    for _ in 0..PATIENCE {
        if let Some(number) = take() {
            return Some(number);
        }
        std::thread::sleep(PAUSE);
    }
    umt_client::program_page().counts.0.shared_numbers.fetch_add(1, Ordering::Relaxed);
    None
}

impl Numbers for Team {
    /// Takes a free thread number of the team for a helper's task, and records that its function `work` asks for thread numbers. If no number
    /// becomes free in `PATIENCE` attempts, returns 0, although another task holds it.
    #[cold]
    fn take_for_helper(&self, work: Option<Work>) -> u32 {
        if umt_client::is_live() {
            work.into_iter().for_each(|work| is_known_to_ask(work, self));
        }
        let free = |number: &u32| self.member(*number).is_some_and(|slot| slot.own.number_is_held.take(false));
        patiently(|| (0..self.size()).find(free)).unwrap_or(0)
    }
}

impl Worker {
    /// Returns whether this thread has to leave tasks of this function to members of the team. This is so if the thread is a helper (not a
    /// member), the tasks ask for their thread's number, and no member can leave the region early ([`Team::lets_go`]).
    #[inline]
    pub(crate) fn leaves_to_members(&self, work: Work) -> bool {
        self.place().is_some_and(|(team, slot)| slot.is_for_helper && !team.lets_go()) && asks(work)
    }

    /// Returns the thread number that the current task sees. No other task has the same number until this task ends or waits, unless
    /// numbers have to be shared. `None`: this thread is in no team.
    #[inline]
    pub fn thread_number(&self) -> Option<u32> {
        if self.number.get() == NONE {
            self.take_number()?;
        }
        Some(self.number.get())
    }

    /// Called when the current task begins a nested region. If this thread is a member of the team, returns its thread number, because
    /// threads of the new region may ask for the number of their ancestor. If the task holds no number yet, takes one. Returns `None` on a
    /// helper: a number is taken for it only when a thread asks for that number (`nesting`).
    pub(crate) fn number_of_ancestor(&self) -> Option<u32> {
        let (team, slot) = self.place().filter(|(_, slot)| !slot.is_for_helper)?;
        if self.is_in(&slot.implicit) {
            return Some(slot.number);
        }
        if self.number.get() == NONE {
            self.hold(slot.number, || self.own(slot).or_else(|| self.any(team)));
        }
        Some(self.number.get())
    }

    fn take_number(&self) -> Option<()> {
        let (team, slot) = self.place()?;
        let implicit = self.is_in(&slot.implicit);
        if !implicit && umt_client::is_live() {
            self.own_function().into_iter().for_each(|work| is_known_to_ask(work, team));
        }
        if self.own(slot).map(|number| self.number.set(number)).is_none() {
            self.hold(slot.number % team.size().max(1), || {
                if implicit { self.own(slot) } else { self.own(slot).or_else(|| self.any(team)) }
            });
        }
        Some(())
    }

    /// Called when the current task reaches a scheduling point: releases the thread number that the task holds, so that other tasks may hold it.
    /// Returns the number, which the task [takes back](Worker::take_number_back) afterwards.
    #[inline]
    pub(crate) fn lend_number(&self) -> u32 {
        let number = self.number.get();
        self.give_number_back(NONE);
        number
    }

    /// Takes the thread number again that [`lend_number`](Worker::lend_number) released. Called when the task continues.
    #[inline]
    pub(crate) fn take_number_back(&self, number: u32) {
        if number != NONE {
            self.take_lent_number(number);
        }
    }

    #[cold]
    fn take_lent_number(&self, number: u32) {
        if let Some((team, _)) = self.place() {
            self.hold(number, || team.member(number).and_then(|slot| self.own(slot)));
        }
    }

    /// Gives back the number of a task that has ended. `before`: the number that this thread held before the task, or [`NONE`].
    #[inline]
    pub(crate) fn give_number_back(&self, before: u32) {
        let number = self.number.get();
        if number != before {
            self.number.set(before);
            let place = self.place().and_then(|(team, here)| Some((team.member(number)?, here)));
            place.into_iter().for_each(|(slot, here)| slot.own.number_is_held.give_back(ptr::eq(slot, here)));
        }
    }

    /// Gets a thread number for the current task: calls `take` until it returns a free one. After [`PATIENCE`] attempts without success,
    /// the task gets the number `shared`, which another task may hold at the same time.
    #[cold]
    fn hold(&self, shared: u32, take: impl FnMut() -> Option<u32>) {
        self.number.set(patiently(take).unwrap_or(shared));
    }

    /// Takes the thread number of `slot`, if it is a member's slot and no task holds the number. Returns the number.
    #[inline]
    fn own(&self, slot: &Slot) -> Option<u32> {
        let is_here = self.place().is_some_and(|(_, here)| ptr::eq(slot, here));
        let took = !slot.is_for_helper && slot.own.number_is_held.take(is_here);
        took.then_some(slot.number)
    }

    /// Returns the function of the current task. `None` if a frame (a task that runs immediately, without a `Task`) is on top of it.
    #[inline]
    pub(crate) fn own_function(&self) -> Option<Work> {
        // SAFETY: `current` is null, or points to the task that runs on this thread.
        let task = unsafe { self.current.get().as_ref() }?;
        // A range (a task that runs several parts of a loop) runs each part in a frame. So while a range is the current task, its own
        // function runs if exactly one frame is on top of it. For any other task, its own function runs if no frame is on top of it.
        let is_its_own = self.frames.get() == u32::from(task.flags.get() & RANGE != 0);
        is_its_own.then(|| task.work.get())
    }

    fn any(&self, team: &Team) -> Option<u32> {
        (0..team.size()).find_map(|number| team.member(number).and_then(|slot| self.own(slot)))
    }

    fn is_in(&self, task: &Task) -> bool {
        self.frames.get() == 0 && ptr::eq(self.current.get(), task)
    }
}
