//! How many of a task's children (or of a group's tasks) have not ended yet, and who has to be told when none is left.
//!
//! A task that creates children counts them by itself, and so it does with those that end on its own thread while it
//! waits: no other thread looks at these two numbers. Children that end elsewhere are counted here, in one atomic
//! word; so a program whose tasks are not stolen pays no atomic operation for them at all.
//!
//! The word is a number around [`ZERO`] with a name above it:
//!
//! 1. While the task runs, the name is [`RUNS`] and the number is how many children have ended elsewhere. Nobody asks when
//!    it will be enough.
//! 2. When the task wants to wait, or has ended, it takes off how many it still misses and puts a name: of the seat to be
//!    woken, or [`ENDED`]. Now the number is below zero by the children that are left.
//! 3. Who brings it to zero under a name wakes that seat, or frees the task. All it needs to know was in the word, so it
//!    does not touch the task after its own count: a task that waits may go on, end and be freed the moment it is enough.

use crate::sync::{AtomicU64, Ordering};

/// The number's offset: it never leaves the lower half of the word on either side.
const ZERO: u64 = 1 << 31;
const NUMBER: u64 = u32::MAX as u64;
const NAME_AT: u32 = 32;

/// The name of a task that runs.
const RUNS: u64 = 0;
/// The name of a task that has ended.
const ENDED: u64 = u32::MAX as u64;

/// The counter in a task.
pub struct Tally(AtomicU64);

/// What a count has brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Others are left, or nobody has asked.
    Nothing,
    /// It was the last that this seat waits for.
    Wake(u32),
    /// It was the last of a task that has ended: its memory is the counter's to free.
    Free,
}

impl Tally {
    /// Of a task that is being made.
    pub fn new() -> Tally {
        Tally(AtomicU64::new(ZERO))
    }

    /// A child has ended on another thread than its parent's.
    #[inline]
    pub fn count(&self) -> Counted {
        // Release: what the child did, for whom it is the last. Acquire: what the others did, if we are.
        let after = self.0.fetch_add(1, Ordering::AcqRel) + 1;
        match after >> NAME_AT {
            RUNS => Counted::Nothing,
            _ if after & NUMBER != ZERO => Counted::Nothing,
            ENDED => Counted::Free,
            seat => Counted::Wake((seat - 1) as u32),
        }
    }

    /// One more is to be waited for, made by any thread, while one that is waited for has not ended: for a group, whose tasks have
    /// many makers, and for what a child splits off.
    #[inline]
    pub fn expect_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many have ended elsewhere since the task last waited. The task itself, while it runs.
    #[inline]
    pub fn ended_elsewhere(&self) -> u32 {
        (self.0.load(Ordering::Acquire) & NUMBER).wrapping_sub(ZERO) as u32
    }

    /// The task misses so many (of two's complement: it may have seen more end than it has made), and wants its seat to be woken when they have ended. Whether they have not yet.
    #[inline]
    pub fn ask(&self, missing: u32, seat: u32) -> bool {
        let (change, missing) = ((u64::from(seat) + 1) << NAME_AT, signed(missing));
        let before = self.0.fetch_add(change.wrapping_sub(missing), Ordering::AcqRel);
        before.wrapping_sub(missing) & NUMBER != ZERO
    }

    /// Whether what [`ask`](Tally::ask) wanted has come.
    #[inline]
    pub fn is_enough(&self) -> bool {
        self.0.load(Ordering::Acquire) & NUMBER == ZERO
    }

    /// All have ended, and the task knows: it begins anew.
    #[inline]
    pub fn reset(&self) {
        self.0.store(ZERO, Ordering::Relaxed);
    }

    /// The task has ended, and misses so many. Whether its memory is its own thread's to free: none is left.
    #[inline]
    pub fn end(&self, missing: u32) -> bool {
        let missing = signed(missing);
        let before = self.0.fetch_add((ENDED << NAME_AT).wrapping_sub(missing), Ordering::AcqRel);
        before.wrapping_sub(missing) & NUMBER == ZERO
    }
}

/// A number of 32 bits that may be below zero, as one of 64.
fn signed(number: u32) -> u64 {
    i64::from(number.cast_signed()).cast_unsigned()
}

impl Default for Tally {
    fn default() -> Tally {
        Tally::new()
    }
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
    fn the_last_one_wakes_the_seat_that_asked() {
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

    /// Two children end elsewhere while their parent ends: exactly one of the three frees it.
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

    /// Two children end elsewhere while their parent asks: it is woken once, or need not wait.
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
