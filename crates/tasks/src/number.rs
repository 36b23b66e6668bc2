//! Thread numbers, where threads from outside the team run its tasks.
//!
//! A program may ask for its thread's number in a task, and use what belongs to that number until the task ends or waits. So no two
//! threads should have the same number at the same time, and there are only as many as members.
//!
//! 1. A number is *held* from the moment that it is asked for until the end of the task that asked. At a scheduling point it is *lent*. A
//!    member's implicit task has its own number, an explicit one on a member's thread its member's if that is free, else any, as on a guest's.
//! 2. A function that has asked once is remembered ([`asks`]): its tasks are run by members from then on, whose numbers are their own.
//!    So guests ask only in the first tasks of a function. Where members may have gone ([`Team::lets_go`]) guests run them too: with theirs.
//! 3. Who finds no number waits, but not for ever: the one that has it may be waiting for this task. After [`PATIENCE`] it takes one that
//!    another has, which is counted and reported.
//!
//! Who does not ask pays a comparison of two words of its own at each scheduling point.

use std::ptr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::asking::{asks, remember};
use crate::held::NONE;
use crate::nesting::Numbers;
use crate::task::{RANGE, Task};
use crate::team::{Seat, Team};
use crate::work::Work;
use crate::worker::Worker;

/// Between two looks for a number that is free. Rare: a loop is enough.
const PAUSE: Duration = Duration::from_micros(20);
/// Looks before a number is taken that another has: some 100 ms.
const PATIENCE: u32 = 2000;

/// A function asks. Members that have left their work to standbys are wanted again.
fn is_known_to_ask(work: Work, team: &Team) {
    if !asks(work) {
        remember(work);
        team.alarm();
    }
}

impl Numbers for Team {
    /// As [`Worker::thread_number`] does.
    #[cold]
    fn take_for_guest(&self, work: Option<Work>) -> u32 {
        if signal::is_live() {
            work.into_iter().for_each(|work| is_known_to_ask(work, self));
        }
        for _ in 0..PATIENCE {
            let free = |number: &u32| self.member(*number).is_some_and(|seat| seat.own.number_is_held.take(false));
            if let Some(number) = (0..self.size()).find(free) {
                return number;
            }
            std::thread::sleep(PAUSE);
        }
        signal::said().counts.0.shared_numbers.fetch_add(1, Ordering::Relaxed);
        0
    }
}

impl Worker {
    /// Whether tasks of this function are for others: this is no member.
    #[inline]
    pub(crate) fn leaves_to_members(&self, work: Work) -> bool {
        self.place().is_some_and(|(team, seat)| seat.is_guests() && !team.lets_go()) && asks(work)
    }

    /// The number of the thread that the present task runs on, as far as it can tell, which is its own until it ends or waits. `None`: it is
    /// in no team.
    #[inline]
    pub fn thread_number(&self) -> Option<u32> {
        if self.number.get() == NONE {
            self.take_number()?;
        }
        Some(self.number.get())
    }

    /// The same for a member that begins a region within the present task, whose threads may ask for it. `None` for a guest: its number is taken
    /// when it is asked for (`nesting`).
    pub(crate) fn number_of_ancestor(&self) -> Option<u32> {
        let (team, seat) = self.place().filter(|(_, seat)| !seat.is_guests())?;
        if self.is_in(&seat.implicit) {
            return Some(seat.number());
        }
        if self.number.get() == NONE {
            self.hold(seat.number(), || self.own(seat).or_else(|| self.any(team)));
        }
        Some(self.number.get())
    }

    fn take_number(&self) -> Option<()> {
        let (team, seat) = self.place()?;
        let implicit = self.is_in(&seat.implicit);
        if !implicit && signal::is_live() {
            self.remember_function(team);
        }
        if self.own(seat).map(|number| self.number.set(number)).is_none() {
            self.hold(seat.number() % team.size().max(1), || {
                if implicit { self.own(seat) } else { self.own(seat).or_else(|| self.any(team)) }
            });
        }
        Some(())
    }

    /// The task comes to a scheduling point; what it is to [take back](Worker::take_number_back) behind it.
    #[inline]
    pub(crate) fn lend_number(&self) -> u32 {
        let number = self.number.get();
        self.give_number_back(NONE);
        number
    }

    /// … and goes on.
    #[inline]
    pub(crate) fn take_number_back(&self, number: u32) {
        if number != NONE {
            self.take_lent_number(number);
        }
    }

    #[cold]
    fn take_lent_number(&self, number: u32) {
        if let Some((team, _)) = self.place() {
            self.hold(number, || team.member(number).and_then(|seat| self.own(seat)));
        }
    }

    /// A task has ended before which this thread held that number, or [`NONE`].
    #[inline]
    pub(crate) fn give_number_back(&self, before: u32) {
        let number = self.number.get();
        if number != before {
            self.number.set(before);
            let place = self.place().and_then(|(team, here)| Some((team.member(number)?, here)));
            place.into_iter().for_each(|(seat, here)| seat.own.number_is_held.give_back(ptr::eq(seat, here)));
        }
    }

    /// Until `take` has one, or `shared` has to do.
    #[cold]
    fn hold(&self, shared: u32, mut take: impl FnMut() -> Option<u32>) {
        for _ in 0..PATIENCE {
            if let Some(number) = take() {
                return self.number.set(number);
            }
            std::thread::sleep(PAUSE);
        }
        signal::said().counts.0.shared_numbers.fetch_add(1, Ordering::Relaxed);
        self.number.set(shared);
    }

    /// The function of the present task asks.
    #[inline]
    fn remember_function(&self, team: &Team) {
        self.own_function().into_iter().for_each(|work| is_known_to_ask(work, team));
    }

    /// This seat's number, if it is a member's and free.
    #[inline]
    fn own(&self, seat: &Seat) -> Option<u32> {
        let is_here = self.place().is_some_and(|(_, here)| ptr::eq(seat, here));
        let took = !seat.is_guests() && seat.own.number_is_held.take(is_here);
        took.then(|| seat.number())
    }

    /// The function of the present task, if no other is on top of it.
    #[inline]
    pub(crate) fn own_function(&self) -> Option<Work> {
        // SAFETY: the task that runs on this thread.
        let task = unsafe { self.current.get().as_ref() }?;
        // A range's part is in a frame, and of the range's function.
        let is_its_own = self.frames.get() == u32::from(task.flags.get() & RANGE != 0);
        is_its_own.then(|| task.work.get())
    }

    fn any(&self, team: &Team) -> Option<u32> {
        (0..team.size()).find_map(|number| team.member(number).and_then(|seat| self.own(seat)))
    }

    fn is_in(&self, task: &Task) -> bool {
        self.frames.get() == 0 && ptr::eq(self.current.get(), task)
    }
}
