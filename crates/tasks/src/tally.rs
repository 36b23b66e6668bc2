//! Counter of a task's unfinished children, or of a group's unfinished tasks. The thread that ends the last of them wakes the waiting
//! thread, or frees the task.
//!
//! The task itself counts the children that it makes, and those that end on its own thread while it waits: no other thread reads these two
//! numbers. Children that end on other threads are counted here, in one atomic word. So a program whose tasks are not stolen executes no
//! atomic operation for them.
//!
//! The lower half of the word is a number, which may be negative ([`ZERO`] is its offset). The upper half is a state:
//!
//! 1. While the task runs, the state is [`RUNS`], and the number is how many children have ended on other threads. No thread waits.
//! 2. When the task wants to wait, or has ended, it subtracts (children that it made − children that ended on its own thread) from the
//!    number, and sets the state to the thread to wake, or to [`ENDED`]. Now the number is 0 − (unfinished children).
//! 3. The child that brings the number to zero in one of these states wakes that thread, or frees the task. The word has told it what to
//!    do, so it does not touch the task after its own count: the waiting task may continue, end and be freed as soon as the number is zero.

use crate::sync::{AtomicU64, Ordering};

/// Offset of the number. Because of it, negative numbers fit into the lower half of the word, too.
const ZERO: u64 = 1 << 31;
const NUMBER: u64 = u32::MAX as u64;
const NAME_AT: u32 = 32;

/// The state of a task that runs.
const RUNS: u64 = 0;
/// The state of a task that has ended.
const ENDED: u64 = u32::MAX as u64;

/// The counter in a task.
pub struct Tally(AtomicU64);

/// What a thread has to do after it has counted the end of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Nothing: other children are unfinished, or no thread waits.
    Nothing,
    /// The last child has ended, and the thread of this number waits for it: wake that thread.
    Wake(u32),
    /// The last child has ended, and the task itself had ended before: the thread that has counted the child's end frees the task.
    Free,
}

impl Tally {
    /// Makes the counter of a new task.
    pub fn new() -> Tally {
        Tally(AtomicU64::new(ZERO))
    }

    /// Counts a child that has ended on another thread than its parent's.
    #[inline]
    pub fn count(&self) -> Counted {
        // Release: makes this child's writes visible to the thread that counts the last child. Acquire: if this is the last child, the
        // other children's writes are visible here.
        let after = self.0.fetch_add(1, Ordering::AcqRel) + 1;
        match after >> NAME_AT {
            RUNS => Counted::Nothing,
            _ if after & NUMBER != ZERO => Counted::Nothing,
            ENDED => Counted::Free,
            slot => Counted::Wake((slot - 1) as u32),
        }
    }

    /// Adds one unfinished task to the count. Any thread may call this while another of the counted tasks is unfinished. Needed for tasks
    /// that the waiting task does not create itself. There are two cases: many threads create the tasks of a group; and a child that runs a
    /// range of a loop on another thread may split off a part of the range, which becomes a further child of the same parent.
    #[inline]
    pub fn expect_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns how many children have ended on other threads since the task last waited. Called by the task itself, while it runs.
    #[inline]
    pub fn ended_elsewhere(&self) -> u32 {
        (self.0.load(Ordering::Acquire) & NUMBER).wrapping_sub(ZERO) as u32
    }

    /// Registers that the task waits for its children, and that the thread `slot` has to be woken when they have ended. `missing`: number
    /// of children that the task's thread has created, minus the number that have ended on it. It is in two's complement, because it is
    /// negative if children that other threads created have ended on this thread. Returns whether some children are still unfinished.
    #[inline]
    pub fn ask(&self, missing: u32, slot: u32) -> bool {
        let (change, missing) = ((u64::from(slot) + 1) << NAME_AT, signed(missing));
        let before = self.0.fetch_add(change.wrapping_sub(missing), Ordering::AcqRel);
        before.wrapping_sub(missing) & NUMBER != ZERO
    }

    /// Returns whether all children that the task waits for have ended. Called after [`ask`](Tally::ask).
    #[inline]
    pub fn is_enough(&self) -> bool {
        self.0.load(Ordering::Acquire) & NUMBER == ZERO
    }

    /// Resets the counter. Called when the task knows that all its children have ended.
    #[inline]
    pub fn reset(&self) {
        self.0.store(ZERO, Ordering::Relaxed);
    }

    /// Registers that the task has ended. `missing`: number of children that the task's thread has created, minus the number that have ended
    /// on it, in two's complement. Returns true if no child is unfinished: then the calling thread frees the task.
    #[inline]
    pub fn end(&self, missing: u32) -> bool {
        let missing = signed(missing);
        let before = self.0.fetch_add((ENDED << NAME_AT).wrapping_sub(missing), Ordering::AcqRel);
        before.wrapping_sub(missing) & NUMBER == ZERO
    }
}

/// Extends the sign of a 32-bit number in two's complement to 64 bits.
fn signed(number: u32) -> u64 {
    i64::from(number.cast_signed()).cast_unsigned()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn while_the_task_runs_it_only_counts() {
        let tally = Tally::new();
        assert_eq!((tally.count(), tally.count()), (Counted::Nothing, Counted::Nothing));
        assert_eq!(tally.ended_elsewhere(), 2);
    }

    #[test]
    fn the_last_one_wakes_the_slot_that_asked() {
        let tally = Tally::new();
        tally.count();
        assert!(tally.ask(3, 0), "two are left");
        assert_eq!((tally.count(), tally.is_enough()), (Counted::Nothing, false));
        assert_eq!((tally.count(), tally.is_enough()), (Counted::Wake(0), true));
        tally.reset();
        assert_eq!((tally.count(), tally.ended_elsewhere()), (Counted::Nothing, 1));
    }

    #[test]
    fn who_asks_too_late_need_not_wait() {
        let tally = Tally::new();
        tally.count();
        assert!(!tally.ask(1, 70_000));
        assert!(tally.is_enough());
    }

    #[test]
    fn the_last_of_an_ended_task_frees_it() {
        let tally = Tally::new();
        tally.count();
        assert!(!tally.end(3));
        assert_eq!((tally.count(), tally.count()), (Counted::Nothing, Counted::Free));
        assert!(Tally::new().end(0));
        let tally = Tally::new();
        tally.count();
        assert!(tally.end(1));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;

    /// Two children end on other threads while their parent ends: exactly one of the three threads frees the parent.
    #[test]
    fn it_is_freed_once() {
        loom::model(|| {
            let tally = Arc::new(Tally::new());
            let freed = Arc::new(AtomicU32::new(0));
            let children: Vec<_> = (0..2)
                .map(|_| {
                    let (tally, freed) = (tally.clone(), freed.clone());
                    loom::thread::spawn(move || {
                        if tally.count() == Counted::Free {
                            freed.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            if tally.end(2) {
                freed.fetch_add(1, Ordering::Relaxed);
            }
            children.into_iter().for_each(|child| child.join().unwrap());
            assert_eq!(freed.load(Ordering::Relaxed), 1);
        });
    }

    /// Two children end on other threads while their parent begins to wait: the parent is woken once, or need not wait.
    #[test]
    fn a_wake_is_never_lost() {
        loom::model(|| {
            let tally = Arc::new(Tally::new());
            let woken = Arc::new(AtomicU32::new(0));
            let children: Vec<_> = (0..2)
                .map(|_| {
                    let (tally, woken) = (tally.clone(), woken.clone());
                    loom::thread::spawn(move || {
                        if tally.count() == Counted::Wake(4) {
                            woken.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            let waits = tally.ask(2, 4);
            children.into_iter().for_each(|child| child.join().unwrap());
            assert!(tally.is_enough());
            assert_eq!(woken.load(Ordering::Relaxed), waits.into());
        });
    }
}
