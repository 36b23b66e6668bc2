//! A task's event (OpenMP's `detach` clause). The task is complete when its body has ended and the event is fulfilled.
//!
//! Any thread may fulfil an event, before or after the body has ended, even a thread that belongs to no team and runs no tasks. One word
//! records which came first: the end of the body or the event. The thread that comes second owns the task:
//!
//! 1. If the body ends second, its thread continues as with any other task.
//! 2. If the event comes second, the fulfilling thread may be unable to end tasks: it may have no slot in the team and no task memory. So the
//!    task goes back into its team's queue. There it comes before all other tasks, because ending it costs nearly nothing and may release
//!    others. The thread that takes it does not run the body again, but only ends the task.
//! 3. If the creator runs the task immediately, the creator itself waits for the event and then ends the task. While it waits, the word also
//!    holds the number of its thread. The fulfilling thread gets this number together with the word, and wakes the creator by it. It must
//!    not read anything from the task then, because the task may be freed as soon as its event is fulfilled.
//!
//! The program is not told that a task was cancelled. So it may fulfil an event after the task's memory became another task's. Therefore
//! both the event's handle and the word contain the number of events that have been opened in that memory.
//!
//! *Rejected alternative:* the thread that fulfils the event ends the task. A thread without a slot would then change the counts of the
//! parent, the group and the slot. That would make these counts slower for all tasks, although nearly all tasks have no event.

use std::cell::Cell;
use std::ptr::NonNull;

use crate::sync::{AtomicU64, Ordering};

/// The task has an event, and has not ended.
const OPEN: u64 = 1;
const FULFILLED: u64 = 1 << 1;
const BODY_ENDED: u64 = 1 << 2;
/// Position of a bit field in the word: the number of the thread that waits for the event, plus one; 0 if none waits.
const THREAD_AT: u32 = 3;
/// Position of a bit field in the word: the event's number, that is, how many events have been opened in this task memory so far. (The
/// memory of an ended task is reused.)
const TIMES_AT: u32 = 32;

/// A bit that is set in all event handles of this crate, so they are odd. Handles of other libraries are addresses of objects, and no
/// object has an odd address.
const MARK: usize = 1;
/// Number of bits above the address in a handle. They hold the upper bits of the event's number (how many events have been opened so far in
/// the task's memory, which is reused).
const HIGH_TIMES: u32 = 16;

/// The team to which a task goes back if its event is fulfilled after its body has ended.
pub(crate) trait Home<T> {
    /// Puts the task into the team's queue, before all other tasks. Any thread may call this.
    fn put_back(&self, task: NonNull<T>);
}

/// A task's event, if it has one.
pub(crate) struct Event<T> {
    word: AtomicU64,
    /// The number of the latest event: how many events have been opened in this task memory, which other tasks used before. Written by the
    /// thread that creates the task.
    times: Cell<u32>,
    /// The task's team. Written before the event is visible to other threads.
    home: Cell<Option<NonNull<dyn Home<T>>>>,
}

/// The owner of the task after the event was fulfilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fulfilled {
    /// No new owner: the body has not ended, so the task belongs to the thread that runs it; or the event no longer exists.
    Nobodys,
    /// The thread that has fulfilled the event.
    Ours,
    /// The thread of this number, which waits for the event.
    Awaited(u32),
}

impl<T> Event<T> {
    /// The bits that can be set in the address of a task: tasks are aligned, and user space ends below 2^48.
    const ADDRESS: usize = (1 << 48) - align_of::<T>();
    /// Number of bits in a handle between bit 0, which is always set, and the task's address. They hold the lower bits of the event's
    /// number (how many events have been opened so far in the task's memory, which is reused).
    const LOW_TIMES: u32 = align_of::<T>().trailing_zeros() - 1;
    /// The largest number of an event. The event that is opened next in the same task memory has the number 0.
    const ALL_TIMES: u32 = (1 << (Self::LOW_TIMES + HIGH_TIMES)) - 1;

    /// Makes the state of a task without an event.
    pub fn new() -> Event<T> {
        Event { word: AtomicU64::new(0), times: Cell::new(0), home: Cell::new(None) }
    }

    /// Removes the event, because its task has ended.
    #[inline]
    pub fn close(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// Opens the event of a task that is not yet visible to other threads. Returns the event's handle.
    pub fn open(&self, task: NonNull<T>, home: &(dyn Home<T> + 'static)) -> usize {
        self.home.set(Some(NonNull::from(home)));
        Self::name(task, self.open_again())
    }

    /// Returns the team of the task for which an event was last opened in this memory; `None` if none was ever opened.
    pub fn home(&self) -> Option<NonNull<dyn Home<T>>> {
        self.home.get()
    }

    /// Opens the event. Returns its number: how many events have been opened in this task memory so far, including this one.
    fn open_again(&self) -> u32 {
        let times = self.times.get().wrapping_add(1) & Self::ALL_TIMES;
        self.times.set(times);
        self.word.store(OPEN | u64::from(times) << TIMES_AT, Ordering::Release);
        times
    }

    /// Returns whether the body has ended. Called by the thread that took the task from a queue: true means that the event is fulfilled and
    /// the task only has to be ended.
    pub fn has_left(&self) -> bool {
        self.word.load(Ordering::Acquire) & BODY_ENDED != 0
    }

    /// Called when the body returns. True: the event is fulfilled and the task complete. False: the thread that fulfils the event owns the
    /// task, and this thread must not touch it.
    pub fn body_ends(&self) -> bool {
        // Release: makes the writes of the body visible to the thread that ends the task. Acquire: if the event is fulfilled, what was
        // written before that is visible here.
        self.word.fetch_or(BODY_ENDED, Ordering::AcqRel) & FULFILLED != 0
    }

    /// Called when the body has returned and this thread is about to wait until the event [is fulfilled](Event::is_fulfilled).
    pub fn is_awaited_by(&self, thread: u32) {
        self.word.fetch_or((u64::from(thread) + 1) << THREAD_AT, Ordering::AcqRel);
    }

    /// Returns whether the event is fulfilled.
    pub fn is_fulfilled(&self) -> bool {
        self.word.load(Ordering::Acquire) & FULFILLED != 0
    }

    /// Fulfils the event with the number `times` (the `times`-th event that was opened in this task memory), if it is still open. Returns
    /// the task's owner.
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

    /// Returns the handle of the `times`-th event that was opened in a task's memory.
    fn name(task: NonNull<T>, times: u32) -> usize {
        let (address, times) = (task.as_ptr() as usize, times as usize);
        assert_eq!(address & !Self::ADDRESS, 0, "the address of a task has unexpected bits");
        address | times >> Self::LOW_TIMES << 48 | (times & ((1 << Self::LOW_TIMES) - 1)) << 1 | MARK
    }

    /// Splits a handle into the task's address and the event's number in that memory.
    pub fn named(event: usize) -> (Option<NonNull<T>>, u32) {
        let times = event >> 48 << Self::LOW_TIMES | event >> 1 & ((1 << Self::LOW_TIMES) - 1);
        (NonNull::new((event & Self::ADDRESS) as *mut T), times as u32)
    }
}

/// Returns whether an event handle was made by this crate.
#[must_use]
pub fn is_ours(event: usize) -> bool {
    event & MARK != 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A type with the alignment of tasks.
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

    // SAFETY: the loom tests below initialise an event before two threads share it. From then on the threads access only its atomic word.
    unsafe impl Sync for Event<u16> {}
    // SAFETY: the loom tests below initialise an event before two threads share it. From then on the threads access only its atomic word.
    unsafe impl Send for Event<u16> {}

    /// The body ends while another thread fulfils the event: exactly one of the two threads then owns the task.
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

    /// The task's creator begins to wait while another thread fulfils the event: the creator is woken, or need not wait.
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
