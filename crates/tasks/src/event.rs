//! An event: what a task has to wait for before it has ended, besides its own body (OpenMP's `detach`).
//!
//! Any thread may fulfil it, also one that belongs to no team and knows no tasks, before or after the body has ended. One word
//! says which of the two has come; who comes second has the task:
//!
//! 1. The body ends second: its thread goes on as with any other task.
//! 2. The event comes second: whoever has fulfilled it need not be a thread that can end tasks, having neither a seat nor
//!    memory of its own. So the task goes back into its team's queue, before all others, since it costs nearly nothing
//!    and may let others go; and who takes it from there runs nothing, but ends it.
//! 3. A task that is done at once is awaited by its creator, and ended by it. The word holds whom to wake: the task
//!    may be gone as soon as its event is fulfilled.
//!
//! Rejected: ending the task in the thread that fulfils. Every count on the way (of the parent, of the group, of the seat) would have
//! to allow for one more party, and tasks without events, which are nearly all, would pay for it.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::park::bed;
use crate::sync::{AtomicU32, Ordering};
use crate::task::Task;
use crate::team::Team;

/// There is an event, and the task has not ended.
const OPEN: u32 = 1;
const FULFILLED: u32 = 1 << 1;
const BODY_ENDED: u32 = 1 << 2;
/// From here on: the number of the thread that awaits it, plus one.
const NAME_AT: u32 = 3;

/// Added to a task's address: an event's name is the address of no object, as those of other libraries are.
const MARK: usize = 1;

/// A task's event, if it has one.
pub(crate) struct Event {
    word: AtomicU32,
    /// Of the task; written before anybody knows the event.
    team: Cell<*const Team>,
}

/// Whose the task is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fulfilled {
    /// Its thread's: the body has not ended. Or there is no such event any more.
    Nobodys,
    /// Whoever has fulfilled the event.
    Ours,
    /// The thread of this number awaits it.
    Awaited(u32),
}

impl Event {
    /// None yet.
    pub fn new() -> Event {
        Event { word: AtomicU32::new(0), team: Cell::new(ptr::null()) }
    }

    /// Of a task that is being made, which others may take for the one that was in its place before.
    #[inline]
    pub fn close(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// The event of a task that nobody knows yet: its name.
    pub fn open(&self, task: NonNull<Task>, team: &Team) -> usize {
        self.team.set(team);
        self.word.store(OPEN, Ordering::Release);
        task.as_ptr() as usize | MARK
    }

    /// Whether the body has ended, and somebody else has the task since the event is fulfilled: to be asked by who has
    /// taken it.
    pub fn has_left(&self) -> bool {
        self.word.load(Ordering::Acquire) & BODY_ENDED != 0
    }

    /// The body has ended. Whether the task has: its event is fulfilled. If not, it is no longer this thread's.
    pub fn body_ends(&self) -> bool {
        // Release: what the body did, for who ends the task. Acquire: what was done before the event was fulfilled.
        self.word.fetch_or(BODY_ENDED, Ordering::AcqRel) & FULFILLED != 0
    }

    /// The body has ended, and this thread waits until [`is_fulfilled`](Event::is_fulfilled).
    pub fn is_awaited_by(&self, thread: u32) {
        self.word.fetch_or((thread + 1) << NAME_AT, Ordering::AcqRel);
    }

    /// Whether somebody has fulfilled it.
    pub fn is_fulfilled(&self) -> bool {
        self.word.load(Ordering::Acquire) & FULFILLED != 0
    }

    fn fulfil(&self) -> Fulfilled {
        let fulfilled = |word| (word & OPEN != 0 && word & FULFILLED == 0).then_some(word | FULFILLED);
        match self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fulfilled) {
            Err(_) => Fulfilled::Nobodys,
            Ok(before) if before & BODY_ENDED != 0 => Fulfilled::Ours,
            Ok(before) => (before >> NAME_AT).checked_sub(1).map_or(Fulfilled::Nobodys, Fulfilled::Awaited),
        }
    }
}

/// Whether an event of this name is one of ours.
#[must_use]
pub fn is_ours(event: usize) -> bool {
    event & MARK != 0
}

/// Fulfils an event, in any thread. One that was fulfilled before, or whose task was cancelled, is left alone.
///
/// # Safety
/// The name of an event that [`make`](crate::worker::Worker::make) has given.
pub unsafe fn fulfil(event: usize) {
    let Some(task) = NonNull::new((event & !MARK) as *mut Task) else { return };
    // SAFETY: the caller's promise, and memory of tasks stays (`pool`).
    let known = unsafe { &task.as_ref().event };
    match known.fulfil() {
        Fulfilled::Nobodys => {}
        Fulfilled::Awaited(thread) => bed(thread).wake(),
        // SAFETY: the task is ours, so its team is that in which it was made, and teams stay.
        Fulfilled::Ours => unsafe { known.team.get().as_ref() }.into_iter().for_each(|team| team.put_back(task)),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn open() -> Event {
        let event = Event::new();
        event.word.store(OPEN, Ordering::Relaxed);
        event
    }

    #[test]
    fn who_comes_second_has_the_task() {
        let event = open();
        assert_eq!((event.body_ends(), event.has_left(), event.fulfil()), (false, true, Fulfilled::Ours));
        let event = open();
        assert_eq!((event.fulfil(), event.body_ends()), (Fulfilled::Nobodys, true));
    }

    #[test]
    fn who_awaits_it_is_woken() {
        let event = open();
        event.is_awaited_by(70);
        assert_eq!((event.is_fulfilled(), event.fulfil(), event.is_fulfilled()), (false, Fulfilled::Awaited(70), true));
    }

    #[test]
    fn what_is_fulfilled_twice_or_closed_is_nobodys() {
        let event = open();
        event.body_ends();
        assert_eq!((event.fulfil(), event.fulfil()), (Fulfilled::Ours, Fulfilled::Nobodys));
        event.close();
        assert_eq!((event.fulfil(), event.is_fulfilled()), (Fulfilled::Nobodys, false));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    fn open() -> Arc<Event> {
        let event = Event::new();
        event.word.store(OPEN, Ordering::Relaxed);
        Arc::new(event)
    }

    // SAFETY: in a model nobody looks at its team.
    unsafe impl Sync for Event {}
    // SAFETY: as above.
    unsafe impl Send for Event {}

    /// The body ends while somebody fulfils the event: exactly one of the two has the task.
    #[test]
    fn a_task_has_one_owner() {
        loom::model(|| {
            let event = open();
            let other = event.clone();
            let fulfils = loom::thread::spawn(move || other.fulfil() == Fulfilled::Ours);
            let own = event.body_ends();
            assert_ne!(fulfils.join().unwrap(), own);
        });
    }

    /// Its creator begins to wait while somebody fulfils the event: it is woken, or need not wait.
    #[test]
    fn a_wake_is_never_lost() {
        loom::model(|| {
            let event = open();
            let other = event.clone();
            let fulfils = loom::thread::spawn(move || other.fulfil() == Fulfilled::Awaited(5));
            event.is_awaited_by(5);
            let need_not_wait = event.is_fulfilled();
            assert!(fulfils.join().unwrap() || need_not_wait);
        });
    }
}
