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
//! Nobody tells the program that a task was cancelled, so it may fulfil an event whose task's memory is another's by then: a name says how
//! often there was an event in that place, and so does the word.
//!
//! Rejected: ending the task in the thread that fulfils. Every count on the way (of the parent, of the group, of the seat) would have
//! to allow for one more party, and tasks without events, which are nearly all, would pay for it.

use std::cell::Cell;
use std::ptr::NonNull;

use crate::sync::{AtomicU64, Ordering};

/// There is an event, and the task has not ended.
const OPEN: u64 = 1;
const FULFILLED: u64 = 1 << 1;
const BODY_ENDED: u64 = 1 << 2;
/// From here on: the number of the thread that awaits it, plus one.
const THREAD_AT: u32 = 3;
/// From here on: how often there was an event here.
const TIMES_AT: u32 = 32;

/// Added to a task's address: an event's name is the address of no object, as those of other libraries are.
const MARK: usize = 1;
/// Bits for the count above an address.
const HIGH_TIMES: u32 = 16;

/// Where a task goes whose event is fulfilled after its body has ended: its team.
pub(crate) trait Home<T> {
    /// Puts it before all others, by any thread.
    fn put_back(&self, task: NonNull<T>);
}

/// A task's event, if it has one.
pub(crate) struct Event<T> {
    word: AtomicU64,
    /// Who makes the task counts.
    times: Cell<u32>,
    /// Of the task; written before anybody knows the event.
    home: Cell<Option<NonNull<dyn Home<T>>>>,
}

/// Whose the task is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fulfilled {
    /// Its thread's: the body has not ended. Or there is no such event any more.
    Nobodys,
    /// Whoever has fulfilled the event.
    Ours,
    /// The thread of this number awaits it.
    Awaited(u32),
}

impl<T> Event<T> {
    /// An address of a task has no other bits: it is aligned, and user space ends below.
    const ADDRESS: usize = (1 << 48) - align_of::<T>();
    /// Bits for the count below an address, behind the mark.
    const LOW_TIMES: u32 = align_of::<T>().trailing_zeros() - 1;
    /// As far as is counted.
    const ALL_TIMES: u32 = (1 << (Self::LOW_TIMES + HIGH_TIMES)) - 1;

    /// None yet.
    pub fn new() -> Event<T> {
        Event { word: AtomicU64::new(0), times: Cell::new(0), home: Cell::new(None) }
    }

    /// Of a task that is being made, which others may take for the one that was in its place before.
    #[inline]
    pub fn close(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// The event of a task that nobody knows yet: its name.
    pub fn open(&self, task: NonNull<T>, home: &(dyn Home<T> + 'static)) -> usize {
        self.home.set(Some(NonNull::from(home)));
        Self::name(task, self.open_again())
    }

    /// Where its task goes, if it was ever open.
    pub fn home(&self) -> Option<NonNull<dyn Home<T>>> {
        self.home.get()
    }

    /// How often it was open, with this time.
    fn open_again(&self) -> u32 {
        let times = self.times.get().wrapping_add(1) & Self::ALL_TIMES;
        self.times.set(times);
        self.word.store(OPEN | u64::from(times) << TIMES_AT, Ordering::Release);
        times
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
        self.word.fetch_or((u64::from(thread) + 1) << THREAD_AT, Ordering::AcqRel);
    }

    /// Whether somebody has fulfilled it.
    pub fn is_fulfilled(&self) -> bool {
        self.word.load(Ordering::Acquire) & FULFILLED != 0
    }

    /// The one that was open here for the `times`-th time.
    pub fn fulfil(&self, times: u32) -> Fulfilled {
        let is_it = |word: u64| word & OPEN != 0 && word & FULFILLED == 0 && word >> TIMES_AT == u64::from(times);
        let fulfilled = |word| is_it(word).then_some(word | FULFILLED);
        match self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fulfilled) {
            Err(_) => Fulfilled::Nobodys,
            Ok(before) if before & BODY_ENDED != 0 => Fulfilled::Ours,
            Ok(before) => {
                let thread = (before as u32 >> THREAD_AT).checked_sub(1);
                thread.map_or(Fulfilled::Nobodys, Fulfilled::Awaited)
            }
        }
    }

    /// The name of the `times`-th event of a task's memory.
    fn name(task: NonNull<T>, times: u32) -> usize {
        let (address, times) = (task.as_ptr() as usize, times as usize);
        assert_eq!(address & !Self::ADDRESS, 0, "an address of another kind");
        address | times >> Self::LOW_TIMES << 48 | (times & ((1 << Self::LOW_TIMES) - 1)) << 1 | MARK
    }

    /// What a name says.
    pub fn named(event: usize) -> (Option<NonNull<T>>, u32) {
        let times = event >> 48 << Self::LOW_TIMES | event >> 1 & ((1 << Self::LOW_TIMES) - 1);
        (NonNull::new((event & Self::ADDRESS) as *mut T), times as u32)
    }
}

/// Whether an event of this name is one of ours.
#[must_use]
pub fn is_ours(event: usize) -> bool {
    event & MARK != 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Aligned as tasks are.
    #[repr(align(64))]
    struct Aligned;

    fn open() -> Event<Aligned> {
        let event = Event::new();
        assert_eq!(event.open_again(), 1);
        event
    }

    #[test]
    fn who_comes_second_has_the_task() {
        let event = open();
        assert_eq!((event.body_ends(), event.has_left(), event.fulfil(1)), (false, true, Fulfilled::Ours));
        let event = open();
        assert_eq!((event.fulfil(1), event.body_ends()), (Fulfilled::Nobodys, true));
    }

    #[test]
    fn who_awaits_it_is_woken() {
        let event = open();
        event.is_awaited_by(70);
        assert_eq!(
            (event.is_fulfilled(), event.fulfil(1), event.is_fulfilled()),
            (false, Fulfilled::Awaited(70), true)
        );
    }

    #[test]
    fn what_is_fulfilled_twice_or_closed_is_nobodys() {
        let event = open();
        event.body_ends();
        assert_eq!((event.fulfil(1), event.fulfil(1)), (Fulfilled::Ours, Fulfilled::Nobodys));
        event.close();
        assert_eq!((event.fulfil(1), event.is_fulfilled()), (Fulfilled::Nobodys, false));
    }

    #[test]
    fn an_event_is_not_fulfilled_by_the_name_of_one_that_was_in_its_place() {
        let event = open();
        event.close();
        assert_eq!(event.open_again(), 2);
        assert_eq!((event.fulfil(1), event.is_fulfilled()), (Fulfilled::Nobodys, false));
        event.is_awaited_by(u16::MAX.into());
        assert_eq!((event.fulfil(2), event.is_fulfilled()), (Fulfilled::Awaited(u16::MAX.into()), true));
    }

    #[test]
    fn a_name_says_where_and_how_often() {
        let task = NonNull::new(0x7fff_ffff_ffc0 as *mut Aligned).unwrap();
        for times in [1, 31, 32, 33, Event::<Aligned>::ALL_TIMES] {
            let name = Event::name(task, times);
            assert!(is_ours(name));
            assert_eq!(Event::named(name), (Some(task), times));
        }
        let event = Event::<Aligned>::new();
        event.times.set(Event::<Aligned>::ALL_TIMES);
        assert_eq!(event.open_again(), 0);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    fn open() -> Arc<Event<u16>> {
        let event = Event::new();
        event.open_again();
        Arc::new(event)
    }

    // SAFETY: in a model nobody looks at its home.
    unsafe impl Sync for Event<u16> {}
    // SAFETY: as above.
    unsafe impl Send for Event<u16> {}

    /// The body ends while somebody fulfils the event: exactly one of the two has the task.
    #[test]
    fn a_task_has_one_owner() {
        loom::model(|| {
            let event = open();
            let other = event.clone();
            let fulfils = loom::thread::spawn(move || other.fulfil(1) == Fulfilled::Ours);
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
            let fulfils = loom::thread::spawn(move || other.fulfil(1) == Fulfilled::Awaited(5));
            event.is_awaited_by(5);
            let need_not_wait = event.is_fulfilled();
            assert!(fulfils.join().unwrap() || need_not_wait);
        });
    }
}
