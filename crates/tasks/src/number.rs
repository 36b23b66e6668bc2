//! Thread numbers, where threads from outside the team run its tasks.
//!
//! A program may ask for its thread's number in a task, and use what belongs to that number until the task ends or waits. So no two
//! threads may have the same number at the same time, and there are only as many as members. A number is therefore *held*: from the moment
//! that it is asked for until the end of the task that asked. At a scheduling point it is *lent*: what another task does with it meanwhile, the
//! member could have done itself there. A member's implicit task has its own number, an explicit one on a member's thread its member's if that is
//! free, else any, as on a guest's. Who finds none waits: as many threads as there are members are using theirs.
//!
//! Who does not ask pays a comparison of two words of its own at each scheduling point.

use std::ptr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::team::{Seat, Team};
use crate::worker::Worker;

/// No number.
pub(crate) const NONE: u32 = u32::MAX;
/// Between two looks for a number that is free. Rare: a loop is enough.
const PAUSE: Duration = Duration::from_micros(20);

impl Worker {
    /// The number of the thread that the present task runs on, as far as it can tell, which is its own until it ends or waits. `None`: it is
    /// in no team.
    pub fn thread_number(&self) -> Option<u32> {
        if self.number.get() == NONE {
            let (team, seat) = self.place()?;
            let implicit = self.is_in(&seat.implicit);
            self.hold(|| if implicit { own(seat) } else { own(seat).or_else(|| any(team)) });
        }
        Some(self.number.get())
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
            self.hold(|| team.member(number).and_then(own));
        }
    }

    /// A task has ended before which this thread held that number, or [`NONE`].
    #[inline]
    pub(crate) fn give_number_back(&self, before: u32) {
        let number = self.number.get();
        if number != before {
            self.number.set(before);
            let seat = self.place().and_then(|(team, _)| team.member(number));
            seat.into_iter().for_each(|seat| seat.number_is_held.store(false, Ordering::Release));
        }
    }

    /// Until `take` has one.
    fn hold(&self, mut take: impl FnMut() -> Option<u32>) {
        loop {
            if let Some(number) = take() {
                return self.number.set(number);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// This seat's number, if it is a member's and free.
fn own(seat: &Seat) -> Option<u32> {
    let took = !seat.is_guests() && !seat.number_is_held.swap(true, Ordering::AcqRel);
    took.then(|| seat.number())
}

fn any(team: &Team) -> Option<u32> {
    (0..team.size()).find_map(|number| team.member(number).and_then(own))
}

impl Worker {
    fn is_in(&self, task: &crate::task::Task) -> bool {
        self.frames.get() == 0 && ptr::eq(self.current.get(), task)
    }
}
